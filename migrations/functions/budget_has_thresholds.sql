-- Whether any of the caps of these counters has alerts. Counters are read first, by id: otherwise the planner starts
-- with the caps and reads all past periods of each.
CREATE OR REPLACE FUNCTION budget_has_thresholds(counters uuid[], tenants uuid[]) RETURNS boolean
LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
  WITH moved AS MATERIALIZED (
    SELECT DISTINCT tenant_id, cap_id FROM budget_counters WHERE tenant_id = ANY (tenants) AND id = ANY (counters))
  SELECT EXISTS (
    SELECT FROM moved m JOIN budget_caps c ON c.tenant_id = m.tenant_id AND c.id = m.cap_id
    WHERE c.alert_thresholds <> '[]')
$$;

REVOKE ALL ON FUNCTION budget_has_thresholds FROM PUBLIC;
