-- Lets the caps that there are count what was generated of their current periods, as if they had been made at a moment before
-- it. Caps of rolling windows count from now on; of those that count each value, the ones that count each agent.
CREATE OR REPLACE FUNCTION usage_generate_counts(moment timestamptz) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, public SET work_mem = '64MB' AS $$
  UPDATE budget_caps SET created_at = moment, updated_at = moment WHERE period <> 'rolling';
  WITH counted AS MATERIALIZED (
    SELECT e.tenant_id, e.id, c.tenant_id AS owner, c.id AS cap_id, c.unit, c.limit_amount, p.starts, p.ends,
      CASE c.scope->>'agentId' WHEN 'each' THEN format('{"agentId":"%s"}', u.agent_id) ELSE '' END AS counter_key,
      CASE c.unit WHEN 'usd' THEN e.amount WHEN 'tokens' THEN e.tokens ELSE e.requests END AS quantity
    FROM budget_caps c
    CROSS JOIN LATERAL budget_period(c.period, c.time_zone, c.anchor, now()) p
    JOIN budget_entries e ON e.tenant_id = c.tenant_id AND e.occurred_at >= p.starts AND e.occurred_at < p.ends
    JOIN usage_rows u ON u.tenant_id = e.tenant_id AND u.charge_id = e.charge_id AND u.method <> 'refunded'
    WHERE c.period <> 'rolling' AND e.counter_ids = '{}'
      AND coalesce(c.scope->>'agentId', 'each') IN ('each', u.agent_id::text)
      AND coalesce(c.scope->>'model', u.model) = u.model AND coalesce(c.scope->>'provider', u.provider) = u.provider
      AND coalesce(c.scope->>'taskType', u.task_type) = u.task_type AND coalesce(c.scope->>'userId', u.user_id) = u.user_id
  ), opened AS (
    INSERT INTO budget_counters (tenant_id, id, cap_id, counter_key, period_start, period_end, unit, created_at, spent,
      cap_limit, use_level)
    SELECT o.owner, new_id(), o.cap_id, o.counter_key, o.starts, o.ends, o.unit, moment, o.spent, o.limit_amount,
      budget_counter_level(o.spent, o.limit_amount)
    FROM (
      SELECT owner, cap_id, counter_key, starts, ends, unit, limit_amount, sum(quantity)::bigint AS spent
      FROM counted GROUP BY 1, 2, 3, 4, 5, 6, 7
    ) o
    RETURNING id, cap_id, counter_key
  )
  UPDATE budget_entries e SET counter_ids = n.counters
  FROM (
    SELECT c.tenant_id, c.id, array_agg(o.id) AS counters
    FROM counted c JOIN opened o ON o.cap_id = c.cap_id AND o.counter_key = c.counter_key GROUP BY 1, 2
  ) n
  WHERE e.tenant_id = n.tenant_id AND e.id = n.id
$$;

REVOKE ALL ON FUNCTION usage_generate_counts FROM PUBLIC;
