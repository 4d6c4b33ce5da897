import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // What a counter may come to: the limit of its cap and the grants that run.
  yield* sql`
    CREATE FUNCTION budget_limit(tenant uuid, cap uuid, key text, moment timestamptz) RETURNS bigint
    LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
      SELECT c.limit_amount + coalesce((
        SELECT sum(g.amount) FROM budget_grants g
        WHERE g.tenant_id = tenant AND g.cap_id = cap AND g.ended_at IS NULL
          AND (g.expires_at IS NULL OR g.expires_at > moment)
          AND (g.counter_key IS NULL OR g.counter_key = key)), 0)::bigint
      FROM budget_caps c WHERE c.tenant_id = tenant AND c.id = cap
    $$`

  // What a period will have spent at its end, at the rate so far; a tenth of it must be over to tell.
  yield* sql`
    CREATE FUNCTION budget_forecast(spent bigint, starts timestamptz, ends timestamptz, moment timestamptz) RETURNS numeric
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog AS $$
      SELECT CASE
        WHEN NOT isfinite(starts) OR NOT isfinite(ends) THEN NULL
        WHEN moment >= ends THEN spent::numeric
        WHEN extract(epoch FROM moment - starts) * 10 < extract(epoch FROM ends - starts) THEN NULL
        ELSE round(spent * extract(epoch FROM ends - starts) / extract(epoch FROM moment - starts))
      END
    $$`

  // Notes the thresholds that locked counters have passed, each once; one of a rolling window is armed again below it.
  yield* sql`
    CREATE FUNCTION budget_note_alerts(moment timestamptz, counters uuid[]) RETURNS void
    LANGUAGE plpgsql SET search_path = pg_catalog, public AS $$
    BEGIN
      WITH facts AS (
        SELECT b.tenant_id, b.id, b.cap_id, b.spent, b.reserved, b.fired, b.ring IS NOT NULL AS rolling,
          budget_limit(b.tenant_id, b.cap_id, b.counter_key, moment) AS lim,
          budget_forecast(b.spent, b.period_start, b.period_end, moment) AS forecast, c.alert_thresholds
        FROM budget_counters b JOIN budget_caps c ON c.tenant_id = b.tenant_id AND c.id = b.cap_id
        WHERE b.id = ANY (counters) AND c.deleted_at IS NULL AND c.alert_thresholds <> '[]'
      ), passed AS (
        SELECT f.tenant_id, f.id, f.cap_id, f.spent, f.reserved, f.fired, f.rolling, f.lim, t.measure, t.percent,
          t.percent * 3 + CASE t.measure WHEN 'spent' THEN 0 WHEN 'committed' THEN 1 ELSE 2 END AS code
        FROM facts f, jsonb_to_recordset(f.alert_thresholds) AS t(measure text, percent integer)
        WHERE t.percent::numeric * f.lim <= 100 * CASE t.measure
          WHEN 'spent' THEN f.spent WHEN 'committed' THEN f.spent::numeric + f.reserved ELSE f.forecast END
          AND f.spent + f.reserved > 0
      ), codes AS (
        SELECT f.tenant_id, f.id, coalesce(array_agg(DISTINCT c ORDER BY c) FILTER (WHERE c IS NOT NULL), '{}') AS fired
        FROM facts f LEFT JOIN LATERAL (
          SELECT code FROM passed p WHERE p.tenant_id = f.tenant_id AND p.id = f.id
          UNION SELECT unnest(f.fired) WHERE NOT f.rolling) AS o(c) ON true
        GROUP BY f.tenant_id, f.id
      ), kept AS (
        UPDATE budget_counters b SET fired = codes.fired FROM codes
        WHERE b.tenant_id = codes.tenant_id AND b.id = codes.id AND b.fired <> codes.fired
      )
      INSERT INTO budget_alerts (tenant_id, cap_id, counter_id, measure, percent, limit_amount, spent, reserved, occurred_at)
      SELECT tenant_id, cap_id, id, measure, percent, lim, spent, reserved, moment
      FROM passed WHERE NOT code = ANY (fired);
    END
    $$`

  yield* sql`
    CREATE FUNCTION budget_has_thresholds(counters uuid[], tenants uuid[]) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
      SELECT EXISTS (
        SELECT FROM budget_counters b JOIN budget_caps c ON c.tenant_id = b.tenant_id AND c.id = b.cap_id
        WHERE b.tenant_id = ANY (tenants) AND b.id = ANY (counters) AND c.alert_thresholds <> '[]')
    $$`

  // Entries of the audit log as the service words them, of the requests at these places: in bulk, and in the statement of
  // what they record. The tenant is known here only.
  yield* sql`
    CREATE FUNCTION budget_audit(
      entries json, places integer[], tenants uuid[], moment timestamptz) RETURNS void
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, public AS $$
      INSERT INTO audit_entries (occurred_at, action_type, entity_type, entity_id, user_id, actor_type, tenant_id, outcome,
        ip_address, user_agent, trace_id, changes, transaction_id)
      SELECT moment, e.action_type, e.entity_type, e.entity_id, e.user_id, e.actor_type, u.tenant,
        'success', e.ip_address, e.user_agent, e.trace_id, e.changes, pg_current_xact_id()
      FROM json_to_recordset(entries) AS e(place integer, action_type text, entity_type text, entity_id text,
        user_id text, actor_type text, ip_address text, user_agent text, trace_id text, changes jsonb)
      JOIN unnest(places, tenants) AS u(place, tenant) ON u.place = e.place
    $$`

  // Claims the idempotency keys of a batch before anything moves; answers the places of those requests whose key is taken,
  // so that whoever repeats a request moves nothing.
  yield* sql`
    CREATE FUNCTION budget_claim_keys(requests json, moment timestamptz) RETURNS integer[]
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, public AS $$
      WITH keyed AS (
        SELECT place, id, principal, route, key, request_sha256 FROM json_to_recordset(requests) AS r(
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
    $$`
  yield* sql`
    CREATE FUNCTION budget_replays(requests json, places integer[]) RETURNS json
    LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
      SELECT coalesce(json_agg(json_build_object('place', r.place, 'sha256', encode(i.request_sha256, 'hex'),
        'reservation', to_json(b))), '[]')
      FROM json_to_recordset(requests) AS r(place integer, tenant uuid, principal text, route text, key text)
      JOIN idempotency_keys i ON i.principal = r.principal AND i.route = r.route AND i.key = r.key
      JOIN budget_reservations b ON b.id = i.body::uuid
      WHERE r.place = ANY (places)
    $$`
  yield* sql`
    CREATE FUNCTION budget_free_keys(requests json, places integer[]) RETURNS void
    LANGUAGE sql VOLATILE SET search_path = pg_catalog, public AS $$
      DELETE FROM idempotency_keys i USING json_to_recordset(requests) AS r(
        place integer, principal text, route text, key text)
      WHERE r.key IS NOT NULL AND r.place = ANY (places)
        AND i.principal = r.principal AND i.route = r.route AND i.key = r.key
    $$`

  // The rows that count for caps now, in the order asked; made where the period is new. Rows are made in one order and
  // locked in one order by everybody, so nobody waits in a circle.
  yield* sql`
    CREATE FUNCTION budget_find_counters(tenants uuid[], caps uuid[], keys text[], moment timestamptz) RETURNS uuid[]
    LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
      SELECT array_agg(b.id ORDER BY k.place)
      FROM unnest(tenants, caps, keys) WITH ORDINALITY AS k(tenant, cap, key, place)
      LEFT JOIN LATERAL (
        SELECT id, period_end FROM budget_counters b
        WHERE b.tenant_id = k.tenant AND b.cap_id = k.cap AND b.counter_key = k.key
        ORDER BY b.period_start DESC LIMIT 1) b ON b.period_end > moment
    $$`
  yield* sql`
    CREATE FUNCTION budget_open_counters(tenants uuid[], caps uuid[], keys text[], moment timestamptz) RETURNS uuid[]
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
    DECLARE
      found uuid[] := budget_find_counters(tenants, caps, keys, moment);
    BEGIN
      IF array_position(found, NULL) IS NULL THEN RETURN found; END IF;
      INSERT INTO budget_counters (tenant_id, id, cap_id, counter_key, period_start, period_end, unit, created_at,
        bucket_seconds, ring_head, ring)
      SELECT c.tenant_id, new_id(), c.id, k.key, greatest(p.starts, last.period_end), p.ends, c.unit, moment,
        ring.seconds, budget_bucket(moment, ring.seconds),
        CASE WHEN ring.seconds IS NOT NULL THEN
          array_fill(0::bigint, ARRAY[ceil(c.window_seconds::numeric / ring.seconds)::integer + 1]) END
      FROM unnest(tenants, caps, keys, found) AS k(tenant, cap, key, id)
      JOIN budget_caps c ON c.tenant_id = k.tenant AND c.id = k.cap
      CROSS JOIN LATERAL budget_period(c.period, c.time_zone, c.anchor, moment) p
      CROSS JOIN LATERAL (SELECT ceil(c.window_seconds / 60.0)::integer AS seconds) ring
      LEFT JOIN LATERAL (
        SELECT max(b.period_end) AS period_end FROM budget_counters b
        WHERE b.tenant_id = k.tenant AND b.cap_id = k.cap AND b.counter_key = k.key) last ON true
      -- Somebody else may have made it since it was looked for.
      WHERE k.id IS NULL AND (last.period_end IS NULL OR last.period_end <= moment)
      ORDER BY c.tenant_id, c.id, k.key
      ON CONFLICT DO NOTHING;
      RETURN budget_find_counters(tenants, caps, keys, moment);
    END
    $$`

  // Locks counters in their order, and moves the rings of rolling ones on to now.
  yield* sql`
    CREATE FUNCTION budget_lock_counters(tenants uuid[], counters uuid[], moment timestamptz) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
    BEGIN
      PERFORM FROM budget_counters b WHERE b.tenant_id = ANY (tenants) AND b.id = ANY (counters)
      ORDER BY b.tenant_id, b.id FOR UPDATE;
      UPDATE budget_counters b SET ring = moved.ring, ring_head = moved.head, spent = budget_ring_sum(moved.ring)
      FROM (
        SELECT o.tenant_id, o.id, n.head, budget_ring_at(o.ring, o.ring_head, n.head) AS ring
        FROM budget_counters o CROSS JOIN LATERAL (SELECT budget_bucket(moment, o.bucket_seconds) AS head) n
        WHERE o.tenant_id = ANY (tenants) AND o.id = ANY (counters) AND o.ring IS NOT NULL AND n.head > o.ring_head
      ) moved
      WHERE b.tenant_id = moved.tenant_id AND b.id = moved.id;
    END
    $$`
})
