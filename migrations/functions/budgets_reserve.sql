-- As version 4, but takes columns of their own types, and most batches are decided by one statement.
CREATE OR REPLACE FUNCTION budgets_reserve(moment timestamptz, hold_seconds integer, keyed boolean, has_plans boolean,
  has_approvals boolean, is_alike boolean, book_tenants uuid[], book_versions bigint[], counter_tenants uuid[],
  counter_caps uuid[], counter_keys text[], needs numeric[], pair_requests integer[], pair_counters integer[],
  first_pairs integer[], last_pairs integer[], ids uuid[], tenants uuid[], kinds text[], origins text[], agents uuid[],
  plans uuid[], applications integer[], api_keys uuid[], user_ids text[], models text[], providers text[],
  task_types text[], amounts bigint[], tokens bigint[], ttls integer[], principals text[], metadatas jsonb[],
  reasons text[], confineds boolean[], repeated text[], caps jsonb[], keys json, entries json) RETURNS json
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
SET enable_bitmapscan = off SET enable_mergejoin = off SET enable_material = off AS $$
DECLARE
  is_open boolean; is_roomy boolean; rooms bigint[]; slacks bigint[]; pair_ids uuid[];
  answered json := '[]';
  counters uuid[];
  units text[]; modes text[]; limits bigint[]; spents bigint[]; reserveds bigint[]; deltas bigint[]; ends bigint[];
  headrooms text[];
  verdicts text[]; failing integer[]; failing_limits text[]; failing_spents text[]; failing_reserveds text[];
  taken integer[] := '{}'; refused integer[]; due boolean[];
  lists text[]; headroom_lists text[]; end_lists text[];
  total integer := coalesce(cardinality(ids), 0); first integer; next integer := 1; fails integer; hard_fails integer;
  at integer;
  need bigint; approving boolean; waits boolean := false;
  has_thresholds boolean := false; pair_holds uuid[]; pair_ends bigint[]; plan_lists text[]; is_needed boolean[];
  approved uuid[] := '{}'; uncounted boolean[]; opened uuid[];
  places integer[]; place_tenants uuid[]; place_caps uuid[]; place_keys text[];
  is_rolling boolean; all_rooms text[];
  r record;
BEGIN
  -- Most ask for nothing but room: where one statement finds it under every cap, nothing is left to decide. What was
  -- granted beyond a cap, and what rolls, has to be read once the counters are locked.
  IF NOT keyed AND NOT has_plans AND NOT has_approvals THEN
    IF counter_caps IS NULL THEN
      is_open := true;
    ELSIF cardinality(counter_caps) = 1 THEN
      UPDATE budget_counters b SET reserved = b.reserved + needs[1]::bigint
      FROM budget_caps c, (
        SELECT o.tenant_id, o.id, o.period_end FROM budget_counters o
        WHERE o.tenant_id = counter_tenants[1] AND o.cap_id = counter_caps[1] AND o.counter_key = counter_keys[1]
        ORDER BY o.period_start DESC LIMIT 1) f
      WHERE f.period_end > moment AND b.tenant_id = f.tenant_id AND b.id = f.id AND b.ring IS NULL
        AND c.tenant_id = counter_tenants[1] AND c.id = counter_caps[1]
        AND needs[1] <= budget_most(c) - (b.spent + b.reserved)
        AND NOT EXISTS (
          SELECT FROM budget_grants g
          WHERE g.tenant_id = counter_tenants[1] AND g.cap_id = counter_caps[1] AND g.ended_at IS NULL
            AND (g.expires_at IS NULL OR g.expires_at > moment)
            AND (g.counter_key IS NULL OR g.counter_key = counter_keys[1]))
      RETURNING ARRAY[b.id], ARRAY[(c.limit_amount - (b.spent + b.reserved - needs[1]::bigint))::text],
        ARRAY[budget_millis(b.period_end)], c.alert_thresholds <> '[]'
      INTO counters, all_rooms, ends, has_thresholds;
      is_open := FOUND;
    ELSE
      WITH found AS MATERIALIZED (
        SELECT k.tenant, k.need, k.place, f.id
        FROM unnest(counter_tenants, counter_caps, counter_keys, needs) WITH ORDINALITY AS k(tenant, cap, key, need, place)
        CROSS JOIN LATERAL (
          SELECT o.id, o.period_end FROM budget_counters o
          WHERE o.tenant_id = k.tenant AND o.cap_id = k.cap AND o.counter_key = k.key
          ORDER BY o.period_start DESC LIMIT 1) f
        WHERE f.period_end > moment
      )
      SELECT array_agg(l.id ORDER BY l.place), array_agg(l.room::text ORDER BY l.place),
        array_agg(budget_millis(l.period_end) ORDER BY l.place), bool_and(l.has_room), bool_or(l.has_thresholds),
        bool_or(l.rolls)
      INTO counters, all_rooms, ends, is_open, has_thresholds, is_rolling FROM (
        SELECT b.id, f.place, b.period_end, b.ring IS NOT NULL AS rolls,
          c.limit_amount - (b.spent + b.reserved) AS room, c.alert_thresholds <> '[]' AS has_thresholds,
          b.ring IS NULL AND f.need <= budget_most(c) - (b.spent + b.reserved)
            AND NOT EXISTS (
              SELECT FROM budget_grants g
              WHERE g.tenant_id = b.tenant_id AND g.cap_id = b.cap_id AND g.ended_at IS NULL
                AND (g.expires_at IS NULL OR g.expires_at > moment)
                AND (g.counter_key IS NULL OR g.counter_key = b.counter_key)) AS has_room
        FROM found f JOIN budget_counters b ON b.tenant_id = f.tenant AND b.id = f.id
        JOIN budget_caps c ON c.tenant_id = b.tenant_id AND c.id = b.cap_id
        WHERE (SELECT count(*) FROM found) = cardinality(counter_caps)
        ORDER BY b.tenant_id, b.id FOR UPDATE OF b) l;
    END IF;
  END IF;

  -- Whoever waited for a counter read the caps before: they are those that hold if none was changed until it was locked.
  IF EXISTS (
    SELECT FROM unnest(book_tenants, book_versions) AS b(tenant, version)
    LEFT JOIN budget_books k ON k.tenant_id = b.tenant WHERE coalesce(k.caps_version, 0) <> b.version) THEN
    IF is_open AND cardinality(counter_caps) = 1 THEN
      UPDATE budget_counters b SET reserved = b.reserved - needs[1]::bigint
      WHERE b.tenant_id = counter_tenants[1] AND b.id = counters[1];
    END IF;
    RETURN json_build_object('stale', true);
  END IF;

  IF is_open THEN
    IF cardinality(counter_caps) > 1 THEN
      UPDATE budget_counters b SET reserved = b.reserved + needs[array_position(counters, b.id)]::bigint
      WHERE b.tenant_id = ANY (counter_tenants) AND b.id = ANY (counters);
    END IF;
    IF has_thresholds THEN PERFORM budget_note_alerts(moment, counters); END IF;
    IF NOT is_alike THEN
      FOR pair IN 1..cardinality(pair_counters) LOOP pair_ids[pair] := counters[pair_counters[pair]]; END LOOP;
    END IF;
    INSERT INTO budget_reservations (tenant_id, id, state, origin, agent_id, application_id, api_key_id, user_id, model,
      provider, task_type, amount, tokens, ttl_seconds, expires_at, created_at, created_by, metadata, counter_ids)
    SELECT budget_at(tenants, q.place), ids[q.place], 'open', budget_at(origins, q.place), budget_at(agents, q.place),
      budget_at(applications, q.place), budget_at(api_keys, q.place), budget_at(user_ids, q.place),
      budget_at(models, q.place), budget_at(providers, q.place), budget_at(task_types, q.place),
      budget_at(amounts, q.place), budget_at(tokens, q.place), budget_at(ttls, q.place),
      moment + make_interval(secs => budget_at(ttls, q.place)), moment, budget_at(principals, q.place),
      budget_at(metadatas, q.place),
      coalesce(CASE WHEN is_alike THEN counters ELSE pair_ids[first_pairs[q.place]:last_pairs[q.place]] END, '{}')
    FROM generate_series(1, total) AS q(place);
    RETURN json_build_object('rooms', coalesce(all_rooms, '{}'), 'ends', ends);
  END IF;

  IF is_alike THEN
    SELECT coalesce(array_agg(q.place ORDER BY q.place, k.place), '{}'),
      coalesce(array_agg(k.place ORDER BY q.place, k.place), '{}')
    INTO pair_requests, pair_counters
    FROM generate_series(1, total) AS q(place), generate_series(1, cardinality(counter_caps)) AS k(place);
  END IF;
  tenants := budget_column(tenants, total);
  kinds := budget_column(kinds, total);
  plans := budget_column(plans, total);
  amounts := budget_column(amounts, total);
  tokens := budget_column(tokens, total);
  principals := budget_column(principals, total);
  confineds := budget_column(confineds, total);
  reasons := budget_column(reasons, total);
  verdicts := array_fill(NULL::text, ARRAY[total]);

  IF keyed THEN taken := budget_claim_keys(keys, moment); END IF;
  FOREACH at IN ARRAY taken LOOP verdicts[at] := 'replay'; END LOOP;

  -- Approvals take what is held, and nobody else then does. A plan's own reservation waits for no approval.
  IF has_approvals THEN
    FOR i IN 1..total LOOP
      IF kinds[i] <> 'reserve' THEN verdicts[i] := 'gone'; END IF;
    END LOOP;
    FOR r IN
      SELECT q.place, b.state, b.expires_at, b.amount, b.tokens
      FROM unnest(ids, tenants, kinds) WITH ORDINALITY AS q(id, tenant, kind, place)
      JOIN budget_reservations b ON b.tenant_id = q.tenant AND b.id = q.id
      WHERE q.kind <> 'reserve' AND b.origin <> 'plan' ORDER BY b.tenant_id, b.id, q.place FOR UPDATE OF b
    LOOP
      IF r.state = 'held' AND r.expires_at > moment AND NOT ids[r.place] = ANY (approved) THEN
        verdicts[r.place] := NULL;
        approved := approved || ids[r.place];
      END IF;
    END LOOP;
  END IF;
  IF has_plans THEN
    PERFORM budget_lock_plans(
      ARRAY(SELECT q.tenant FROM unnest(tenants, plans) AS q(tenant, plan) WHERE q.plan IS NOT NULL),
      ARRAY(SELECT q.plan FROM unnest(plans) AS q(plan) WHERE q.plan IS NOT NULL));
    plan_lists := array_fill(NULL::text, ARRAY[total]);
    FOR r IN
      SELECT q.place, l.counter_ids,
        coalesce(budget_plan_status(l.status, l.heartbeat_by, l.dead_at, moment), 'missing') AS status
      FROM unnest(tenants, plans) WITH ORDINALITY AS q(tenant, plan, place)
      LEFT JOIN budget_plans l ON l.tenant_id = q.tenant AND l.id = q.plan
      WHERE q.plan IS NOT NULL
    LOOP
      plan_lists[r.place] := nullif(array_to_string(r.counter_ids, ','), '');
      IF verdicts[r.place] IS NULL AND r.status <> 'active' THEN verdicts[r.place] := 'plan-' || r.status; END IF;
    END LOOP;
  END IF;

  IF counter_caps IS NOT NULL THEN
    IF has_plans THEN
      -- What a plan holds already is taken from the plan: the counter that it holds it on is neither locked nor moved.
      SELECT array_agg(h.id ORDER BY k.pair), array_agg(h.ends ORDER BY k.pair) INTO pair_holds, pair_ends
      FROM unnest(pair_requests, pair_counters) WITH ORDINALITY AS k(request, counter, pair)
      LEFT JOIN LATERAL (
        SELECT b.id, budget_millis(b.period_end) AS ends
        FROM budget_plans l
        CROSS JOIN LATERAL unnest(l.counter_ids, l.held_caps, l.held_keys) AS e(counter, cap, key)
        JOIN budget_counters b ON b.tenant_id = counter_tenants[k.counter] AND b.id = e.counter
        WHERE l.tenant_id = tenants[k.request] AND l.id = plans[k.request]
          AND e.cap = counter_caps[k.counter]) h ON true;
      is_needed := array_fill(false, ARRAY[cardinality(counter_caps)]);
      FOR pair IN 1..cardinality(pair_requests) LOOP
        IF pair_holds[pair] IS NULL THEN is_needed[pair_counters[pair]] := true; END IF;
      END LOOP;
      SELECT array_agg(k.place ORDER BY k.place), array_agg(k.tenant ORDER BY k.place),
        array_agg(k.cap ORDER BY k.place), array_agg(k.key ORDER BY k.place)
      INTO places, place_tenants, place_caps, place_keys
      FROM unnest(counter_tenants, counter_caps, counter_keys, is_needed)
        WITH ORDINALITY AS k(tenant, cap, key, needed, place) WHERE k.needed;
      opened := budget_open_counters(place_tenants, place_caps, place_keys, moment);
      counters := array_fill(NULL::uuid, ARRAY[cardinality(counter_caps)]);
      FOR i IN 1..cardinality(places) LOOP counters[places[i]] := opened[i]; END LOOP;
    ELSE
      -- Nobody waits for a counter that somebody else makes while others are locked, so they are locked all or none, and
      -- looked for once.
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
          WHERE (SELECT count(*) FROM found) = cardinality(counter_caps)
          ORDER BY b.tenant_id, b.id FOR UPDATE OF b) l;
      END IF;
      IF cardinality(counters) IS DISTINCT FROM cardinality(counter_caps) THEN
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

  -- Where all have room at once nobody is refused, held or due, whatever the order; the first that has none ends this.
  is_roomy := NOT has_plans AND NOT has_approvals AND taken = '{}';
  IF is_roomy THEN
    rooms := deltas;
    slacks := deltas;
    FOR i IN 1..coalesce(cardinality(counters), 0) LOOP
      rooms[i] := limits[i] - (spents[i] + reserveds[i]);
      -- A cap that refuses nothing counts up to what it can hold.
      IF modes[i] = 'soft' THEN slacks[i] := 9223372036854775807 - limits[i]; END IF;
      IF (needs[i] <= rooms[i] + slacks[i]) IS NOT TRUE THEN
        is_roomy := false;
        EXIT;
      END IF;
      deltas[i] := needs[i];
    END LOOP;
  END IF;

  IF is_roomy THEN
    verdicts := array_fill('open'::text, ARRAY[total]);
    all_rooms := rooms;
    IF NOT is_alike THEN
      pair_ids := array_fill(NULL::uuid, ARRAY[cardinality(pair_requests)]);
      FOR pair IN 1..cardinality(pair_requests) LOOP pair_ids[pair] := counters[pair_counters[pair]]; END LOOP;
    END IF;
    IF keyed THEN
      FOR pair IN 1..cardinality(pair_requests) LOOP
        at := pair_counters[pair];
        rooms[at] := rooms[at] - CASE units[at] WHEN 'usd' THEN amounts[pair_requests[pair]]
          WHEN 'tokens' THEN tokens[pair_requests[pair]] ELSE 1 END;
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
          need := CASE units[at] WHEN 'usd' THEN amounts[i] WHEN 'tokens' THEN tokens[i] ELSE 1 END;
          IF spents[at]::numeric + reserveds[at] + need > limits[at] THEN
            fails := coalesce(fails, next);
            IF spents[at]::numeric + reserveds[at] + need > 9223372036854775807 THEN
              hard_fails := coalesce(hard_fails, next);
            END IF;
            IF modes[at] = 'hard' OR (counter_tenants[at] = '00000000-0000-0000-0000-000000000000'
              AND confineds[i]) THEN hard_fails := coalesce(hard_fails, next); END IF;
          END IF;
        END IF;
        next := next + 1;
      END LOOP;
      CONTINUE WHEN verdicts[i] IS NOT NULL;
      -- Whoever comes after one that waits for the sweep waits too, so that the order of arrival holds.
      IF waits THEN
        verdicts[i] := 'due';
        CONTINUE;
      END IF;

      approving := kinds[i] = 'override' AND hard_fails IS NULL AND fails IS NOT NULL;
      IF fails IS NOT NULL AND NOT approving THEN
        fails := coalesce(hard_fails, fails);
        at := pair_counters[fails];
        need := CASE units[at] WHEN 'usd' THEN amounts[i] WHEN 'tokens' THEN tokens[i] ELSE 1 END;
        -- What has expired takes no room, so it is swept before anybody is refused for it.
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
          WHEN kinds[i] <> 'reserve' THEN 'no-room'
          WHEN hard_fails IS NULL THEN 'held'
          ELSE 'denied' END;
        waits := verdicts[i] = 'due';
      ELSE
        verdicts[i] := 'open';
        FOR pair IN first..next - 1 LOOP
          CONTINUE WHEN pair_holds[pair] IS NOT NULL;
          at := pair_counters[pair];
          need := CASE units[at] WHEN 'usd' THEN amounts[i] WHEN 'tokens' THEN tokens[i] ELSE 1 END;
          IF modes[at] = 'soft' AND spents[at]::numeric + reserveds[at] + need > 9223372036854775807 THEN
            uncounted[pair] := true;
            CONTINUE;
          END IF;
          IF approving AND modes[at] = 'approval' AND spents[at]::numeric + reserveds[at] + need > limits[at] THEN
            INSERT INTO budget_grants (
              reservation_id, tenant_id, cap_id, counter_key, amount, reason, expires_at, created_at, created_by)
            SELECT ids[i], counter_tenants[at], counter_caps[at], counter_keys[at],
              spents[at] + reserveds[at] + need - limits[at], 'approval of ' || ids[i],
              CASE WHEN ends[at] IS NOT NULL THEN to_timestamp(ends[at] / 1000.0) END, moment, principals[i];
            limits[at] := spents[at] + reserveds[at] + need;
          END IF;
          reserveds[at] := reserveds[at] + need;
          deltas[at] := deltas[at] + need;
        END LOOP;
      END IF;
      -- Where the plan holds, the call has what the plan has: its first counter is the plan's own.
      lists[i] := plan_lists[i];
      FOR pair IN first..next - 1 LOOP
        at := pair_counters[pair];
        IF pair_holds[pair] IS NULL THEN
          headrooms[pair] := greatest(limits[at]::numeric - spents[at] - reserveds[at], 0);
          IF uncounted[pair] IS NULL THEN lists[i] := concat_ws(',', lists[i], counters[at]); END IF;
        ELSE
          headrooms[pair] := headrooms[first];
        END IF;
        IF keyed THEN
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
  IF counter_caps IS NOT NULL THEN
    UPDATE budget_counters b SET reserved = b.reserved + deltas[array_position(counters, b.id)]
    WHERE b.tenant_id = ANY (counter_tenants) AND b.id = ANY (counters) AND deltas[array_position(counters, b.id)] > 0;
    IF has_thresholds THEN
      PERFORM budget_note_alerts(moment, counters);
    END IF;
  END IF;

  INSERT INTO budget_reservations (tenant_id, id, state, origin, agent_id, plan_id, application_id, api_key_id,
    user_id, model, provider, task_type, amount, tokens, ttl_seconds, expires_at, created_at, created_by, metadata,
    counter_ids, answer)
  SELECT budget_at(tenants, q.place), ids[q.place], verdicts[q.place], budget_at(origins, q.place),
    budget_at(agents, q.place), budget_at(plans, q.place), budget_at(applications, q.place),
    budget_at(api_keys, q.place), budget_at(user_ids, q.place), budget_at(models, q.place),
    budget_at(providers, q.place), budget_at(task_types, q.place), budget_at(amounts, q.place),
    budget_at(tokens, q.place), budget_at(ttls, q.place),
    moment + make_interval(secs => CASE verdicts[q.place] WHEN 'open' THEN budget_at(ttls, q.place)
      ELSE hold_seconds END),
    moment, budget_at(principals, q.place), budget_at(metadatas, q.place),
    CASE WHEN NOT is_roomy THEN lists[q.place]::uuid[] WHEN is_alike THEN coalesce(counters, '{}')
      ELSE coalesce(pair_ids[first_pairs[q.place]:last_pairs[q.place]], '{}') END,
    CASE WHEN budget_at(repeated, q.place) IS NOT NULL THEN jsonb_build_object(
      'state', verdicts[q.place], 'amount', budget_at(amounts, q.place), 'tokens', budget_at(tokens, q.place),
      'ttl', budget_at(ttls, q.place), 'caps', budget_at(caps, q.place),
      'headrooms', string_to_array(headroom_lists[q.place], ','),
      'ends', ('[' || end_lists[q.place] || ']')::jsonb) END
  FROM generate_series(1, total) AS q(place)
  WHERE verdicts[q.place] IN ('open', 'held') AND kinds[q.place] = 'reserve';

  IF has_approvals THEN
    UPDATE budget_reservations b SET state = 'open', amount = q.amount, decided_at = moment, decided_by = q.principal,
      decision_reason = q.reason, expires_at = moment + make_interval(secs => b.ttl_seconds),
      counter_ids = q.list::uuid[]
    FROM unnest(ids, tenants, kinds, amounts, principals, reasons, verdicts, lists)
      AS q(id, tenant, kind, amount, principal, reason, verdict, list)
    WHERE b.tenant_id = q.tenant AND b.id = q.id AND q.verdict = 'open' AND q.kind <> 'reserve';
    SELECT coalesce(json_agg(json_build_object('place', q.place, 'reservation', to_json(b))), '[]') INTO answered
    FROM unnest(ids, tenants, kinds) WITH ORDINALITY AS q(id, tenant, kind, place)
    JOIN budget_reservations b ON b.tenant_id = q.tenant AND b.id = q.id WHERE q.kind <> 'reserve';
  END IF;

  IF keyed THEN
    refused := ARRAY(
      SELECT place::integer FROM unnest(verdicts) WITH ORDINALITY AS v(verdict, place)
      WHERE verdict NOT IN ('open', 'held', 'replay'));
    IF cardinality(refused) > 0 THEN PERFORM budget_free_keys(keys, refused); END IF;
  END IF;
  IF has_approvals THEN
    PERFORM budget_audit(entries, array_agg(place::integer), array_agg(tenants[place]), moment)
    FROM unnest(verdicts) WITH ORDINALITY AS v(verdict, place) WHERE verdict = 'open';
  END IF;

  IF is_roomy AND NOT keyed THEN
    RETURN json_build_object('rooms', coalesce(all_rooms, '{}'), 'ends', ends);
  END IF;
  RETURN json_build_object('verdicts', verdicts, 'headrooms', headrooms, 'ends', ends, 'pairEnds', pair_ends,
    'failing', coalesce(failing, '{}'), 'failingLimits', coalesce(failing_limits, '{}'),
    'failingSpents', coalesce(failing_spents, '{}'), 'failingReserveds', coalesce(failing_reserveds, '{}'),
    'replays', CASE WHEN cardinality(taken) = 0 THEN '[]'::json ELSE budget_replays(keys, taken) END,
    'approved', answered);
END
$$;

REVOKE ALL ON FUNCTION budgets_reserve FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budgets_reserve TO application_manager;
