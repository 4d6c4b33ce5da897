-- Opens and locks the counters of a request, with others of a plan: all in one order.
CREATE OR REPLACE FUNCTION budget_plan_counters(p json, others uuid[], tenant uuid, moment timestamptz) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  needs budget_need[]; counters uuid[] := '{}';
BEGIN
  SELECT array_agg(ROW(c.tenant, c.cap, c.key, NULL, NULL, NULL)::budget_need ORDER BY c.place) INTO needs
  FROM json_to_recordset(p->'counters') AS c(place integer, tenant uuid, cap uuid, key text);
  IF needs IS NOT NULL THEN counters := budget_open_counters(needs, moment); END IF;
  PERFORM budget_lock_counters(
    ARRAY[tenant, all_tenants()], counters || others, moment);
  RETURN counters;
END
$$;

REVOKE ALL ON FUNCTION budget_plan_counters FROM PUBLIC;
