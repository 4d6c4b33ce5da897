-- The remaining budget of each of these plans, in their order.
CREATE OR REPLACE FUNCTION budget_plan_rests(tenants uuid[], ids uuid[]) RETURNS bigint[]
LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
  SELECT array_agg(budget_plan_rest(l.status, l.budget, k.spent, k.reserved) ORDER BY p.place)
  FROM unnest(tenants, ids) WITH ORDINALITY AS p(tenant, id, place)
  JOIN budget_plans l ON l.tenant_id = p.tenant AND l.id = p.id
  JOIN budget_counters k ON k.tenant_id = p.tenant AND k.id = p.id
$$;

REVOKE ALL ON FUNCTION budget_plan_rests FROM PUBLIC;
