-- Decides the reservations of a batch in order: which are admitted, held for approval or denied, and which caps an
-- approval raises. `counters` are those of `needs` if budgets_reserve has locked them already. Verdicts:
--   open, held (an approval cap has too little left), denied (a hard cap has), no-room (an approval that may raise no
--   cap, or a request of kind `try`, which is not held), replay (its key was used), due (it would fit once expired
--   reservations are swept), gone (no longer held), plan-missing, plan-suspended, plan-completed, plan-aborted,
--   plan-expired
CREATE OR REPLACE FUNCTION budget_reserve_decide(moment timestamptz, hold_seconds integer, tenants uuid[], revision bigint,
  needs budget_need[], requests budget_request[], keys json, entries json, counters uuid[]) RETURNS json
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  total integer := coalesce(cardinality(requests), 0);
  has_plans boolean := EXISTS (SELECT FROM unnest(requests) q WHERE q.plan_id IS NOT NULL);
  -- Of each counter, in the order of `needs`.
  counter_tenants uuid[]; counter_caps uuid[]; counter_keys text[];
  units text[]; modes text[]; limits bigint[]; spents bigint[]; reserveds bigint[]; deltas bigint[]; ends bigint[];
  rooms bigint[]; slacks bigint[]; all_rooms text[]; due boolean[];
  is_rolling boolean := counters IS NULL; has_thresholds boolean := false;
  -- Of each pair of a request and a counter that governs it, the requests in their order.
  pair_requests integer[]; pair_counters integer[]; pair_holds uuid[]; pair_ends bigint[]; uncounted boolean[];
  headrooms text[];
  -- Of each request.
  verdicts text[]; failing integer[]; failing_limits text[]; failing_spents text[]; failing_reserveds text[];
  lists text[]; headroom_lists text[]; end_lists text[]; plan_lists text[];
  taken integer[] := '{}'; refused integer[]; approved uuid[] := '{}'; answered json := '[]';
  -- Counters that plans do not hold already.
  is_needed boolean[]; opened uuid[]; places integer[]; place_tenants uuid[]; place_caps uuid[]; place_keys text[];
  is_roomy boolean; approving boolean; waits boolean := false;
  first integer; next integer := 1; fails integer; hard_fails integer; at integer; need bigint;
  r record;
BEGIN
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
  verdicts := array_fill(NULL::text, ARRAY[total]);

  IF keys IS NOT NULL THEN taken := budget_claim_keys(keys, moment); END IF;
  FOREACH at IN ARRAY taken LOOP verdicts[at] := 'replay'; END LOOP;

  -- Locks held reservations, so that each is approved once. A plan's own reservation is never held.
  IF entries IS NOT NULL THEN
    FOR i IN 1..total LOOP
      IF requests[i].kind NOT IN ('reserve', 'try') THEN verdicts[i] := coalesce(verdicts[i], 'gone'); END IF;
    END LOOP;
    FOR r IN
      SELECT q.ordinality AS place, b.id, b.state, b.expires_at
      FROM unnest(requests) WITH ORDINALITY q
      JOIN budget_reservations b ON b.tenant_id = q.tenant_id AND b.id = q.id
      WHERE q.kind NOT IN ('reserve', 'try') AND b.origin <> 'plan' ORDER BY b.tenant_id, b.id, q.ordinality FOR UPDATE OF b
    LOOP
      IF verdicts[r.place] = 'gone' AND r.state = 'held' AND r.expires_at > moment AND NOT r.id = ANY (approved) THEN
        verdicts[r.place] := NULL;
        approved := approved || r.id;
      END IF;
    END LOOP;
  END IF;
  IF has_plans THEN
    PERFORM budget_lock_plans(
      ARRAY(SELECT q.tenant_id FROM unnest(requests) q WHERE q.plan_id IS NOT NULL),
      ARRAY(SELECT q.plan_id FROM unnest(requests) q WHERE q.plan_id IS NOT NULL));
    plan_lists := array_fill(NULL::text, ARRAY[total]);
    FOR r IN
      SELECT q.ordinality AS place, l.counter_ids,
        coalesce(budget_plan_status(l.status, l.heartbeat_by, l.dead_at, moment), 'missing') AS status
      FROM unnest(requests) WITH ORDINALITY q
      LEFT JOIN budget_plans l ON l.tenant_id = q.tenant_id AND l.id = q.plan_id
      WHERE q.plan_id IS NOT NULL
    LOOP
      plan_lists[r.place] := nullif(array_to_string(r.counter_ids, ','), '');
      IF verdicts[r.place] IS NULL AND r.status <> 'active' THEN verdicts[r.place] := 'plan-' || r.status; END IF;
    END LOOP;
  END IF;

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
        least(9223372036854775807, c.limit_amount + coalesce((
          SELECT sum(g.amount) FROM budget_grants g
          WHERE g.tenant_id = b.tenant_id AND g.cap_id = b.cap_id AND g.ended_at IS NULL
            AND (g.expires_at IS NULL OR g.expires_at > moment)
            AND (g.counter_key IS NULL OR g.counter_key = b.counter_key)), 0))::bigint END) ORDER BY k.place),
      array_agg(budget_millis(b.period_end) ORDER BY k.place),
      coalesce(bool_or(c.alert_thresholds <> '[]'), false)
    INTO units, spents, reserveds, modes, limits, ends, has_thresholds
    FROM unnest(counter_tenants, counters) WITH ORDINALITY AS k(tenant, id, place)
    LEFT JOIN budget_counters b ON b.tenant_id = k.tenant AND b.id = k.id
    LEFT JOIN budget_caps c ON c.tenant_id = b.tenant_id AND c.id = b.cap_id
    LEFT JOIN budget_plans l ON has_plans AND l.tenant_id = b.tenant_id AND l.id = b.cap_id;
    deltas := array_fill(0::bigint, ARRAY[cardinality(counters)]);
  END IF;

  headrooms := array_fill(NULL::text, ARRAY[cardinality(pair_requests)]);
  headroom_lists := array_fill(NULL::text, ARRAY[total]);
  end_lists := headroom_lists;

  -- If the whole batch fits, every request is open, and the order does not matter. The first that does not fit ends
  -- this.
  is_roomy := NOT has_plans AND entries IS NULL AND taken = '{}';
  IF is_roomy THEN
    rooms := deltas;
    slacks := deltas;
    FOR i IN 1..coalesce(cardinality(counters), 0) LOOP
      rooms[i] := limits[i] - (spents[i] + reserveds[i]);
      -- A soft cap counts up to the largest bigint.
      IF modes[i] = 'soft' THEN slacks[i] := 9223372036854775807 - limits[i]; END IF;
      IF (needs[i].need <= rooms[i] + slacks[i]) IS NOT TRUE THEN
        is_roomy := false;
        EXIT;
      END IF;
      deltas[i] := needs[i].need;
    END LOOP;
  END IF;

  IF is_roomy THEN
    verdicts := array_fill('open'::text, ARRAY[total]);
    all_rooms := rooms;
    IF keys IS NOT NULL THEN
      FOR pair IN 1..cardinality(pair_requests) LOOP
        at := pair_counters[pair];
        rooms[at] := rooms[at] - CASE units[at] WHEN 'usd' THEN requests[pair_requests[pair]].amount
          WHEN 'tokens' THEN requests[pair_requests[pair]].tokens ELSE 1 END;
        headrooms[pair] := greatest(rooms[at], 0);
        at := pair_requests[pair];
        headroom_lists[at] := concat_ws(',', headroom_lists[at], headrooms[pair]);
        end_lists[at] := concat_ws(',', end_lists[at], coalesce(ends[pair_counters[pair]]::text, 'null'));
      END LOOP;
    END IF;
  ELSE
    failing := array_fill(NULL::integer, ARRAY[total]);
    failing_limits := array_fill(NULL::text, ARRAY[total]);
    failing_spents := failing_limits;
    failing_reserveds := failing_limits;
    lists := failing_limits;
    deltas := array_fill(0::bigint, ARRAY[coalesce(cardinality(counters), 0)]);
    headrooms := array_fill(NULL::text, ARRAY[cardinality(pair_requests)]);
    due := array_fill(NULL::boolean, ARRAY[coalesce(cardinality(counters), 0)]);

    FOR i IN 1..total LOOP
      first := next;
      fails := NULL;
      hard_fails := NULL;
      WHILE pair_requests[next] = i LOOP
        at := pair_counters[next];
        IF verdicts[i] IS NULL AND pair_holds[next] IS NULL AND modes[at] <> 'soft' THEN
          need := CASE units[at] WHEN 'usd' THEN requests[i].amount WHEN 'tokens' THEN requests[i].tokens ELSE 1 END;
          -- What costs nothing is not denied, however little is left.
          IF need > 0 AND spents[at]::numeric + reserveds[at] + need > limits[at] THEN
            fails := coalesce(fails, next);
            IF spents[at]::numeric + reserveds[at] + need > 9223372036854775807 THEN
              hard_fails := coalesce(hard_fails, next);
            END IF;
            IF modes[at] = 'hard' OR (counter_tenants[at] = '00000000-0000-0000-0000-000000000000'
              AND requests[i].confined) THEN hard_fails := coalesce(hard_fails, next); END IF;
          END IF;
        END IF;
        next := next + 1;
      END LOOP;
      CONTINUE WHEN verdicts[i] IS NOT NULL;
      -- Requests after one that waits for the sweep wait too, so that the order of arrival is kept.
      IF waits THEN
        verdicts[i] := 'due';
        CONTINUE;
      END IF;

      approving := requests[i].kind = 'override' AND hard_fails IS NULL AND fails IS NOT NULL;
      IF fails IS NOT NULL AND NOT approving THEN
        fails := coalesce(hard_fails, fails);
        at := pair_counters[fails];
        need := CASE units[at] WHEN 'usd' THEN requests[i].amount WHEN 'tokens' THEN requests[i].tokens ELSE 1 END;
        -- Expired reservations must not cause a denial, so they are swept first.
        IF spents[at]::numeric + need <= limits[at] THEN
          IF due[at] IS NULL THEN
            due[at] := EXISTS (SELECT FROM budget_reservations b WHERE b.state = 'open' AND b.origin <> 'plan'
              AND b.expires_at <= moment
              AND (counter_tenants[at] = '00000000-0000-0000-0000-000000000000' OR b.tenant_id = counter_tenants[at]))
            OR EXISTS (SELECT FROM budget_plans l WHERE l.status IN ('active', 'suspended') AND l.dead_at <= moment
              AND (counter_tenants[at] = '00000000-0000-0000-0000-000000000000' OR l.tenant_id = counter_tenants[at]));
          END IF;
        END IF;
        failing[i] := fails;
        failing_limits[i] := limits[at];
        failing_spents[i] := spents[at];
        failing_reserveds[i] := reserveds[at];
        verdicts[i] := CASE
          WHEN due[at] AND spents[at]::numeric + need <= limits[at] THEN 'due'
          WHEN requests[i].kind NOT IN ('reserve', 'try') THEN 'no-room'
          WHEN hard_fails IS NOT NULL THEN 'denied'
          WHEN requests[i].kind = 'try' THEN 'no-room'
          ELSE 'held' END;
        waits := verdicts[i] = 'due';
      ELSE
        verdicts[i] := 'open';
        FOR pair IN first..next - 1 LOOP
          CONTINUE WHEN pair_holds[pair] IS NOT NULL;
          at := pair_counters[pair];
          need := CASE units[at] WHEN 'usd' THEN requests[i].amount WHEN 'tokens' THEN requests[i].tokens ELSE 1 END;
          IF modes[at] = 'soft' AND spents[at]::numeric + reserveds[at] + need > 9223372036854775807 THEN
            uncounted[pair] := true;
            CONTINUE;
          END IF;
          IF approving AND modes[at] = 'approval' AND spents[at]::numeric + reserveds[at] + need > limits[at] THEN
            INSERT INTO budget_grants (
              reservation_id, tenant_id, cap_id, counter_key, amount, reason, expires_at, created_at, created_by)
            SELECT requests[i].id, counter_tenants[at], counter_caps[at], counter_keys[at],
              spents[at] + reserveds[at] + need - limits[at], 'approval of ' || requests[i].id,
              CASE WHEN ends[at] IS NOT NULL THEN to_timestamp(ends[at] / 1000.0) END, moment, requests[i].created_by;
            limits[at] := spents[at] + reserveds[at] + need;
          END IF;
          reserveds[at] := reserveds[at] + need;
          deltas[at] := deltas[at] + need;
        END LOOP;
      END IF;
      -- On counters where the plan has reserved, the call's headroom is the plan's, whose own counter is the first.
      lists[i] := plan_lists[i];
      FOR pair IN first..next - 1 LOOP
        at := pair_counters[pair];
        IF pair_holds[pair] IS NULL THEN
          headrooms[pair] := greatest(limits[at]::numeric - spents[at] - reserveds[at], 0);
          IF uncounted[pair] IS NULL THEN lists[i] := concat_ws(',', lists[i], counters[at]); END IF;
        ELSE
          headrooms[pair] := headrooms[first];
        END IF;
        IF keys IS NOT NULL THEN
          headroom_lists[i] := concat_ws(',', headroom_lists[i], headrooms[pair]);
          end_lists[i] := concat_ws(',', end_lists[i],
            coalesce(CASE WHEN pair_holds[pair] IS NULL THEN ends[at] ELSE pair_ends[pair] END::text, 'null'));
        END IF;
      END LOOP;
      lists[i] := '{' || coalesce(lists[i], '') || '}';
    END LOOP;

    IF counters IS NOT NULL
      AND array_remove(array_remove(array_remove(verdicts, 'open'), 'held'), 'replay') <> '{}' THEN
      DELETE FROM budget_counters b
      WHERE b.tenant_id = ANY (counter_tenants) AND b.id = ANY (counters) AND b.created_at = moment
        AND b.xmin = pg_current_xact_id()::xid AND b.spent = 0 AND b.reserved = 0
        AND deltas[array_position(counters, b.id)] = 0
        AND NOT EXISTS (
          SELECT FROM unnest(verdicts, lists) AS v(verdict, list)
          WHERE v.verdict IN ('open', 'held') AND b.id = ANY (v.list::uuid[]));
    END IF;
  END IF;
  IF needs IS NOT NULL THEN
    UPDATE budget_counters b SET spent = b.spent, reserved = b.reserved + deltas[array_position(counters, b.id)]
    WHERE b.tenant_id = ANY (counter_tenants) AND b.id = ANY (counters) AND deltas[array_position(counters, b.id)] > 0;
    IF has_thresholds THEN
      PERFORM budget_note_alerts(moment, counters);
    END IF;
  END IF;

  INSERT INTO budget_reservations (tenant_id, id, state, origin, agent_id, plan_id, application_id, api_key_id,
    user_id, model, provider, task_type, amount, tokens, ttl_seconds, expires_at, created_at, created_by, metadata,
    counter_ids, answer)
  SELECT q.tenant_id, q.id, verdicts[q.ordinality], q.origin, q.agent_id, q.plan_id, q.application_id, q.api_key_id,
    q.user_id, q.model, q.provider, q.task_type, q.amount, q.tokens, q.ttl_seconds,
    moment + make_interval(secs => CASE verdicts[q.ordinality] WHEN 'open' THEN q.ttl_seconds ELSE hold_seconds END),
    moment, q.created_by, q.metadata,
    CASE WHEN NOT is_roomy THEN lists[q.ordinality]::uuid[]
      WHEN q.governing IS NULL THEN coalesce(counters, '{}')
      ELSE ARRAY(SELECT budget_reserve_decide.counters[c] FROM unnest(q.governing) c) END,
    -- Stored for requests with an idempotency key, to answer a repetition.
    CASE WHEN q.caps IS NOT NULL THEN jsonb_build_object(
      'state', verdicts[q.ordinality], 'amount', q.amount, 'tokens', q.tokens, 'ttl', q.ttl_seconds, 'caps', q.caps,
      'headrooms', string_to_array(headroom_lists[q.ordinality], ','),
      'ends', ('[' || end_lists[q.ordinality] || ']')::jsonb) END
  FROM unnest(requests) WITH ORDINALITY q
  WHERE verdicts[q.ordinality] IN ('open', 'held') AND q.kind IN ('reserve', 'try');

  IF entries IS NOT NULL THEN
    UPDATE budget_reservations b SET state = 'open', amount = q.amount, decided_at = moment, decided_by = q.created_by,
      decision_reason = q.reason, expires_at = moment + make_interval(secs => b.ttl_seconds),
      counter_ids = lists[q.ordinality]::uuid[]
    FROM unnest(requests) WITH ORDINALITY q
    WHERE b.tenant_id = q.tenant_id AND b.id = q.id AND verdicts[q.ordinality] = 'open' AND q.kind NOT IN ('reserve', 'try');
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
      WHERE verdicts[a.place] = 'open' AND i.principal = k.principal AND i.route = k.route AND i.key = k.key;
    END IF;
    refused := ARRAY(
      SELECT place::integer FROM unnest(verdicts) WITH ORDINALITY AS v(verdict, place)
      WHERE verdict NOT IN ('open', 'held', 'replay'));
    IF cardinality(refused) > 0 THEN PERFORM budget_free_keys(keys, refused); END IF;
  END IF;
  IF entries IS NOT NULL THEN
    PERFORM budget_audit(entries, array_agg(q.ordinality::integer), array_agg(q.tenant_id), moment)
    FROM unnest(requests) WITH ORDINALITY q WHERE verdicts[q.ordinality] = 'open';
  END IF;

  IF is_roomy AND keys IS NULL THEN
    RETURN json_build_object('at', budget_millis(moment), 'rooms', coalesce(all_rooms, '{}'), 'ends', ends);
  END IF;
  RETURN json_build_object('at', budget_millis(moment), 'verdicts', verdicts, 'headrooms', headrooms, 'ends', ends, 'pairEnds', pair_ends,
    'failing', coalesce(failing, '{}'), 'failingLimits', coalesce(failing_limits, '{}'),
    'failingSpents', coalesce(failing_spents, '{}'), 'failingReserveds', coalesce(failing_reserveds, '{}'),
    'replays', CASE WHEN cardinality(taken) = 0 THEN '[]'::json ELSE budget_replays(keys, taken) END,
    'approved', answered);
END
$$;

REVOKE ALL ON FUNCTION budget_reserve_decide FROM PUBLIC;
