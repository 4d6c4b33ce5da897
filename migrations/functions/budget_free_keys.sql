CREATE OR REPLACE FUNCTION budget_free_keys(keys json, places integer[]) RETURNS void
LANGUAGE sql VOLATILE SET search_path = pg_catalog, public AS $$
  DELETE FROM idempotency_keys i USING json_to_recordset(keys) AS k(
    place integer, principal text, route text, key text)
  WHERE k.key IS NOT NULL AND k.place = ANY (places)
    AND i.principal = k.principal AND i.route = k.route AND i.key = k.key
$$;

REVOKE ALL ON FUNCTION budget_free_keys FROM PUBLIC;
