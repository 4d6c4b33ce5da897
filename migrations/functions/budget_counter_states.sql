-- Reads locked counters, in the order of `needs`, and what their caps allow. A cap that was deleted or paused refuses nothing.
-- The counter of a plan has the plan's id, and its budget as the limit.
CREATE OR REPLACE FUNCTION budget_counter_states(moment timestamptz, needs budget_need[], counters uuid[], has_plans boolean)
RETURNS budget_counter_state[]
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public AS $$
BEGIN
  RETURN ARRAY(
    SELECT ROW(n.tenant_id, n.cap_id, n.counter_key, b.id, b.unit,
      CASE WHEN l.id IS NOT NULL THEN 'hard' WHEN c.status = 'active' AND c.deleted_at IS NULL THEN c.mode ELSE 'soft' END,
      coalesce(l.budget, CASE WHEN c.id IS NOT NULL THEN
        least(9223372036854775807, c.limit_amount + coalesce((
          SELECT sum(g.amount) FROM budget_grants g
          WHERE g.tenant_id = b.tenant_id AND g.cap_id = b.cap_id AND g.ended_at IS NULL
            AND (g.expires_at IS NULL OR g.expires_at > moment)
            AND (g.counter_key IS NULL OR g.counter_key = b.counter_key)), 0))::bigint END),
      b.spent, b.reserved, 0, budget_millis(b.period_end), coalesce(c.alert_thresholds <> '[]', false), NULL)::budget_counter_state
    FROM unnest(needs) WITH ORDINALITY n
    LEFT JOIN budget_counters b ON b.tenant_id = n.tenant_id AND b.id = counters[n.ordinality]
    LEFT JOIN budget_caps c ON c.tenant_id = b.tenant_id AND c.id = b.cap_id
    LEFT JOIN budget_plans l ON has_plans AND l.tenant_id = b.tenant_id AND l.id = b.cap_id
    ORDER BY n.ordinality);
END
$$;

REVOKE ALL ON FUNCTION budget_counter_states FROM PUBLIC;
