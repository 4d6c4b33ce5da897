-- Adjusts what plans reserve on their caps to their remaining budget, which was `rests` before.
CREATE OR REPLACE FUNCTION budget_plan_hold(tenants uuid[], ids uuid[], rests bigint[]) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, public AS $$
  UPDATE budget_counters c SET spent = c.spent, reserved = c.reserved + d.delta
  FROM (
    SELECT o.tenant_id, o.id, sum(p.now_left - p.left_before)::bigint AS delta
    FROM unnest(tenants, ids, rests, budget_plan_rests(tenants, ids)) AS p(tenant, id, left_before, now_left)
    JOIN budget_plans l ON l.tenant_id = p.tenant AND l.id = p.id
    CROSS JOIN LATERAL unnest(l.counter_ids) AS e(counter)
    JOIN budget_counters o ON o.id = e.counter
      AND o.tenant_id IN (p.tenant, all_tenants())
    WHERE p.now_left <> p.left_before
    GROUP BY o.tenant_id, o.id
  ) d
  WHERE c.tenant_id = d.tenant_id AND c.id = d.id AND d.delta <> 0
$$;

REVOKE ALL ON FUNCTION budget_plan_hold FROM PUBLIC;
