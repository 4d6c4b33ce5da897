-- Opens and locks the counters of a request, with others of a plan: all in one order.
CREATE OR REPLACE FUNCTION budget_plan_counters(p json, others uuid[], tenant uuid, moment timestamptz) RETURNS uuid[]
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  tenants uuid[]; caps uuid[]; keys text[]; counters uuid[] := '{}';
BEGIN
  SELECT array_agg(c.tenant ORDER BY c.place), array_agg(c.cap ORDER BY c.place), array_agg(c.key ORDER BY c.place)
  INTO tenants, caps, keys
  FROM json_to_recordset(p->'counters') AS c(place integer, tenant uuid, cap uuid, key text);
  IF caps IS NOT NULL THEN counters := budget_open_counters(tenants, caps, keys, moment); END IF;
  PERFORM budget_lock_counters(
    ARRAY[tenant, '00000000-0000-0000-0000-000000000000'], counters || others, moment);
  RETURN counters;
END
$$;

REVOKE ALL ON FUNCTION budget_plan_counters FROM PUBLIC;
