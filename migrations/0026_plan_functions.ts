import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // The counters that `counters` of a request names, locked, with what each lets in; `needs` says how much is asked of each.
  // The first that has no room fails. A cap that asks for an approval has none for a plan, which nobody approves.
  yield* sql`
    CREATE FUNCTION budget_plan_room(p json, counters uuid[], needs bigint[], moment timestamptz) RETURNS json
    LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
      WITH standing AS (
        SELECT k.place, b.spent, b.reserved, budget_limit(b.tenant_id, b.cap_id, b.counter_key, moment) AS lim,
          c.status = 'active' AND c.deleted_at IS NULL AND c.mode <> 'soft' AS binds, k.need,
          CASE WHEN isfinite(b.period_end) THEN (extract(epoch FROM b.period_end) * 1000)::bigint END AS ends
        FROM json_to_recordset(p->'counters') AS n(place integer, tenant uuid)
        JOIN unnest(counters, needs) WITH ORDINALITY AS k(id, need, place) ON k.place = n.place
        JOIN budget_counters b ON b.tenant_id = n.tenant AND b.id = k.id
        JOIN budget_caps c ON c.tenant_id = b.tenant_id AND c.id = b.cap_id
      ), failing AS (
        SELECT * FROM standing WHERE binds AND need > 0 AND spent::numeric + reserved + need > lim ORDER BY place LIMIT 1
      )
      SELECT json_build_object('verdict', CASE WHEN EXISTS (SELECT FROM failing) THEN 'denied' ELSE 'done' END,
        'failing', (SELECT place FROM failing), 'limit', (SELECT lim::text FROM failing),
        'spent', (SELECT spent::text FROM failing), 'reserved', (SELECT reserved::text FROM failing),
        'headrooms', coalesce((SELECT json_agg(greatest(lim::numeric - spent - reserved, 0)::text ORDER BY place) FROM standing), '[]'),
        'ends', coalesce((SELECT json_agg(ends ORDER BY place) FROM standing), '[]'))
    $$`

  // Opens and locks the counters of a request, with others of a plan: all in one order.
  yield* sql`
    CREATE FUNCTION budget_plan_counters(p json, others uuid[], tenant uuid, moment timestamptz) RETURNS uuid[]
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
    $$`

  // Starts a plan: holds its budget on every counter named, or on none. Verdicts: done, denied.
  yield* sql`
    CREATE FUNCTION budget_plan_start(p json, moment timestamptz) RETURNS json
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
    DECLARE
      tenant uuid := p->>'tenant';
      plan uuid := p->>'id';
      budget bigint := p->>'amount';
      heartbeat interval := make_interval(secs => (p->>'heartbeat')::integer);
      expiry timestamptz := moment + make_interval(secs => (p->>'expires')::integer);
      counters uuid[];
      room json;
      l budget_plans;
    BEGIN
      counters := budget_plan_counters(p, '{}', tenant, moment);
      room := budget_plan_room(p, counters, array_fill(budget, ARRAY[cardinality(counters)]), moment);
      IF room->>'verdict' = 'denied' THEN RETURN room; END IF;
      INSERT INTO budget_counters (tenant_id, id, cap_id, counter_key, period_start, period_end, unit, created_at)
      VALUES (tenant, plan, plan, '', '-infinity', 'infinity', 'usd', moment);
      INSERT INTO budget_plans (tenant_id, id, agent_id, application_id, task_type, name, status, budget, heartbeat_seconds,
        heartbeat_by, expires_at, dead_at, metadata, created_at, created_by, counter_ids, held_caps, held_keys)
      SELECT tenant, plan, (p->>'agent')::uuid, (p->>'application')::integer, p->>'task_type', p->>'name', 'active', budget,
        (p->>'heartbeat')::integer, moment + heartbeat, expiry, least(moment + 2 * heartbeat, expiry),
        CASE json_typeof(p->'metadata') WHEN 'object' THEN (p->'metadata')::jsonb END, moment, p->>'principal', counters,
        coalesce(array_agg(c.cap ORDER BY c.place), '{}'), coalesce(array_agg(c.key ORDER BY c.place), '{}')
      FROM json_to_recordset(p->'counters') AS c(place integer, cap uuid, key text)
      RETURNING * INTO l;
      PERFORM budget_plan_hold(ARRAY[tenant], ARRAY[plan], ARRAY[0::bigint]);
      INSERT INTO budget_reservations (tenant_id, id, state, origin, agent_id, plan_id, application_id, task_type, amount,
        tokens, ttl_seconds, expires_at, created_at, created_by, counter_ids)
      VALUES (tenant, plan, 'open', 'plan', l.agent_id, plan, l.application_id, l.task_type, budget, 0,
        l.heartbeat_seconds, coalesce(expiry, '9999-12-31T00:00:00Z'), moment, l.created_by, counters);
      IF budget_has_thresholds(counters, ARRAY[tenant, '00000000-0000-0000-0000-000000000000']) THEN
        PERFORM budget_note_alerts(moment, counters);
      END IF;
      RETURN json_build_object('verdict', 'done', 'plan', budget_plan_json(l, moment));
    END
    $$`

  // Gives a locked plan more: held on every cap that governs it now, in its period of now, or nothing is changed. Verdicts:
  // done, denied, excessive (more than a plan may have).
  yield* sql`
    CREATE FUNCTION budget_plan_extend(p json, l budget_plans, moment timestamptz) RETURNS json
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
    DECLARE
      wanted bigint := l.budget + (p->>'amount')::bigint;
      counters uuid[];
      rest bigint;
      rest_after bigint;
      room json;
    BEGIN
      IF wanted > (p->>'most')::bigint THEN RETURN json_build_object('verdict', 'excessive'); END IF;
      counters := budget_plan_counters(p, l.counter_ids || l.id, l.tenant_id, moment);
      SELECT budget_plan_rest(l.status, l.budget, k.spent, k.reserved), budget_plan_rest(l.status, wanted, k.spent, k.reserved)
      INTO rest, rest_after FROM budget_counters k WHERE k.tenant_id = l.tenant_id AND k.id = l.id;
      room := budget_plan_room(p, counters, ARRAY(
        SELECT CASE WHEN c = ANY (l.counter_ids) THEN rest_after - rest ELSE rest_after END
        FROM unnest(counters) WITH ORDINALITY AS e(c, place) ORDER BY e.place), moment);
      IF room->>'verdict' = 'denied' THEN RETURN room; END IF;
      UPDATE budget_counters k SET reserved = k.reserved
        + CASE WHEN k.id = ANY (counters) THEN rest_after ELSE 0 END - CASE WHEN k.id = ANY (l.counter_ids) THEN rest ELSE 0 END
      WHERE k.tenant_id IN (l.tenant_id, '00000000-0000-0000-0000-000000000000') AND k.id = ANY (counters || l.counter_ids);
      UPDATE budget_plans o SET budget = wanted, counter_ids = counters,
        held_caps = n.caps, held_keys = n.keys
      FROM (
        SELECT coalesce(array_agg(c.cap ORDER BY c.place), '{}') AS caps, coalesce(array_agg(c.key ORDER BY c.place), '{}') AS keys
        FROM json_to_recordset(p->'counters') AS c(place integer, cap uuid, key text)) n
      WHERE o.tenant_id = l.tenant_id AND o.id = l.id RETURNING o.* INTO l;
      UPDATE budget_reservations r SET amount = wanted, counter_ids = counters
      WHERE r.tenant_id = l.tenant_id AND r.id = l.id;
      IF budget_has_thresholds(counters, ARRAY[l.tenant_id, '00000000-0000-0000-0000-000000000000']) THEN
        PERFORM budget_note_alerts(moment, counters);
      END IF;
      RETURN json_build_object('verdict', 'done', 'plan', budget_plan_json(l, moment));
    END
    $$`

  // Ends locked plans: what they have left returns, and so does what their open API calls hold, which settle late. A call of
  // the gateway is made and keeps its hold until it settles. A call that somebody else has under lock is passed over, since
  // calls are locked before plans: whoever must not miss any has locked them before.
  yield* sql`
    CREATE FUNCTION budget_plans_end(tenants uuid[], ids uuid[], ending text, moment timestamptz) RETURNS void
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
    DECLARE
      call_tenants uuid[]; calls uuid[]; rests bigint[];
    BEGIN
      WITH open_calls AS MATERIALIZED (
        SELECT b.tenant_id, b.id FROM budget_reservations b
        WHERE b.tenant_id = ANY (tenants) AND b.plan_id = ANY (ids) AND b.state = 'open' AND b.origin = 'api'
        FOR UPDATE SKIP LOCKED)
      SELECT array_agg(c.tenant_id), array_agg(c.id) INTO call_tenants, calls FROM open_calls c;
      PERFORM budget_lock_counters(tenants || '00000000-0000-0000-0000-000000000000'::uuid, ARRAY(
        SELECT unnest(l.counter_ids || l.id) FROM budget_plans l WHERE l.tenant_id = ANY (tenants) AND l.id = ANY (ids)
        UNION
        SELECT unnest(b.counter_ids) FROM budget_reservations b WHERE b.tenant_id = ANY (call_tenants) AND b.id = ANY (calls)),
        moment);
      rests := budget_plan_rests(tenants, ids);
      UPDATE budget_plans l SET status = ending, ended_at = moment
      WHERE l.tenant_id = ANY (tenants) AND l.id = ANY (ids) AND l.status IN ('active', 'suspended');
      PERFORM budget_plan_hold(tenants, ids, rests);
      IF calls IS NOT NULL THEN
        PERFORM budget_move(moment, call_tenants, calls, array_fill(true, ARRAY[cardinality(calls)]),
          array_fill(0::bigint, ARRAY[cardinality(calls)]), array_fill(0::bigint, ARRAY[cardinality(calls)]),
          array_fill(0, ARRAY[cardinality(calls)]));
      END IF;
      UPDATE budget_reservations b SET state = CASE ending WHEN 'expired' THEN 'expired' ELSE 'released' END, closed_at = moment
      WHERE b.tenant_id = ANY (tenants || call_tenants) AND b.id = ANY (ids || calls) AND b.state = 'open';
    END
    $$`

  // Completes or aborts a locked plan. Verdicts: done, same (it was ended so before), calls-open (it cannot be completed).
  yield* sql`
    CREATE FUNCTION budget_plan_close(p json, l budget_plans, moment timestamptz) RETURNS json
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
    DECLARE
      ending text := p->>'kind';
      verdict text := CASE l.status WHEN ending THEN 'same' ELSE 'done' END;
    BEGIN
      IF ending = 'completed' AND verdict = 'done' AND EXISTS (
        SELECT FROM budget_reservations b
        WHERE b.tenant_id = l.tenant_id AND b.plan_id = l.id AND b.state = 'open' AND b.origin <> 'plan'
      ) THEN
        RETURN json_build_object('verdict', 'calls-open', 'isDue', EXISTS (
          SELECT FROM budget_reservations b WHERE b.tenant_id = l.tenant_id AND b.plan_id = l.id AND b.state = 'open'
            AND b.origin <> 'plan' AND b.expires_at <= moment));
      END IF;
      IF ending = 'aborted' OR verdict = 'done' THEN
        PERFORM budget_plans_end(ARRAY[l.tenant_id], ARRAY[l.id], ending, moment);
        SELECT * INTO l FROM budget_plans o WHERE o.tenant_id = l.tenant_id AND o.id = l.id;
      END IF;
      RETURN json_build_object('verdict', verdict, 'plan', budget_plan_json(l, moment), 'hasCalls', EXISTS (
        SELECT FROM budget_reservations b
        WHERE b.tenant_id = l.tenant_id AND b.plan_id = l.id AND b.state = 'open' AND b.origin = 'api'));
    END
    $$`

  yield* sql`
    CREATE FUNCTION budget_plan_beat(l budget_plans, moment timestamptz) RETURNS json
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
    DECLARE
      heartbeat interval := make_interval(secs => l.heartbeat_seconds);
    BEGIN
      UPDATE budget_plans o SET status = 'active', heartbeat_by = moment + heartbeat,
        dead_at = least(moment + 2 * heartbeat, o.expires_at)
      WHERE o.tenant_id = l.tenant_id AND o.id = l.id RETURNING o.* INTO l;
      RETURN json_build_object('verdict', 'done', 'plan', budget_plan_json(l, moment));
    END
    $$`

  // One change of a plan, in one statement. `kind` is start, extend, completed, aborted or heartbeat; `books` are the versions
  // of the caps that the caller knows; `waiting`: once more, after waiting for those who are at work on calls of the plan. A key that was
  // used before gets the answer of then. Verdicts, beside those above: stale (the caps are others by now), replay, missing,
  // inactive (with the status).
  yield* sql`
    CREATE FUNCTION budgets_plan_v1(p json) RETURNS json
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    DECLARE
      moment timestamptz := p->>'now';
      kind text := p->>'kind';
      l budget_plans;
      status text;
      outcome json;
    BEGIN
      IF EXISTS (
        SELECT FROM json_to_recordset(p->'books') AS b(tenant uuid, version bigint)
        LEFT JOIN budget_books k ON k.tenant_id = b.tenant WHERE coalesce(k.caps_version, 0) <> b.version
      ) THEN RETURN json_build_object('verdict', 'stale'); END IF;
      IF p->>'key' IS NOT NULL AND NOT (p->>'waiting')::boolean THEN
        INSERT INTO idempotency_keys AS i (principal, route, key, request_sha256, status, headers, body, created_at)
        VALUES (p->>'principal', p->>'route', p->>'key', decode(p->>'request_sha256', 'hex'), 200, '{}', '', moment)
        ON CONFLICT (principal, route, key) DO UPDATE SET request_sha256 = EXCLUDED.request_sha256,
          body = EXCLUDED.body, created_at = EXCLUDED.created_at
        WHERE i.created_at <= moment - interval '24 hours';
        IF NOT FOUND THEN
          SELECT json_build_object('verdict', 'replay', 'sha256', encode(i.request_sha256, 'hex'), 'plan', i.body::json)
          INTO outcome FROM idempotency_keys i
          WHERE i.principal = p->>'principal' AND i.route = p->>'route' AND i.key = p->>'key';
          RETURN outcome;
        END IF;
      END IF;

      IF kind = 'start' THEN
        outcome := budget_plan_start(p, moment);
      ELSE
        IF (p->>'waiting')::boolean THEN
          PERFORM FROM budget_reservations b
          WHERE b.tenant_id = (p->>'tenant')::uuid AND b.plan_id = (p->>'id')::uuid AND b.state = 'open' AND b.origin = 'api'
          ORDER BY b.tenant_id, b.id FOR UPDATE;
        END IF;
        SELECT * INTO l FROM budget_plans o
        WHERE o.tenant_id = (p->>'tenant')::uuid AND o.id = (p->>'id')::uuid AND o.agent_id = (p->>'agent')::uuid FOR UPDATE;
        status := budget_plan_status(l.status, l.heartbeat_by, l.dead_at, moment);
        outcome := CASE
          WHEN l.id IS NULL THEN json_build_object('verdict', 'missing')
          WHEN status = 'active' OR (status = 'suspended' AND kind <> 'extend') OR (status = kind AND l.status = kind) THEN
            CASE kind WHEN 'extend' THEN budget_plan_extend(p, l, moment) WHEN 'heartbeat' THEN budget_plan_beat(l, moment)
              ELSE budget_plan_close(p, l, moment) END
          ELSE json_build_object('verdict', 'inactive', 'status', status) END;
      END IF;

      -- A heartbeat is frequent and its own record; one that revives a plan is a change.
      IF outcome->>'verdict' = 'done' AND (kind <> 'heartbeat' OR status = 'suspended') THEN
        PERFORM budget_audit(
          jsonb_set((p->'entries')::jsonb, '{0,changes,after}', (p->'entries'->0->'changes'->'after')::jsonb
            || jsonb_build_object('status', outcome->'plan'->>'status',
              'budgetUsd', trim_scale((outcome->'plan'->>'budget')::numeric / 1000000000),
              'spentUsd', trim_scale((outcome->'plan'->>'spent')::numeric / 1000000000)))::json,
          '{1}', ARRAY[(p->>'tenant')::uuid], moment);
      END IF;
      IF p->>'key' IS NOT NULL THEN
        IF outcome->>'verdict' IN ('done', 'same') THEN
          UPDATE idempotency_keys i SET body = (outcome->'plan')::text
          WHERE i.principal = p->>'principal' AND i.route = p->>'route' AND i.key = p->>'key';
        ELSE
          DELETE FROM idempotency_keys i
          WHERE i.principal = p->>'principal' AND i.route = p->>'route' AND i.key = p->>'key';
        END IF;
      END IF;
      RETURN outcome;
    END
    $$`

  // Suspends plans that miss a heartbeat, and ends those that are dead. With `waiting`, only ends, waits for those who are at
  // work on them, and looks at one tenant's alone if one is named.
  yield* sql`
    CREATE FUNCTION budgets_plans_sweep_v1(p json) RETURNS json
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    DECLARE
      moment timestamptz := p->>'now';
      only_tenant uuid := p->>'tenant';
      most integer := p->>'most';
      is_waiting boolean := (p->>'waiting')::boolean;
      silent_tenants uuid[]; silent uuid[]; tenants uuid[]; ids uuid[];
    BEGIN
      IF is_waiting THEN
        SELECT array_agg(d.tenant_id), array_agg(d.id) INTO tenants, ids FROM (
          SELECT l.tenant_id, l.id FROM budget_plans l
          WHERE l.status IN ('active', 'suspended') AND l.dead_at <= moment AND (only_tenant IS NULL OR l.tenant_id = only_tenant)
          ORDER BY l.dead_at LIMIT most) d;
        IF ids IS NULL THEN RETURN json_build_object('swept', 0); END IF;
        PERFORM FROM budget_reservations b
        WHERE b.tenant_id = ANY (tenants) AND b.plan_id = ANY (ids) AND b.state = 'open' AND b.origin = 'api'
        ORDER BY b.tenant_id, b.id FOR UPDATE;
        PERFORM budget_lock_plans(tenants, ids);
        -- Some may have ended or lived on meanwhile.
        SELECT array_agg(l.tenant_id), array_agg(l.id) INTO tenants, ids FROM budget_plans l
        WHERE l.tenant_id = ANY (tenants) AND l.id = ANY (ids) AND l.status IN ('active', 'suspended') AND l.dead_at <= moment;
      ELSE
        WITH due AS MATERIALIZED (
          SELECT l.tenant_id, l.id FROM budget_plans l
          WHERE l.status = 'active' AND l.heartbeat_by <= moment AND l.dead_at > moment
            AND (only_tenant IS NULL OR l.tenant_id = only_tenant)
          ORDER BY l.heartbeat_by LIMIT most FOR UPDATE SKIP LOCKED
        ), suspended AS (
          UPDATE budget_plans l SET status = 'suspended' FROM due
          WHERE l.tenant_id = due.tenant_id AND l.id = due.id RETURNING l.tenant_id, l.id)
        SELECT array_agg(s.tenant_id), array_agg(s.id) INTO silent_tenants, silent FROM suspended s;
        WITH due AS MATERIALIZED (
          SELECT l.tenant_id, l.id FROM budget_plans l
          WHERE l.status IN ('active', 'suspended') AND l.dead_at <= moment AND (only_tenant IS NULL OR l.tenant_id = only_tenant)
          ORDER BY l.dead_at LIMIT most FOR UPDATE SKIP LOCKED)
        SELECT array_agg(d.tenant_id), array_agg(d.id) INTO tenants, ids FROM due d;
      END IF;
      IF ids IS NOT NULL THEN PERFORM budget_plans_end(tenants, ids, 'expired', moment); END IF;
      PERFORM budget_audit(json_agg(json_build_object('place', s.place, 'action_type', s.action, 'entity_type', 'Plan',
          'entity_id', s.id, 'user_id', 'system', 'actor_type', 'system',
          'changes', json_build_object('before', NULL, 'after', budget_plan_json(l, moment)))),
        array_agg(s.place), array_agg(s.tenant), moment)
      FROM (
        SELECT e.tenant, e.id, e.action, row_number() OVER ()::integer AS place FROM (
          SELECT u.tenant, u.id, 'PlanSuspended' AS action FROM unnest(silent_tenants, silent) AS u(tenant, id)
          UNION ALL SELECT u.tenant, u.id, 'PlanExpired' FROM unnest(tenants, ids) AS u(tenant, id)) e) s
      JOIN budget_plans l ON l.tenant_id = s.tenant AND l.id = s.id;
      RETURN json_build_object('swept', coalesce(cardinality(silent), 0) + coalesce(cardinality(ids), 0));
    END
    $$`

  yield* sql`
    DO $$
    DECLARE
      f regprocedure;
    BEGIN
      FOR f IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace AND p.proname LIKE 'budget%plan%' LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
      END LOOP;
      FOR f IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace
        AND (p.proname LIKE 'budgets_plan%' OR p.proname IN ('budget_plan_status', 'budget_plan_rest', 'budget_plan_json')) LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO application_manager', f);
      END LOOP;
    END
    $$`
})
