-- Decides the reservations of a batch in order: which are admitted, held for approval or denied, and which caps an
-- approval raises. `counters` are those of `needs` if budgets_reserve has locked them already. Verdicts:
--   open, held (an approval cap has too little left), denied (a hard cap has), no-room (an approval that may raise no
--   cap, or a request of kind `try`, which is not held), replay (its key was used), due (it would fit once expired
--   reservations are swept), gone (no longer held), changed (not the version that its entry has seen), plan-missing, plan-suspended, plan-completed, plan-aborted,
--   plan-expired
--
-- Arrays are named after what they have an element for: `counter_` and `counters` for each counter, in the order of
-- `needs`; `pair_` for each pair of a request and a counter that governs it, requests first; `request_` for each request.
-- Variables that index them are called `counter`, `pair` and `request`. The steps:
--   1. compare the revision of the caps, and pair requests with counters
--   2. claim keys, then lock held reservations, then plans
--   3. lock the counters that plans do not hold, and read what their caps allow
--   4. where the whole batch fits, admit it
--   5. else decide request by request
--   6. write counters, reservations, grants, keys and the audit log, and answer
CREATE OR REPLACE FUNCTION budget_reserve_decide(moment timestamptz, hold_seconds integer, tenants uuid[], revision bigint,
  needs budget_need[], requests budget_request[], keys json, entries json, counters uuid[]) RETURNS json
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  everybody CONSTANT uuid := '00000000-0000-0000-0000-000000000000';
  most CONSTANT bigint := 9223372036854775807;
  total integer := coalesce(cardinality(requests), 0);
  has_plans boolean := EXISTS (SELECT FROM unnest(requests) q WHERE q.plan_id IS NOT NULL);
  counter_tenants uuid[]; counter_caps uuid[]; counter_keys text[];
  counter_units text[]; counter_modes text[]; counter_limits bigint[]; counter_ends bigint[];
  counter_spents bigint[]; counter_reserveds bigint[];
  -- What this batch adds to `reserved`.
  counter_deltas bigint[];
  -- What is left, and how far above its limit a soft cap may go.
  counter_rooms bigint[]; counter_slacks bigint[];
  -- Whether there is something to be swept; null where nobody looked yet.
  counter_dues boolean[];
  pair_requests integer[]; pair_counters integer[];
  -- The counter of a plan that holds what the request needs of this one, and when that one ends.
  pair_holds uuid[]; pair_ends bigint[];
  -- Whether a soft cap can count no further.
  pair_uncounted boolean[];
  pair_headrooms text[];
  request_verdicts text[];
  -- The pair that denied it, and its counter at that time.
  request_failing_pairs integer[];
  request_failing_limits text[]; request_failing_spents text[]; request_failing_reserveds text[];
  -- Lists in text: the counters that it is counted on, those of its plan, and for its key the headrooms and ends.
  request_counter_lists text[]; request_plan_lists text[]; request_headroom_lists text[]; request_end_lists text[];
  replayed integer[] := '{}'; refused integer[]; approved uuid[] := '{}'; answered json := '[]';
  is_needed boolean[]; opened uuid[]; places integer[]; place_tenants uuid[]; place_caps uuid[]; place_keys text[];
  is_rolling boolean := counters IS NULL; has_thresholds boolean := false; all_rooms text[];
  is_roomy boolean; is_approving boolean; has_due boolean := false;
  first_pair integer; next_pair integer := 1; failing_pair integer; hard_failing_pair integer;
  request integer; counter integer; need bigint; r record;
BEGIN
  -- 1. Revision and pairs.
  IF revision <> (SELECT coalesce(sum(k.caps_version), 0) FROM budget_books k WHERE k.tenant_id = ANY (tenants)) THEN
    RETURN json_build_object('stale', true);
  END IF;
  SELECT array_agg(n.tenant_id ORDER BY n.ordinality), array_agg(n.cap_id ORDER BY n.ordinality),
    array_agg(n.counter_key ORDER BY n.ordinality)
  INTO counter_tenants, counter_caps, counter_keys FROM unnest(needs) WITH ORDINALITY n;
  -- A request that names no counters is governed by all of them, in their order.
  SELECT coalesce(array_agg(q.ordinality ORDER BY q.ordinality, c.place), '{}'),
    coalesce(array_agg(c.counter ORDER BY q.ordinality, c.place), '{}')
  INTO pair_requests, pair_counters
  FROM unnest(requests) WITH ORDINALITY q CROSS JOIN LATERAL
    unnest(coalesce(q.governing, ARRAY(SELECT generate_series(1, cardinality(needs))))) WITH ORDINALITY c(counter, place);
  request_verdicts := array_fill(NULL::text, ARRAY[total]);

  -- 2. Keys, held reservations, plans.
  IF keys IS NOT NULL THEN replayed := budget_claim_keys(keys, moment); END IF;
  FOREACH request IN ARRAY replayed LOOP request_verdicts[request] := 'replay'; END LOOP;
  -- Locks held reservations, so that each is approved once. A plan's own reservation is never held.
  IF entries IS NOT NULL THEN
    FOR request IN 1..total LOOP
      IF requests[request].kind NOT IN ('reserve', 'try') THEN
        request_verdicts[request] := coalesce(request_verdicts[request], 'gone');
      END IF;
    END LOOP;
    FOR r IN
      SELECT q.ordinality AS request, b.id, b.state, b.expires_at, b.xmin::text AS version, (
          SELECT e.seen FROM json_to_recordset(entries) AS e(place integer, seen text) WHERE e.place = q.ordinality) AS seen
      FROM unnest(requests) WITH ORDINALITY q
      JOIN budget_reservations b ON b.tenant_id = q.tenant_id AND b.id = q.id
      WHERE q.kind NOT IN ('reserve', 'try') AND b.origin <> 'plan' ORDER BY b.tenant_id, b.id, q.ordinality FOR UPDATE OF b
    LOOP
      IF request_verdicts[r.request] = 'gone' AND r.version <> r.seen THEN
        request_verdicts[r.request] := 'changed';
      ELSIF request_verdicts[r.request] = 'gone' AND r.state = 'held' AND r.expires_at > moment
        AND NOT r.id = ANY (approved) THEN
        request_verdicts[r.request] := NULL;
        approved := approved || r.id;
      END IF;
    END LOOP;
  END IF;
  IF has_plans THEN
    PERFORM budget_lock_plans(
      ARRAY(SELECT q.tenant_id FROM unnest(requests) q WHERE q.plan_id IS NOT NULL),
      ARRAY(SELECT q.plan_id FROM unnest(requests) q WHERE q.plan_id IS NOT NULL));
    request_plan_lists := array_fill(NULL::text, ARRAY[total]);
    FOR r IN
      SELECT q.ordinality AS request, l.counter_ids,
        coalesce(budget_plan_status(l.status, l.heartbeat_by, l.dead_at, moment), 'missing') AS status
      FROM unnest(requests) WITH ORDINALITY q
      LEFT JOIN budget_plans l ON l.tenant_id = q.tenant_id AND l.id = q.plan_id
      WHERE q.plan_id IS NOT NULL
    LOOP
      request_plan_lists[r.request] := nullif(array_to_string(r.counter_ids, ','), '');
      IF request_verdicts[r.request] IS NULL AND r.status <> 'active' THEN
        request_verdicts[r.request] := 'plan-' || r.status;
      END IF;
    END LOOP;
  END IF;

  -- 3. Counters.
  IF needs IS NOT NULL THEN
    IF has_plans THEN
      -- A call draws on what its plan has reserved, so the counters of that reservation are neither locked nor updated.
      SELECT array_agg(h.id ORDER BY k.pair), array_agg(h.ends ORDER BY k.pair) INTO pair_holds, pair_ends
      FROM unnest(pair_requests, pair_counters) WITH ORDINALITY AS k(request, counter, pair)
      LEFT JOIN LATERAL (
        SELECT b.id, budget_millis(b.period_end) AS ends
        FROM budget_plans l
        CROSS JOIN LATERAL unnest(l.counter_ids, l.held_caps, l.held_keys) AS e(counter, cap, key)
        JOIN budget_counters b ON b.tenant_id = needs[k.counter].tenant_id AND b.id = e.counter
        WHERE l.tenant_id = requests[k.request].tenant_id AND l.id = requests[k.request].plan_id
          AND e.cap = needs[k.counter].cap_id) h ON true;
      is_needed := array_fill(false, ARRAY[cardinality(needs)]);
      FOR pair IN 1..cardinality(pair_requests) LOOP
        IF pair_holds[pair] IS NULL THEN is_needed[pair_counters[pair]] := true; END IF;
      END LOOP;
      SELECT array_agg(k.place ORDER BY k.place), array_agg(k.tenant ORDER BY k.place),
        array_agg(k.cap ORDER BY k.place), array_agg(k.key ORDER BY k.place)
      INTO places, place_tenants, place_caps, place_keys
      FROM unnest(counter_tenants, counter_caps, counter_keys, is_needed)
        WITH ORDINALITY AS k(tenant, cap, key, needed, place) WHERE k.needed;
      opened := budget_open_counters(place_tenants, place_caps, place_keys, moment);
      counters := array_fill(NULL::uuid, ARRAY[cardinality(needs)]);
      FOR i IN 1..cardinality(places) LOOP counters[places[i]] := opened[i]; END LOOP;
    ELSE
      -- Counters are looked up once and locked only if all exist: creating the missing ones may wait for a concurrent
      -- transaction, and must not do so while holding locks.
      IF counters IS NULL THEN
        WITH found AS MATERIALIZED (
          SELECT k.tenant, k.place, f.id
          FROM unnest(counter_tenants, counter_caps, counter_keys) WITH ORDINALITY AS k(tenant, cap, key, place)
          CROSS JOIN LATERAL (
            SELECT o.id, o.period_end FROM budget_counters o
            WHERE o.tenant_id = k.tenant AND o.cap_id = k.cap AND o.counter_key = k.key
            ORDER BY o.period_start DESC LIMIT 1) f
          WHERE f.period_end > moment
        )
        SELECT array_agg(l.id ORDER BY l.place), bool_or(l.rolls) INTO counters, is_rolling FROM (
          SELECT b.id, f.place, b.ring IS NOT NULL AS rolls
          FROM found f JOIN budget_counters b ON b.tenant_id = f.tenant AND b.id = f.id
          WHERE (SELECT count(*) FROM found) = cardinality(needs)
          ORDER BY b.tenant_id, b.id FOR UPDATE OF b) l;
      END IF;
      IF cardinality(counters) IS DISTINCT FROM cardinality(needs) THEN
        counters := budget_open_counters(counter_tenants, counter_caps, counter_keys, moment);
        is_rolling := true;
      END IF;
    END IF;
    IF is_rolling IS NOT FALSE THEN PERFORM budget_lock_counters(counter_tenants, counters, moment); END IF;
    SELECT array_agg(b.unit ORDER BY k.place), array_agg(b.spent ORDER BY k.place),
      array_agg(b.reserved ORDER BY k.place),
      array_agg(CASE WHEN l.id IS NOT NULL THEN 'hard'
        WHEN c.status = 'active' AND c.deleted_at IS NULL THEN c.mode ELSE 'soft' END ORDER BY k.place),
      array_agg(coalesce(l.budget, CASE WHEN c.id IS NOT NULL THEN
        least(most, c.limit_amount + coalesce((
          SELECT sum(g.amount) FROM budget_grants g
          WHERE g.tenant_id = b.tenant_id AND g.cap_id = b.cap_id AND g.ended_at IS NULL
            AND (g.expires_at IS NULL OR g.expires_at > moment)
            AND (g.counter_key IS NULL OR g.counter_key = b.counter_key)), 0))::bigint END) ORDER BY k.place),
      array_agg(budget_millis(b.period_end) ORDER BY k.place),
      coalesce(bool_or(c.alert_thresholds <> '[]'), false)
    INTO counter_units, counter_spents, counter_reserveds, counter_modes, counter_limits, counter_ends, has_thresholds
    FROM unnest(counter_tenants, counters) WITH ORDINALITY AS k(tenant, id, place)
    LEFT JOIN budget_counters b ON b.tenant_id = k.tenant AND b.id = k.id
    LEFT JOIN budget_caps c ON c.tenant_id = b.tenant_id AND c.id = b.cap_id
    LEFT JOIN budget_plans l ON has_plans AND l.tenant_id = b.tenant_id AND l.id = b.cap_id;
    counter_deltas := array_fill(0::bigint, ARRAY[cardinality(counters)]);
  END IF;
  pair_headrooms := array_fill(NULL::text, ARRAY[cardinality(pair_requests)]);
  request_headroom_lists := array_fill(NULL::text, ARRAY[total]);
  request_end_lists := request_headroom_lists;

  -- 4. If the whole batch fits, every request is open, and their order does not matter. The first counter that has too
  -- little ends this.
  is_roomy := NOT has_plans AND entries IS NULL AND replayed = '{}';
  IF is_roomy THEN
    counter_rooms := counter_deltas;
    counter_slacks := counter_deltas;
    FOR counter IN 1..coalesce(cardinality(counters), 0) LOOP
      counter_rooms[counter] := counter_limits[counter] - (counter_spents[counter] + counter_reserveds[counter]);
      -- A soft cap counts up to the largest bigint.
      IF counter_modes[counter] = 'soft' THEN counter_slacks[counter] := most - counter_limits[counter]; END IF;
      IF (needs[counter].need <= counter_rooms[counter] + counter_slacks[counter]) IS NOT TRUE THEN
        is_roomy := false;
        EXIT;
      END IF;
      counter_deltas[counter] := needs[counter].need;
    END LOOP;
  END IF;
  IF is_roomy THEN
    request_verdicts := array_fill('open'::text, ARRAY[total]);
    all_rooms := counter_rooms;
    IF keys IS NOT NULL THEN
      FOR pair IN 1..cardinality(pair_requests) LOOP
        counter := pair_counters[pair];
        r := requests[pair_requests[pair]];
        counter_rooms[counter] := counter_rooms[counter] - budget_need_in(counter_units[counter], r.amount, r.tokens);
        pair_headrooms[pair] := greatest(counter_rooms[counter], 0);
        request_headroom_lists[pair_requests[pair]] :=
          concat_ws(',', request_headroom_lists[pair_requests[pair]], pair_headrooms[pair]);
        request_end_lists[pair_requests[pair]] :=
          concat_ws(',', request_end_lists[pair_requests[pair]], coalesce(counter_ends[counter]::text, 'null'));
      END LOOP;
    END IF;
  ELSE

    -- 5. Request by request.
    request_failing_pairs := array_fill(NULL::integer, ARRAY[total]);
    request_failing_limits := array_fill(NULL::text, ARRAY[total]);
    request_failing_spents := request_failing_limits;
    request_failing_reserveds := request_failing_limits;
    request_counter_lists := request_failing_limits;
    counter_deltas := array_fill(0::bigint, ARRAY[coalesce(cardinality(counters), 0)]);
    pair_headrooms := array_fill(NULL::text, ARRAY[cardinality(pair_requests)]);
    counter_dues := array_fill(NULL::boolean, ARRAY[coalesce(cardinality(counters), 0)]);

    FOR request IN 1..total LOOP
      -- Which of its counters have too little: the first, and the first that no approval could raise.
      first_pair := next_pair;
      failing_pair := NULL;
      hard_failing_pair := NULL;
      WHILE pair_requests[next_pair] = request LOOP
        counter := pair_counters[next_pair];
        IF request_verdicts[request] IS NULL AND pair_holds[next_pair] IS NULL AND counter_modes[counter] <> 'soft' THEN
          need := budget_need_in(counter_units[counter], requests[request].amount, requests[request].tokens);
          -- What costs nothing is not denied, however little is left.
          IF need > 0 AND counter_spents[counter]::numeric + counter_reserveds[counter] + need > counter_limits[counter] THEN
            failing_pair := coalesce(failing_pair, next_pair);
            IF counter_modes[counter] = 'hard'
              OR counter_tenants[counter] = everybody AND requests[request].confined
              OR counter_spents[counter]::numeric + counter_reserveds[counter] + need > most THEN
              hard_failing_pair := coalesce(hard_failing_pair, next_pair);
            END IF;
          END IF;
        END IF;
        next_pair := next_pair + 1;
      END LOOP;
      CONTINUE WHEN request_verdicts[request] IS NOT NULL;
      -- Requests after one that waits for the sweep wait too, so that the order of arrival is kept.
      IF has_due THEN
        request_verdicts[request] := 'due';
        CONTINUE;
      END IF;

      is_approving := requests[request].kind = 'override' AND hard_failing_pair IS NULL AND failing_pair IS NOT NULL;
      IF failing_pair IS NOT NULL AND NOT is_approving THEN
        failing_pair := coalesce(hard_failing_pair, failing_pair);
        counter := pair_counters[failing_pair];
        need := budget_need_in(counter_units[counter], requests[request].amount, requests[request].tokens);
        -- Expired reservations must not cause a denial, so they are swept first, where that could be enough.
        IF counter_spents[counter]::numeric + need <= counter_limits[counter] THEN
          IF counter_dues[counter] IS NULL THEN
            counter_dues[counter] := EXISTS (
              SELECT FROM budget_reservations b
              WHERE b.state = 'open' AND b.origin <> 'plan' AND b.expires_at <= moment
                AND (counter_tenants[counter] = everybody OR b.tenant_id = counter_tenants[counter])
            ) OR EXISTS (
              SELECT FROM budget_plans l
              WHERE l.status IN ('active', 'suspended') AND l.dead_at <= moment
                AND (counter_tenants[counter] = everybody OR l.tenant_id = counter_tenants[counter]));
          END IF;
          has_due := counter_dues[counter];
        END IF;
        request_failing_pairs[request] := failing_pair;
        request_failing_limits[request] := counter_limits[counter];
        request_failing_spents[request] := counter_spents[counter];
        request_failing_reserveds[request] := counter_reserveds[counter];
        request_verdicts[request] := CASE
          WHEN has_due THEN 'due'
          WHEN requests[request].kind NOT IN ('reserve', 'try') THEN 'no-room'
          WHEN hard_failing_pair IS NOT NULL THEN 'denied'
          WHEN requests[request].kind = 'try' THEN 'no-room'
          ELSE 'held' END;
      ELSE
        request_verdicts[request] := 'open';
        FOR pair IN first_pair..next_pair - 1 LOOP
          CONTINUE WHEN pair_holds[pair] IS NOT NULL;
          counter := pair_counters[pair];
          need := budget_need_in(counter_units[counter], requests[request].amount, requests[request].tokens);
          IF counter_modes[counter] = 'soft'
            AND counter_spents[counter]::numeric + counter_reserveds[counter] + need > most THEN
            pair_uncounted[pair] := true;
            CONTINUE;
          END IF;
          IF is_approving AND counter_modes[counter] = 'approval'
            AND counter_spents[counter]::numeric + counter_reserveds[counter] + need > counter_limits[counter] THEN
            INSERT INTO budget_grants (
              reservation_id, tenant_id, cap_id, counter_key, amount, reason, expires_at, created_at, created_by)
            SELECT requests[request].id, counter_tenants[counter], counter_caps[counter], counter_keys[counter],
              counter_spents[counter] + counter_reserveds[counter] + need - counter_limits[counter],
              'approval of ' || requests[request].id,
              CASE WHEN counter_ends[counter] IS NOT NULL THEN to_timestamp(counter_ends[counter] / 1000.0) END, moment,
              requests[request].created_by;
            counter_limits[counter] := counter_spents[counter] + counter_reserveds[counter] + need;
          END IF;
          counter_reserveds[counter] := counter_reserveds[counter] + need;
          counter_deltas[counter] := counter_deltas[counter] + need;
        END LOOP;
      END IF;
      -- On counters where the plan has reserved, the call's headroom is the plan's, whose own counter is the first.
      request_counter_lists[request] := request_plan_lists[request];
      FOR pair IN first_pair..next_pair - 1 LOOP
        counter := pair_counters[pair];
        IF pair_holds[pair] IS NULL THEN
          pair_headrooms[pair] :=
            greatest(counter_limits[counter]::numeric - counter_spents[counter] - counter_reserveds[counter], 0);
          IF pair_uncounted[pair] IS NULL THEN
            request_counter_lists[request] := concat_ws(',', request_counter_lists[request], counters[counter]);
          END IF;
        ELSE
          pair_headrooms[pair] := pair_headrooms[first_pair];
        END IF;
        IF keys IS NOT NULL THEN
          request_headroom_lists[request] := concat_ws(',', request_headroom_lists[request], pair_headrooms[pair]);
          request_end_lists[request] := concat_ws(',', request_end_lists[request],
            coalesce(CASE WHEN pair_holds[pair] IS NULL THEN counter_ends[counter] ELSE pair_ends[pair] END::text, 'null'));
        END IF;
      END LOOP;
      request_counter_lists[request] := '{' || coalesce(request_counter_lists[request], '') || '}';
    END LOOP;

    -- Counters that were made for requests which are not counted on them.
    IF counters IS NOT NULL
      AND array_remove(array_remove(array_remove(request_verdicts, 'open'), 'held'), 'replay') <> '{}' THEN
      DELETE FROM budget_counters b
      WHERE b.tenant_id = ANY (counter_tenants) AND b.id = ANY (counters) AND b.created_at = moment
        AND b.xmin = pg_current_xact_id()::xid AND b.spent = 0 AND b.reserved = 0
        AND counter_deltas[array_position(counters, b.id)] = 0
        AND NOT EXISTS (
          SELECT FROM unnest(request_verdicts, request_counter_lists) AS v(verdict, list)
          WHERE v.verdict IN ('open', 'held') AND b.id = ANY (v.list::uuid[]));
    END IF;
  END IF;

  -- 6. Writes.
  IF needs IS NOT NULL THEN
    UPDATE budget_counters b
    SET spent = b.spent, reserved = b.reserved + counter_deltas[array_position(counters, b.id)]
    WHERE b.tenant_id = ANY (counter_tenants) AND b.id = ANY (counters)
      AND counter_deltas[array_position(counters, b.id)] > 0;
    IF has_thresholds THEN
      PERFORM budget_note_alerts(moment, counters);
    END IF;
  END IF;

  INSERT INTO budget_reservations (tenant_id, id, state, origin, agent_id, plan_id, application_id, api_key_id,
    user_id, model, provider, task_type, amount, tokens, ttl_seconds, expires_at, created_at, created_by, metadata,
    counter_ids, answer)
  SELECT q.tenant_id, q.id, request_verdicts[q.ordinality], q.origin, q.agent_id, q.plan_id, q.application_id,
    q.api_key_id, q.user_id, q.model, q.provider, q.task_type, q.amount, q.tokens, q.ttl_seconds,
    moment + make_interval(
      secs => CASE request_verdicts[q.ordinality] WHEN 'open' THEN q.ttl_seconds ELSE hold_seconds END),
    moment, q.created_by, q.metadata,
    CASE WHEN NOT is_roomy THEN request_counter_lists[q.ordinality]::uuid[]
      WHEN q.governing IS NULL THEN coalesce(counters, '{}')
      ELSE ARRAY(SELECT budget_reserve_decide.counters[c] FROM unnest(q.governing) c) END,
    -- Stored for requests with an idempotency key, to answer a repetition.
    CASE WHEN q.caps IS NOT NULL THEN jsonb_build_object(
      'state', request_verdicts[q.ordinality], 'amount', q.amount, 'tokens', q.tokens, 'ttl', q.ttl_seconds,
      'caps', q.caps, 'headrooms', string_to_array(request_headroom_lists[q.ordinality], ','),
      'ends', ('[' || request_end_lists[q.ordinality] || ']')::jsonb) END
  FROM unnest(requests) WITH ORDINALITY q
  WHERE request_verdicts[q.ordinality] IN ('open', 'held') AND q.kind IN ('reserve', 'try');

  IF entries IS NOT NULL THEN
    -- A call of the gateway that was held was never made: its caller may make it with the reservation, or release that.
    UPDATE budget_reservations b SET state = 'open', amount = q.amount, decided_at = moment, decided_by = q.created_by,
      origin = CASE b.origin WHEN 'gateway' THEN 'api' ELSE b.origin END,
      decision_reason = q.reason, expires_at = moment + make_interval(secs => b.ttl_seconds),
      counter_ids = request_counter_lists[q.ordinality]::uuid[]
    FROM unnest(requests) WITH ORDINALITY q
    WHERE b.tenant_id = q.tenant_id AND b.id = q.id AND request_verdicts[q.ordinality] = 'open'
      AND q.kind NOT IN ('reserve', 'try');
    SELECT coalesce(json_agg(json_build_object('place', q.ordinality, 'reservation', to_json(b))), '[]') INTO answered
    FROM unnest(requests) WITH ORDINALITY q
    JOIN budget_reservations b ON b.tenant_id = q.tenant_id AND b.id = q.id WHERE q.kind NOT IN ('reserve', 'try');
  END IF;

  IF keys IS NOT NULL THEN
    -- An approved reservation goes on to change, so its key keeps the answer.
    IF entries IS NOT NULL THEN
      UPDATE idempotency_keys i SET body = a.reservation::text
      FROM json_to_recordset(answered) AS a(place integer, reservation json)
      JOIN json_to_recordset(keys) AS k(place integer, principal text, route text, key text) ON k.place = a.place
      WHERE request_verdicts[a.place] = 'open' AND i.principal = k.principal AND i.route = k.route AND i.key = k.key;
    END IF;
    refused := ARRAY(
      SELECT v.place::integer FROM unnest(request_verdicts) WITH ORDINALITY AS v(verdict, place)
      WHERE v.verdict NOT IN ('open', 'held', 'replay'));
    IF cardinality(refused) > 0 THEN PERFORM budget_free_keys(keys, refused); END IF;
  END IF;
  IF entries IS NOT NULL THEN
    PERFORM budget_audit(entries, array_agg(q.ordinality::integer), array_agg(q.tenant_id), moment)
    FROM unnest(requests) WITH ORDINALITY q WHERE request_verdicts[q.ordinality] = 'open';
  END IF;

  IF is_roomy AND keys IS NULL THEN
    RETURN json_build_object('at', budget_millis(moment), 'rooms', coalesce(all_rooms, '{}'), 'ends', counter_ends);
  END IF;
  RETURN json_build_object('at', budget_millis(moment), 'verdicts', request_verdicts, 'headrooms', pair_headrooms,
    'ends', counter_ends, 'pairEnds', pair_ends, 'failing', coalesce(request_failing_pairs, '{}'),
    'failingLimits', coalesce(request_failing_limits, '{}'), 'failingSpents', coalesce(request_failing_spents, '{}'),
    'failingReserveds', coalesce(request_failing_reserveds, '{}'),
    'replays', CASE WHEN cardinality(replayed) = 0 THEN '[]'::json ELSE budget_replays(keys, replayed) END,
    'approved', answered);
END
$$;

REVOKE ALL ON FUNCTION budget_reserve_decide FROM PUBLIC;
