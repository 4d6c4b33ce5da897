-- Claims the idempotency keys of a batch, each with the place of its request, before any counter changes. Returns the places
-- of the requests whose key is taken, so that a repeated request changes nothing.
CREATE OR REPLACE FUNCTION budget_claim_keys(keys json, moment timestamptz) RETURNS integer[]
LANGUAGE sql VOLATILE SET search_path = pg_catalog, public AS $$
  WITH keyed AS (
    SELECT place, id, principal, route, key, request_sha256 FROM json_to_recordset(keys) AS k(
      place integer, id uuid, principal text, route text, key text, request_sha256 text)
    WHERE key IS NOT NULL
  ), claimed AS (
    INSERT INTO idempotency_keys AS i (principal, route, key, request_sha256, status, headers, body, created_at)
    SELECT principal, route, key, decode(request_sha256, 'hex'), 200, '{}', id::text, moment
    FROM keyed ORDER BY principal, route, key
    ON CONFLICT (principal, route, key) DO UPDATE SET request_sha256 = EXCLUDED.request_sha256,
      body = EXCLUDED.body, created_at = EXCLUDED.created_at
    WHERE i.created_at <= moment - interval '24 hours'
    RETURNING i.principal, i.route, i.key
  )
  SELECT coalesce(array_agg(k.place), '{}') FROM keyed k
  WHERE NOT EXISTS (
    SELECT FROM claimed c WHERE c.principal = k.principal AND c.route = k.route AND c.key = k.key)
$$;

REVOKE ALL ON FUNCTION budget_claim_keys FROM PUBLIC;
