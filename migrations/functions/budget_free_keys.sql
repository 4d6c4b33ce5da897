CREATE OR REPLACE FUNCTION budget_free_keys(requests json, places integer[]) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, public AS $$
  DELETE FROM idempotency_keys i USING json_to_recordset(requests) AS r(
    place integer, principal text, route text, key text)
  WHERE r.key IS NOT NULL AND r.place = ANY (places)
    AND i.principal = r.principal AND i.route = r.route AND i.key = r.key
$$;

REVOKE ALL ON FUNCTION budget_free_keys FROM PUBLIC;
