-- The answers to the first requests under the keys at these places: reservations as they are, or as the key keeps them.
CREATE OR REPLACE FUNCTION budget_replays(keys json, places integer[]) RETURNS json
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  SELECT coalesce(json_agg(json_build_object('place', k.place, 'sha256', encode(i.request_sha256, 'hex'),
    'reservation', CASE WHEN b.id IS NULL THEN i.body::json ELSE to_json(b) END)), '[]')
  FROM json_to_recordset(keys) AS k(place integer, tenant uuid, principal text, route text, key text)
  JOIN idempotency_keys i ON i.principal = k.principal AND i.route = k.route AND i.key = k.key
  LEFT JOIN budget_reservations b ON b.id = CASE WHEN i.body NOT LIKE '{%' THEN i.body::uuid END
  WHERE k.place = ANY (places)
$$;

REVOKE ALL ON FUNCTION budget_replays FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budget_replays TO application_manager;
