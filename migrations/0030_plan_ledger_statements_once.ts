import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // As before, with plans of its statements that are made once a session: to make them at every call took longer than to run
  // them. Such a plan may be of a time when there were few rows, so counters are found by lists of their keys, as they are
  // locked: joined to a list, all of a tenant's were read for each.
  yield* sql`
    CREATE OR REPLACE FUNCTION budgets_reserve_v2(p json, requests json, entries json) RETURNS json
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
    SET plan_cache_mode = force_generic_plan
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    SET enable_material = off AS $$
    DECLARE
      moment timestamptz := p->>'now';
      ids uuid[]; tenants uuid[]; kinds text[]; amounts bigint[]; tokens bigint[]; plans uuid[];
      counter_tenants uuid[]; counter_caps uuid[]; counter_keys text[]; counters uuid[];
      units text[]; modes text[]; limits bigint[]; spents bigint[]; reserveds bigint[]; deltas bigint[]; ends bigint[];
      pair_requests integer[]; pair_counters integer[]; headrooms text[];
      verdicts text[]; failing integer[]; failing_limits text[]; failing_spents text[]; failing_reserveds text[];
      taken integer[] := '{}'; refused integer[]; due boolean[]; keyed boolean := (p->>'keyed')::boolean;
      lists text[]; headroom_lists text[]; end_lists text[];
      total integer; first integer; next integer := 1; fails integer; hard_fails integer; at integer;
      need bigint; approving boolean; waits boolean := false;
      has_plans boolean := (p->>'plans')::boolean; has_thresholds boolean := false;
      pair_holds uuid[]; pair_ends bigint[]; plan_lists text[]; is_needed boolean[];
      places integer[]; place_tenants uuid[]; place_caps uuid[]; place_keys text[]; opened uuid[];
      r record;
    BEGIN
      IF EXISTS (
        SELECT FROM json_to_recordset(p->'books') AS b(tenant uuid, version bigint)
        LEFT JOIN budget_books k ON k.tenant_id = b.tenant WHERE coalesce(k.caps_version, 0) <> b.version
      ) THEN RETURN json_build_object('stale', true); END IF;

      SELECT array_agg(q.id ORDER BY place), array_agg(q.tenant ORDER BY place), array_agg(q.kind ORDER BY place),
        array_agg(q.amount ORDER BY place), array_agg(q.tokens ORDER BY place), array_agg(q.plan ORDER BY place), count(*)
      INTO ids, tenants, kinds, amounts, tokens, plans, total
      FROM json_to_recordset(requests) AS q(
        place integer, id uuid, tenant uuid, kind text, amount bigint, tokens bigint, plan uuid);
      verdicts := array_fill(NULL::text, ARRAY[total]);

      IF keyed THEN taken := budget_claim_keys(requests, moment); END IF;
      FOREACH at IN ARRAY taken LOOP verdicts[at] := 'replay'; END LOOP;

      -- Approvals take what is held, and nobody else then does. A plan's own reservation waits for no approval.
      IF 'reserve' <> ANY (kinds) THEN
        FOR i IN 1..total LOOP
          IF kinds[i] <> 'reserve' THEN verdicts[i] := 'gone'; END IF;
        END LOOP;
        FOR r IN
          SELECT q.place, b.state, b.expires_at, b.amount, b.tokens FROM json_to_recordset(requests) AS q(
            place integer, id uuid, tenant uuid, kind text)
          JOIN budget_reservations b ON b.tenant_id = q.tenant AND b.id = q.id
          WHERE q.kind <> 'reserve' AND b.origin <> 'plan' ORDER BY b.tenant_id, b.id FOR UPDATE OF b
        LOOP
          IF r.state = 'held' AND r.expires_at > moment THEN verdicts[r.place] := NULL; END IF;
        END LOOP;
      END IF;
      IF has_plans THEN
        PERFORM budget_lock_plans(
          ARRAY(SELECT q.tenant FROM json_to_recordset(requests) AS q(tenant uuid, plan uuid) WHERE q.plan IS NOT NULL),
          ARRAY(SELECT q.plan FROM json_to_recordset(requests) AS q(plan uuid) WHERE q.plan IS NOT NULL));
        plan_lists := array_fill(NULL::text, ARRAY[total]);
        FOR r IN
          SELECT q.place, l.counter_ids,
            coalesce(budget_plan_status(l.status, l.heartbeat_by, l.dead_at, moment), 'missing') AS status
          FROM json_to_recordset(requests) AS q(place integer, tenant uuid, plan uuid)
          LEFT JOIN budget_plans l ON l.tenant_id = q.tenant AND l.id = q.plan
          WHERE q.plan IS NOT NULL
        LOOP
          plan_lists[r.place] := nullif(array_to_string(r.counter_ids, ','), '');
          IF verdicts[r.place] IS NULL AND r.status <> 'active' THEN verdicts[r.place] := 'plan-' || r.status; END IF;
        END LOOP;
      END IF;

      SELECT array_agg(c.tenant ORDER BY place), array_agg(c.cap ORDER BY place), array_agg(c.key ORDER BY place)
      INTO counter_tenants, counter_caps, counter_keys
      FROM json_to_recordset(p->'counters') AS c(place integer, tenant uuid, cap uuid, key text);
      pair_requests := p->>'pairRequests';
      pair_counters := p->>'pairCounters';

      IF counter_caps IS NOT NULL THEN
        IF has_plans THEN
          -- What a plan holds already is taken from the plan: the counter that it holds it on is neither locked nor moved.
          SELECT array_agg(h.id ORDER BY k.pair), array_agg(h.ends ORDER BY k.pair) INTO pair_holds, pair_ends
          FROM unnest(pair_requests, pair_counters) WITH ORDINALITY AS k(request, counter, pair)
          LEFT JOIN LATERAL (
            SELECT b.id, CASE WHEN isfinite(b.period_end) THEN (extract(epoch FROM b.period_end) * 1000)::bigint END AS ends
            FROM budget_plans l
            CROSS JOIN LATERAL unnest(l.counter_ids, l.held_caps, l.held_keys) AS e(counter, cap, key)
            JOIN budget_counters b ON b.tenant_id = counter_tenants[k.counter] AND b.id = e.counter
            WHERE l.tenant_id = tenants[k.request] AND l.id = plans[k.request]
              AND e.cap = counter_caps[k.counter] AND e.key = counter_keys[k.counter]) h ON true;
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
          counters := budget_open_counters(counter_tenants, counter_caps, counter_keys, moment);
        END IF;
        PERFORM budget_lock_counters(counter_tenants, counters, moment);
        units := array_fill(NULL::text, ARRAY[cardinality(counters)]);
        modes := units;
        limits := array_fill(NULL::bigint, ARRAY[cardinality(counters)]);
        spents := limits;
        reserveds := limits;
        ends := limits;
        FOR r IN
          SELECT array_position(counters, b.id) AS place, b.unit, b.spent, b.reserved,
            CASE WHEN l.id IS NOT NULL THEN 'hard'
              WHEN c.status = 'active' AND c.deleted_at IS NULL THEN c.mode ELSE 'soft' END AS mode,
            coalesce(l.budget, budget_limit(b.tenant_id, b.cap_id, b.counter_key, moment)) AS most,
            CASE WHEN isfinite(b.period_end) THEN (extract(epoch FROM b.period_end) * 1000)::bigint END AS ends,
            coalesce(c.alert_thresholds <> '[]', false) AS has_alerts
          FROM budget_counters b
          LEFT JOIN budget_caps c ON c.tenant_id = b.tenant_id AND c.id = b.cap_id
          LEFT JOIN budget_plans l ON has_plans AND l.tenant_id = b.tenant_id AND l.id = b.cap_id
          WHERE b.tenant_id = ANY (counter_tenants) AND b.id = ANY (counters)
        LOOP
          units[r.place] := r.unit;
          modes[r.place] := r.mode;
          limits[r.place] := r.most;
          spents[r.place] := r.spent;
          reserveds[r.place] := r.reserved;
          ends[r.place] := r.ends;
          has_thresholds := has_thresholds OR r.has_alerts;
        END LOOP;
        deltas := array_fill(0::bigint, ARRAY[cardinality(counters)]);
      END IF;

      failing := array_fill(NULL::integer, ARRAY[total]);
      failing_limits := array_fill(NULL::text, ARRAY[total]);
      failing_spents := failing_limits;
      failing_reserveds := failing_limits;
      lists := failing_limits;
      headroom_lists := failing_limits;
      end_lists := failing_limits;
      headrooms := array_fill(NULL::text, ARRAY[coalesce(cardinality(pair_requests), 0)]);
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
              IF modes[at] = 'hard' THEN hard_fails := coalesce(hard_fails, next); END IF;
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
            IF approving AND modes[at] = 'approval' AND spents[at]::numeric + reserveds[at] + need > limits[at] THEN
              INSERT INTO budget_grants (tenant_id, cap_id, counter_key, amount, reason, expires_at, created_at, created_by)
              SELECT counter_tenants[at], counter_caps[at], counter_keys[at], spents[at] + reserveds[at] + need - limits[at],
                'approval of ' || ids[i], CASE WHEN ends[at] IS NOT NULL THEN to_timestamp(ends[at] / 1000.0) END, moment,
                requests->(i - 1)->>'principal';
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
            lists[i] := concat_ws(',', lists[i], counters[at]);
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

      IF counters IS NOT NULL THEN
        UPDATE budget_counters b SET reserved = b.reserved + deltas[array_position(counters, b.id)]
        WHERE b.tenant_id = ANY (counter_tenants) AND b.id = ANY (counters) AND deltas[array_position(counters, b.id)] > 0;
        IF has_thresholds THEN
          PERFORM budget_note_alerts(moment, counters);
        END IF;
      END IF;

      INSERT INTO budget_reservations (tenant_id, id, state, origin, agent_id, plan_id, application_id, api_key_id,
        user_id, model, provider, task_type, amount, tokens, ttl_seconds, expires_at, created_at, created_by, metadata,
        counter_ids, answer)
      SELECT q.tenant, q.id, q.verdict, q.origin, q.agent, q.plan, q.application, q.api_key, q.user_id, q.model,
        q.provider, q.task_type, q.amount, q.tokens, q.ttl,
        moment + make_interval(secs => CASE q.verdict WHEN 'open' THEN q.ttl ELSE q.hold END),
        moment, q.principal, q.metadata, q.list::uuid[],
        CASE WHEN q.key IS NOT NULL THEN jsonb_build_object('state', q.verdict, 'caps', q.caps,
          'headrooms', string_to_array(q.headroom_list, ','), 'ends', ('[' || q.end_list || ']')::jsonb) END
      FROM ROWS FROM (
        json_to_recordset(requests) AS (place integer, id uuid, tenant uuid, kind text, origin text, agent uuid, plan uuid,
          application integer, api_key uuid, user_id text, model text, provider text, task_type text, amount bigint,
          tokens bigint, ttl integer, hold integer, principal text, metadata jsonb, key text, caps jsonb),
        unnest(verdicts), unnest(lists), unnest(headroom_lists), unnest(end_lists)
      ) AS q(place, id, tenant, kind, origin, agent, plan, application, api_key, user_id, model, provider, task_type, amount,
        tokens, ttl, hold, principal, metadata, key, caps, verdict, list, headroom_list, end_list)
      WHERE q.verdict IN ('open', 'held') AND q.kind = 'reserve';

      IF 'reserve' <> ANY (kinds) THEN
        UPDATE budget_reservations b SET state = 'open', amount = q.amount, decided_at = moment, decided_by = q.principal,
          decision_reason = q.reason, expires_at = moment + make_interval(secs => b.ttl_seconds),
          counter_ids = q.list::uuid[]
        FROM ROWS FROM (
          json_to_recordset(requests) AS (id uuid, tenant uuid, kind text, amount bigint, principal text, reason text),
          unnest(verdicts), unnest(lists)
        ) AS q(id, tenant, kind, amount, principal, reason, verdict, list)
        WHERE b.tenant_id = q.tenant AND b.id = q.id AND q.verdict = 'open' AND q.kind <> 'reserve';
      END IF;

      IF keyed THEN
        refused := ARRAY(
          SELECT place::integer FROM unnest(verdicts) WITH ORDINALITY AS v(verdict, place)
          WHERE verdict NOT IN ('open', 'held', 'replay'));
        IF cardinality(refused) > 0 THEN PERFORM budget_free_keys(requests, refused); END IF;
      END IF;
      IF json_array_length(entries) > 0 THEN
        PERFORM budget_audit(entries, array_agg(place::integer), array_agg(tenants[place]), moment)
        FROM unnest(verdicts) WITH ORDINALITY AS v(verdict, place) WHERE verdict = 'open';
      END IF;

      RETURN json_build_object('verdicts', verdicts, 'headrooms', headrooms, 'ends', ends, 'pairEnds', pair_ends,
        'failing', failing, 'failingLimits', failing_limits, 'failingSpents', failing_spents,
        'failingReserveds', failing_reserveds,
        'replays', CASE WHEN cardinality(taken) = 0 THEN '[]'::json ELSE budget_replays(requests, taken) END,
        'approved', CASE WHEN 'reserve' <> ANY (kinds) THEN (
          SELECT coalesce(json_agg(json_build_object('place', q.place, 'reservation', to_json(b))), '[]')
          FROM json_to_recordset(requests) AS q(place integer, id uuid, tenant uuid, kind text)
          JOIN budget_reservations b ON b.tenant_id = q.tenant AND b.id = q.id WHERE q.kind <> 'reserve')
          ELSE '[]'::json END);
    END
    $$`

  for (const name of ["budgets_close_v1(json, json)", "budgets_sweep_v1(json)", "budgets_plans_sweep_v1(json)"]) {
    yield* sql`ALTER FUNCTION ${sql.literal(name)} SET plan_cache_mode = force_generic_plan`
    yield* sql`ALTER FUNCTION ${sql.literal(name)} SET enable_material = off`
  }

  // Whoever looks for calls that nobody ended reads none of the other reservations that are due.
  yield* sql`
    CREATE INDEX budget_reservations_due_calls ON budget_reservations (expires_at)
    WHERE state IN ('open', 'held') AND origin = 'gateway'`
})
