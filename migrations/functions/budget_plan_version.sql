-- The version of a plan and of its counter: what either shows changes with it.
CREATE OR REPLACE FUNCTION budget_plan_version(tenant uuid, plan uuid) RETURNS text
LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
  SELECT l.xmin || ' ' || k.xmin FROM budget_plans l
  JOIN budget_counters k ON k.tenant_id = l.tenant_id AND k.id = l.id
  WHERE l.tenant_id = tenant AND l.id = plan
$$;

REVOKE ALL ON FUNCTION budget_plan_version FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budget_plan_version TO application_manager;
