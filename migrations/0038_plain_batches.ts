import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // As before, and answers whether any of them rolls: most do not, and have nothing to forget.
  yield* sql`DROP FUNCTION budget_lock_counters(uuid[], uuid[], timestamptz)`
  yield* sql`
    CREATE FUNCTION budget_lock_counters(tenants uuid[], counters uuid[], moment timestamptz) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
    DECLARE
      rolls boolean;
    BEGIN
      SELECT coalesce(bool_or(l.rolls), false) INTO rolls FROM (
        SELECT b.ring IS NOT NULL AS rolls FROM budget_counters b WHERE b.tenant_id = ANY (tenants) AND b.id = ANY (counters)
        ORDER BY b.tenant_id, b.id FOR UPDATE) l;
      IF rolls THEN
        UPDATE budget_counters b SET ring = moved.ring, ring_head = moved.head, spent = budget_ring_sum(moved.ring)
        FROM (
          SELECT o.tenant_id, o.id, n.head, budget_ring_at(o.ring, o.ring_head, n.head) AS ring
          FROM budget_counters o CROSS JOIN LATERAL (SELECT budget_bucket(moment, o.bucket_seconds) AS head) n
          WHERE o.tenant_id = ANY (tenants) AND o.id = ANY (counters) AND o.ring IS NOT NULL AND n.head > o.ring_head
        ) moved
        WHERE b.tenant_id = moved.tenant_id AND b.id = moved.id;
      END IF;
      RETURN rolls;
    END
    $$`

  yield* sql`REVOKE ALL ON FUNCTION budget_lock_counters(uuid[], uuid[], timestamptz) FROM PUBLIC`

  // As before; who locks its counters says whether any of them rolls.
  yield* sql`
    CREATE OR REPLACE FUNCTION budget_move(
      moment timestamptz, tenants uuid[], ids uuid[], holds boolean[], amounts bigint[], tokens bigint[], counts integer[])
    RETURNS boolean
    LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
    DECLARE
      counters uuid[];
      owners uuid[] := tenants || '00000000-0000-0000-0000-000000000000'::uuid;
      has_plans boolean; is_approved boolean; is_rolling boolean;
      plan_tenants uuid[]; plan_ids uuid[]; rests bigint[];
    BEGIN
      SELECT array_agg(DISTINCT c), bool_or(b.plan_id IS NOT NULL), bool_or(b.decided_at IS NOT NULL)
      INTO counters, has_plans, is_approved
      FROM unnest(tenants, ids) AS r(tenant, id)
      JOIN budget_reservations b ON b.tenant_id = r.tenant AND b.id = r.id, unnest(b.counter_ids) c;
      IF counters IS NULL THEN RETURN false; END IF;
      IF has_plans THEN
        SELECT array_agg(p.tenant), array_agg(p.id) INTO plan_tenants, plan_ids
        FROM (
          SELECT DISTINCT b.tenant_id AS tenant, b.plan_id AS id FROM unnest(tenants, ids) AS r(tenant, id)
          JOIN budget_reservations b ON b.tenant_id = r.tenant AND b.id = r.id WHERE b.plan_id IS NOT NULL) p;
        PERFORM budget_lock_plans(plan_tenants, plan_ids);
        counters := counters || ARRAY(
          SELECT DISTINCT c FROM unnest(plan_tenants, plan_ids) AS p(tenant, id)
          JOIN budget_plans l ON l.tenant_id = p.tenant AND l.id = p.id, unnest(l.counter_ids) c);
      END IF;
      is_rolling := budget_lock_counters(owners, counters, moment);
      IF has_plans THEN rests := budget_plan_rests(plan_tenants, plan_ids); END IF;
      UPDATE budget_counters c SET reserved = c.reserved - d.freed, spent = c.spent + d.charged,
        ring = CASE WHEN c.ring IS NULL THEN NULL
          ELSE c.ring[:cardinality(c.ring) - 1] || (c.ring[cardinality(c.ring)] + d.charged) END
      FROM (
        SELECT o.tenant_id, o.id,
          sum(CASE WHEN NOT r.holds THEN 0 WHEN o.unit = 'usd' THEN b.amount WHEN o.unit = 'tokens' THEN b.tokens
            ELSE 1 END)::bigint AS freed,
          sum(CASE o.unit WHEN 'usd' THEN r.amount WHEN 'tokens' THEN r.tokens ELSE r.counts END)::bigint AS charged
        FROM unnest(tenants, ids, holds, amounts, tokens, counts) AS r(tenant, id, holds, amount, tokens, counts)
        JOIN budget_reservations b ON b.tenant_id = r.tenant AND b.id = r.id
        CROSS JOIN LATERAL unnest(b.counter_ids) AS e(counter)
        JOIN budget_counters o ON o.id = e.counter
          AND o.tenant_id IN (r.tenant, '00000000-0000-0000-0000-000000000000')
        GROUP BY o.tenant_id, o.id
      ) d
      WHERE c.tenant_id = d.tenant_id AND c.id = d.id AND (d.freed <> 0 OR d.charged <> 0);
      IF has_plans THEN
        UPDATE budget_plans l SET budget = greatest(l.budget - d.lost, 0)
        FROM (
          SELECT o.tenant_id, o.id, sum(greatest(b.amount - r.amount, 0))::bigint AS lost
          FROM unnest(tenants, ids, holds, amounts) AS r(tenant, id, holds, amount)
          JOIN budget_reservations b ON b.tenant_id = r.tenant AND b.id = r.id
          JOIN budget_plans o ON o.tenant_id = b.tenant_id AND o.id = b.plan_id
          WHERE r.holds AND NOT b.counter_ids @> o.counter_ids
          GROUP BY o.tenant_id, o.id
        ) d
        WHERE l.tenant_id = d.tenant_id AND l.id = d.id AND d.lost > 0;
        PERFORM budget_plan_hold(plan_tenants, plan_ids, rests);
      END IF;
      IF is_approved THEN
        WITH used AS (
          SELECT g.tenant_id, g.id, g.amount - greatest(
            CASE o.unit WHEN 'usd' THEN b.amount - r.amount WHEN 'tokens' THEN b.tokens - r.tokens ELSE 1 - r.counts END,
            0) AS rest
          FROM unnest(tenants, ids, holds, amounts, tokens, counts) AS r(tenant, id, holds, amount, tokens, counts)
          JOIN budget_grants g ON g.reservation_id = r.id
          JOIN budget_reservations b ON b.tenant_id = r.tenant AND b.id = r.id
          CROSS JOIN LATERAL unnest(b.counter_ids) AS e(counter)
          JOIN budget_counters o ON o.tenant_id = g.tenant_id AND o.id = e.counter
            AND o.cap_id = g.cap_id AND o.counter_key = g.counter_key
          WHERE r.holds AND g.ended_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > moment)
        ), ended AS (
          UPDATE budget_grants g SET ended_at = moment FROM used u
          WHERE g.tenant_id = u.tenant_id AND g.id = u.id AND u.rest < g.amount
          RETURNING g.*, u.rest
        )
        INSERT INTO budget_grants (
          reservation_id, tenant_id, cap_id, counter_key, amount, reason, expires_at, created_at, created_by)
        SELECT reservation_id, tenant_id, cap_id, counter_key, rest, reason, expires_at, moment, created_by
        FROM ended WHERE rest > 0;
      END IF;
      IF budget_has_thresholds(counters, owners) THEN PERFORM budget_note_alerts(moment, counters); END IF;
      RETURN is_rolling;
    END
    $$`

  // As version 2, but what is asked comes by its columns, and where all have room at once, nobody is decided on apart.
  yield* sql`
    CREATE FUNCTION budgets_reserve_v3(p json, requests json, entries json) RETURNS json
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
    SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_material = off AS $$
    DECLARE
      moment timestamptz; keyed boolean; has_plans boolean; keys json := p->'keys'; is_stale boolean;
      ids uuid[]; origins text[]; agents uuid[]; applications integer[]; api_keys uuid[]; user_ids text[]; models text[];
      providers text[]; task_types text[]; ttls integer[]; holds integer[]; principals text[]; metadatas jsonb[];
      reasons text[]; confineds boolean[]; repeated text[]; caps jsonb[]; first_pairs integer[]; last_pairs integer[];
      has_approvals boolean; is_roomy boolean; rooms bigint[]; slacks bigint[]; pair_ids uuid[];
      answered json := '[]';
      tenants uuid[]; kinds text[]; amounts bigint[]; tokens bigint[]; plans uuid[];
      counter_tenants uuid[]; counter_caps uuid[]; counter_keys text[]; counters uuid[];
      units text[]; modes text[]; limits bigint[]; spents bigint[]; reserveds bigint[]; deltas bigint[]; ends bigint[];
      pair_requests integer[]; pair_counters integer[]; headrooms text[];
      verdicts text[]; failing integer[]; failing_limits text[]; failing_spents text[]; failing_reserveds text[];
      taken integer[] := '{}'; refused integer[]; due boolean[];
      lists text[]; headroom_lists text[]; end_lists text[];
      total integer; first integer; next integer := 1; fails integer; hard_fails integer; at integer;
      need bigint; approving boolean; waits boolean := false;
      has_thresholds boolean := false; pair_holds uuid[]; pair_ends bigint[]; plan_lists text[]; is_needed boolean[];
      approved uuid[] := '{}'; uncounted boolean[]; opened uuid[];
      places integer[]; place_tenants uuid[]; place_caps uuid[]; place_keys text[];
      r record;
    BEGIN
      SELECT h.now, coalesce(h.keyed, false), coalesce(h.plans, false), h."pairRequests"::integer[],
        h."pairCounters"::integer[], h."firstPairs"::integer[], h."lastPairs"::integer[],
        EXISTS (
          SELECT FROM unnest(h."bookTenants"::uuid[], h."bookVersions"::bigint[]) AS b(tenant, version)
          LEFT JOIN budget_books k ON k.tenant_id = b.tenant WHERE coalesce(k.caps_version, 0) <> b.version),
        h."counterTenants"::uuid[], h."counterCaps"::uuid[], h."counterKeys"::text[],
        q.id::uuid[], q.tenant::uuid[], q.kind::text[], q.origin::text[], q.agent::uuid[], q.plan::uuid[],
        q.application::integer[], q.api_key::uuid[], q.user_id::text[], q.model::text[], q.provider::text[],
        q.task_type::text[], q.amount::bigint[], q.tokens::bigint[], q.ttl::integer[], q.hold::integer[],
        q.principal::text[], q.metadata::jsonb[], q.reason::text[], q.confined::boolean[], q.key::text[], q.caps::jsonb[]
      INTO moment, keyed, has_plans, pair_requests, pair_counters, first_pairs, last_pairs, is_stale,
        counter_tenants, counter_caps, counter_keys,
        ids, tenants, kinds, origins, agents, plans, applications, api_keys, user_ids, models, providers, task_types,
        amounts, tokens, ttls, holds, principals, metadatas, reasons, confineds, repeated, caps
      FROM json_to_record(p) AS h(now timestamptz, keyed boolean, plans boolean, "bookTenants" text, "bookVersions" text,
          "counterTenants" text, "counterCaps" text, "counterKeys" text, "pairRequests" text, "pairCounters" text,
          "firstPairs" text, "lastPairs" text),
        json_to_record(requests) AS q(id text, tenant text, kind text, origin text, agent text, plan text, application text,
          api_key text, user_id text, model text, provider text, task_type text, amount text, tokens text, ttl text,
          hold text, principal text, metadata text, reason text, confined text, key text, caps text);
      IF is_stale THEN RETURN json_build_object('stale', true); END IF;
      total := coalesce(cardinality(ids), 0);
      has_approvals := coalesce('reserve' <> ANY (kinds), false);
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
            SELECT b.id, CASE WHEN isfinite(b.period_end) THEN (extract(epoch FROM b.period_end) * 1000)::bigint END AS ends
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
          counters := budget_open_counters(counter_tenants, counter_caps, counter_keys, moment);
        END IF;
        PERFORM budget_lock_counters(counter_tenants, counters, moment);
        SELECT array_agg(b.unit ORDER BY k.place), array_agg(b.spent ORDER BY k.place),
          array_agg(b.reserved ORDER BY k.place),
          array_agg(CASE WHEN l.id IS NOT NULL THEN 'hard'
            WHEN c.status = 'active' AND c.deleted_at IS NULL THEN c.mode ELSE 'soft' END ORDER BY k.place),
          array_agg(coalesce(l.budget, budget_limit(b.tenant_id, b.cap_id, b.counter_key, moment)) ORDER BY k.place),
          array_agg(CASE WHEN isfinite(b.period_end) THEN (extract(epoch FROM b.period_end) * 1000)::bigint END
            ORDER BY k.place),
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
        pair_ids := array_fill(NULL::uuid, ARRAY[cardinality(pair_requests)]);
        rooms := deltas;
        slacks := deltas;
        FOR i IN 1..coalesce(cardinality(counters), 0) LOOP
          rooms[i] := limits[i] - (spents[i] + reserveds[i]);
          -- A cap that refuses nothing counts up to what it can hold.
          IF modes[i] = 'soft' THEN slacks[i] := 9223372036854775807 - limits[i]; END IF;
        END LOOP;
        FOR pair IN 1..cardinality(pair_requests) LOOP
          at := pair_counters[pair];
          need := CASE units[at] WHEN 'usd' THEN amounts[pair_requests[pair]]
            WHEN 'tokens' THEN tokens[pair_requests[pair]] ELSE 1 END;
          IF (need <= rooms[at] + slacks[at]) IS NOT TRUE THEN
            is_roomy := false;
            EXIT;
          END IF;
          rooms[at] := rooms[at] - need;
          deltas[at] := deltas[at] + need;
          headrooms[pair] := greatest(rooms[at], 0);
          pair_ids[pair] := counters[at];
        END LOOP;
      END IF;

      IF is_roomy THEN
        verdicts := array_fill('open'::text, ARRAY[total]);
        IF keyed THEN
          FOR pair IN 1..cardinality(pair_requests) LOOP
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
      SELECT q.tenant, q.id, q.verdict, q.origin, q.agent, q.plan, q.application, q.api_key, q.user_id, q.model,
        q.provider, q.task_type, q.amount, q.tokens, q.ttl,
        moment + make_interval(secs => CASE q.verdict WHEN 'open' THEN q.ttl ELSE q.hold END),
        moment, q.principal, q.metadata,
        CASE WHEN is_roomy THEN coalesce(pair_ids[q.first_pair:q.last_pair], '{}') ELSE q.list::uuid[] END,
        CASE WHEN q.key IS NOT NULL THEN jsonb_build_object(
          'state', q.verdict, 'amount', q.amount, 'tokens', q.tokens, 'ttl', q.ttl, 'caps', q.caps,
          'headrooms', string_to_array(q.headroom_list, ','), 'ends', ('[' || q.end_list || ']')::jsonb) END
      FROM unnest(ids, tenants, kinds, origins, agents, plans, applications, api_keys, user_ids, models, providers, task_types,
        amounts, tokens, ttls, holds, principals, metadatas, repeated, caps, verdicts, lists, headroom_lists, end_lists,
        first_pairs, last_pairs
      ) AS q(id, tenant, kind, origin, agent, plan, application, api_key, user_id, model, provider, task_type, amount,
        tokens, ttl, hold, principal, metadata, key, caps, verdict, list, headroom_list, end_list, first_pair, last_pair)
      WHERE q.verdict IN ('open', 'held') AND q.kind = 'reserve';

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
      IF json_array_length(entries) > 0 THEN
        PERFORM budget_audit(entries, array_agg(place::integer), array_agg(tenants[place]), moment)
        FROM unnest(verdicts) WITH ORDINALITY AS v(verdict, place) WHERE verdict = 'open';
      END IF;

      RETURN json_build_object('verdicts', verdicts, 'headrooms', headrooms, 'ends', ends, 'pairEnds', pair_ends,
        'failing', coalesce(failing, '{}'), 'failingLimits', coalesce(failing_limits, '{}'),
        'failingSpents', coalesce(failing_spents, '{}'), 'failingReserveds', coalesce(failing_reserveds, '{}'),
        'replays', CASE WHEN cardinality(taken) = 0 THEN '[]'::json ELSE budget_replays(keys, taken) END,
        'approved', answered);
    END
    $$`

  // As version 3, but what is asked comes by its columns, the rows of calls by those of the same places, and where all are
  // settled once and nothing stands in their way, nothing is decided one by one.
  yield* sql`
    CREATE FUNCTION budgets_close_v4(p json, requests json, calls json) RETURNS json
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
    SET plan_cache_mode = force_generic_plan SET random_page_cost = 0.01 SET enable_seqscan = off SET enable_hashjoin = off
    SET enable_mergejoin = off SET enable_material = off AS $$
    DECLARE
      moment timestamptz := p->>'now'; keyed boolean := (p->>'keyed')::boolean; keys json := p->'keys';
      ids uuid[]; tenants uuid[]; kinds text[]; origins text[]; principals text[]; unrestricteds boolean[]; amounts bigint[];
      token_counts bigint[]; charge_ids uuid[]; usages jsonb[]; metadatas jsonb[];
      verdicts text[]; taken integer[] := '{}'; at integer; verdict text; total integer; after_plans boolean[];
      done_kind text; done_tenants uuid[] := '{}'; done_ids uuid[] := '{}'; holds boolean[] := '{}';
      done_amounts bigint[] := '{}'; done_tokens bigint[] := '{}'; counts integer[] := '{}';
      is_plain boolean; is_rolling boolean := false; has_thresholds boolean;
      counters uuid[]; owners uuid[]; freed_amounts numeric[]; freed_tokens numeric[];
      charged_amounts numeric[]; charged_tokens numeric[]; charges bigint[]; closed json := '[]';
      r record;
    BEGIN
      SELECT q.id::uuid[], q.tenant::uuid[], q.kind::text[], q.origin::text[], q.principal::text[], q.unrestricted::boolean[],
        q.amount::bigint[], q.tokens::bigint[], q.charge_id::uuid[], q.usage::jsonb[], q.metadata::jsonb[]
      INTO ids, tenants, kinds, origins, principals, unrestricteds, amounts, token_counts, charge_ids, usages, metadatas
      FROM json_to_record(requests) AS q(id text, tenant text, kind text, origin text, principal text, unrestricted text,
        amount text, tokens text, charge_id text, usage text, metadata text);
      total := coalesce(cardinality(ids), 0);
      tenants := coalesce(tenants, array_fill(NULL::uuid, ARRAY[total]));
      verdicts := array_fill('missing'::text, ARRAY[total]);
      IF keyed THEN taken := budget_claim_keys(keys, moment); END IF;
      FOREACH at IN ARRAY taken LOOP verdicts[at] := 'replay'; END LOOP;

      -- Each is locked in its order. Where all are open calls of their own that are settled once, nothing is left to decide.
      WITH locked AS MATERIALIZED (
        SELECT b.id, b.amount, b.tokens, b.counter_ids, q.amount AS charged, coalesce(q.tokens, b.tokens) AS charged_tokens,
          q.kind = 'settle' AND b.state = 'open' AND b.origin = q.origin AND (q.unrestricted OR b.created_by = q.principal)
            AND b.plan_id IS NULL AND b.decided_at IS NULL AS is_plain
        FROM unnest(ids, tenants, kinds, origins, principals, unrestricteds, amounts, token_counts)
          AS q(id, tenant, kind, origin, principal, unrestricted, amount, tokens)
        JOIN budget_reservations b ON b.id = q.id AND (q.tenant IS NULL OR b.tenant_id = q.tenant)
        WHERE b.origin <> 'plan'
        ORDER BY b.tenant_id, b.id FOR UPDATE OF b
      ), moves AS (
        SELECT e.counter, sum(l.amount) AS amount, sum(l.tokens) AS tokens, sum(l.charged) AS charged,
          sum(l.charged_tokens) AS charged_tokens, count(*) AS requests
        FROM locked l CROSS JOIN LATERAL unnest(l.counter_ids) AS e(counter) GROUP BY e.counter
      )
      SELECT (SELECT count(*) = total AND count(DISTINCT l.id) = total AND bool_and(l.is_plain) FROM locked l),
        array_agg(m.counter), array_agg(m.amount), array_agg(m.tokens), array_agg(m.charged), array_agg(m.charged_tokens),
        array_agg(m.requests)
      INTO is_plain, counters, freed_amounts, freed_tokens, charged_amounts, charged_tokens, charges
      FROM moves m;

      IF is_plain AND taken = '{}' THEN
        verdicts := array_fill('done'::text, ARRAY[total]);
        IF counters IS NOT NULL THEN
          owners := tenants || '00000000-0000-0000-0000-000000000000'::uuid;
          IF array_position(tenants, NULL) IS NOT NULL THEN
            owners := owners || ARRAY(SELECT DISTINCT b.tenant_id FROM budget_reservations b WHERE b.id = ANY (ids));
          END IF;
          -- What rolls has to be known for what is charged; what does not is locked last, for as long as a commit takes.
          is_rolling := EXISTS (
            SELECT FROM budget_counters b WHERE b.tenant_id = ANY (owners) AND b.id = ANY (counters) AND b.ring IS NOT NULL);
          IF is_rolling THEN PERFORM budget_lock_counters(owners, counters, moment); END IF;
        END IF;
      ELSE
        after_plans := array_fill(false, ARRAY[total]);
        FOR r IN
          SELECT q.*, b.tenant_id, b.state, b.origin AS is_of, b.created_by, b.tokens AS reserved_tokens, b.actual,
            b.actual_tokens, CASE WHEN b.plan_id IS NOT NULL THEN (
              SELECT budget_plan_status(l.status, l.heartbeat_by, l.dead_at, moment) NOT IN ('active', 'suspended')
              FROM budget_plans l WHERE l.tenant_id = b.tenant_id AND l.id = b.plan_id) ELSE false END AS is_after_plan
          FROM unnest(ids, tenants, kinds, origins, principals, unrestricteds, amounts, token_counts) WITH ORDINALITY
            AS q(id, tenant, kind, origin, principal, unrestricted, amount, tokens, place)
          JOIN budget_reservations b ON b.id = q.id AND (q.tenant IS NULL OR b.tenant_id = q.tenant)
          WHERE b.origin <> 'plan'
          ORDER BY b.tenant_id, b.id, q.place FOR UPDATE OF b
        LOOP
          CONTINUE WHEN verdicts[r.place] = 'replay';
          verdict := CASE
            WHEN done_ids[cardinality(done_ids)] = r.id THEN
              CASE WHEN done_kind = r.kind AND (r.kind = 'release' OR (done_amounts[cardinality(done_amounts)] = r.amount
                AND done_tokens[cardinality(done_tokens)] = coalesce(r.tokens, r.reserved_tokens)))
                THEN 'same' ELSE 'conflict' END
            WHEN r.created_by <> r.principal AND NOT r.unrestricted THEN 'foreign'
            WHEN r.is_of <> r.origin THEN 'managed'
            WHEN r.kind = 'settle' AND r.state = 'settled' THEN
              CASE WHEN r.actual = r.amount AND coalesce(r.tokens = r.actual_tokens, true) THEN 'same' ELSE 'conflict' END
            WHEN r.kind = 'settle' AND r.state IN ('held', 'denied') THEN 'unopened'
            WHEN r.kind = 'release' AND r.state = 'settled' THEN 'conflict'
            WHEN r.kind = 'release' AND r.state IN ('released', 'expired', 'denied') THEN 'same'
            ELSE 'done' END;
          verdicts[r.place] := verdict;
          IF verdict = 'done' THEN
            done_kind := r.kind;
            done_tenants := done_tenants || r.tenant_id;
            done_ids := done_ids || r.id;
            holds := holds || (r.state = 'open');
            done_amounts := done_amounts || CASE r.kind WHEN 'settle' THEN r.amount ELSE 0 END;
            done_tokens := done_tokens || CASE r.kind WHEN 'settle' THEN coalesce(r.tokens, r.reserved_tokens) ELSE 0 END;
            counts := counts || CASE r.kind WHEN 'settle' THEN 1 ELSE 0 END;
            after_plans[r.place] := r.is_after_plan;
          END IF;
        END LOOP;

        -- A plan's own is locked by the plan's functions alone, after the plan.
        IF 'missing' = ANY (verdicts) THEN
          FOR r IN
            SELECT q.place, b.created_by <> q.principal AND NOT q.unrestricted AS is_foreign
            FROM unnest(ids, tenants, principals, unrestricteds) WITH ORDINALITY AS q(id, tenant, principal, unrestricted, place)
            JOIN budget_reservations b ON b.id = q.id AND (q.tenant IS NULL OR b.tenant_id = q.tenant)
            WHERE b.origin = 'plan'
          LOOP
            CONTINUE WHEN verdicts[r.place] = 'replay';
            verdicts[r.place] := CASE WHEN r.is_foreign THEN 'foreign' ELSE 'managed-by-plan' END;
          END LOOP;
        END IF;

        IF cardinality(done_ids) > 0 THEN
          is_rolling := budget_move(moment, done_tenants, done_ids, holds, done_amounts, done_tokens, counts);
        END IF;
      END IF;

      IF 'done' = ANY (verdicts) THEN
        WITH closed AS (
          UPDATE budget_reservations b SET
            state = CASE q.kind WHEN 'settle' THEN 'settled' ELSE 'released' END, closed_at = moment, charge_id = q.charge,
            late = q.kind = 'settle' AND (b.state <> 'open' OR b.expires_at <= moment OR coalesce(q.is_after_plan, false)),
            actual = CASE q.kind WHEN 'settle' THEN q.amount END,
            actual_tokens = CASE q.kind WHEN 'settle' THEN coalesce(q.tokens, b.tokens) END
          FROM json_to_record(calls) AS c("operation" text, "dialect" text, "modelAsked" text, "modelServed" text,
              "provider" text, "inputTokens" text, "outputTokens" text, "cachedInputTokens" text, "cacheWriteTokens" text,
              "cacheWrite1hTokens" text, "reasoningTokens" text, "rates" text, "catalogueVersion" text, "method" text,
              "status" text, "latencyMs" text, "upstreamLatencyMs" text, "timeToFirstTokenMs" text, "attempts" text,
              "metadata" text, "traceId" text),
            unnest(verdicts, ids, tenants, kinds, principals, amounts, token_counts, charge_ids, usages, metadatas, after_plans,
              c."operation"::text[], c."dialect"::text[], c."modelAsked"::text[], c."modelServed"::text[],
              c."provider"::text[], c."inputTokens"::bigint[], c."outputTokens"::bigint[], c."cachedInputTokens"::bigint[],
              c."cacheWriteTokens"::bigint[], c."cacheWrite1hTokens"::bigint[], c."reasoningTokens"::bigint[],
              c."rates"::jsonb[], c."catalogueVersion"::text[], c."method"::text[], c."status"::integer[],
              c."latencyMs"::bigint[], c."upstreamLatencyMs"::bigint[], c."timeToFirstTokenMs"::bigint[],
              c."attempts"::jsonb[], c."metadata"::jsonb[], c."traceId"::text[]
            ) AS q(verdict, id, tenant, kind, principal, amount, tokens, charge, usage, metadata, is_after_plan,
              operation, dialect, model_asked, model_served, call_provider, input_tokens, output_tokens,
              cached_input_tokens, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens, rates, catalogue_version,
              method, status, latency_ms, upstream_latency_ms, time_to_first_token_ms, attempts, call_metadata, trace_id)
          WHERE b.id = q.id AND (q.tenant IS NULL OR b.tenant_id = q.tenant) AND q.verdict = 'done'
          RETURNING b.tenant_id, b.id AS reservation_id, b.charge_id, b.created_by, b.agent_id, b.plan_id, b.application_id,
            b.api_key_id, b.user_id, b.task_type, b.model, b.provider, b.amount AS reserved, b.actual, b.actual_tokens,
            b.late, b.counter_ids, q.*
        ), charged AS (
          INSERT INTO budget_entries (tenant_id, id, reservation_id, kind, charge_id, amount, tokens, requests, overrun,
            late, usage, metadata, occurred_at, created_by, counter_ids, buckets)
          SELECT c.tenant_id, c.charge_id, c.reservation_id, 'charge', c.charge_id, c.actual, c.actual_tokens, 1,
            greatest(c.actual - c.reserved, 0), c.late, c.usage, c.metadata, moment, c.principal, c.counter_ids,
            CASE WHEN is_rolling THEN budget_buckets(c.tenant_id, c.counter_ids) ELSE '{}' END
          FROM closed c WHERE c.kind = 'settle'
        )
        INSERT INTO gateway_usage (tenant_id, reservation_id, occurred_at, charge_id, created_by, agent_id, plan_id,
          application_id, api_key_id, user_id, task_type, operation, dialect, model_asked, model, model_served, provider,
          input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens,
          cost, rates, catalogue_version, method, status, latency_ms, upstream_latency_ms, time_to_first_token_ms, attempts,
          metadata, trace_id)
        SELECT c.tenant_id, c.reservation_id, moment, c.charge_id, c.created_by, c.agent_id, c.plan_id, c.application_id,
          c.api_key_id, c.user_id, c.task_type, c.operation, c.dialect, c.model_asked, c.model, c.model_served,
          coalesce(c.call_provider, c.provider), c.input_tokens, c.output_tokens, c.cached_input_tokens,
          c.cache_write_tokens, c.cache_write_1h_tokens, c.reasoning_tokens, coalesce(c.actual, 0), c.rates,
          c.catalogue_version, c.method, c.status, c.latency_ms, c.upstream_latency_ms, c.time_to_first_token_ms,
          c.attempts, c.call_metadata, c.trace_id
        FROM closed c WHERE c.method IS NOT NULL
        ON CONFLICT DO NOTHING;
      END IF;

      IF owners IS NOT NULL THEN
        IF NOT is_rolling THEN PERFORM budget_lock_counters(owners, counters, moment); END IF;
        WITH moved AS (
          UPDATE budget_counters c SET reserved = c.reserved - (CASE c.unit
              WHEN 'usd' THEN d.amount WHEN 'tokens' THEN d.tokens ELSE d.requests END)::bigint,
            spent = c.spent + (CASE c.unit
              WHEN 'usd' THEN d.charged WHEN 'tokens' THEN d.charged_tokens ELSE d.requests END)::bigint,
            ring = CASE WHEN c.ring IS NULL THEN NULL
              ELSE c.ring[:cardinality(c.ring) - 1] || (c.ring[cardinality(c.ring)] + (CASE c.unit
                WHEN 'usd' THEN d.charged WHEN 'tokens' THEN d.charged_tokens ELSE d.requests END)::bigint) END
          FROM unnest(counters, freed_amounts, freed_tokens, charged_amounts, charged_tokens, charges)
            AS d(counter, amount, tokens, charged, charged_tokens, requests)
          WHERE c.tenant_id = ANY (owners) AND c.id = ANY (counters) AND c.id = d.counter
          RETURNING c.tenant_id, c.cap_id
        )
        SELECT coalesce(bool_or(k.alert_thresholds <> '[]'), false) INTO has_thresholds
        FROM moved m JOIN budget_caps k ON k.tenant_id = m.tenant_id AND k.id = m.cap_id;
        IF has_thresholds THEN PERFORM budget_note_alerts(moment, counters); END IF;
      END IF;

      IF keyed THEN
        PERFORM budget_free_keys(keys, ARRAY(
          SELECT place::integer FROM unnest(verdicts) WITH ORDINALITY AS v(verdict, place)
          WHERE v.verdict NOT IN ('done', 'same', 'replay')));
      END IF;
      IF NOT coalesce((p->>'unread')::boolean, false) THEN
        SELECT coalesce(json_agg(json_build_object('place', q.place, 'reservation', to_json(b),
          'charge', CASE WHEN e.id IS NOT NULL THEN to_json(e) END)), '[]')
        INTO closed
        FROM unnest(ids, kinds, verdicts) WITH ORDINALITY AS q(id, kind, verdict, place)
        JOIN budget_reservations b ON b.id = q.id
        LEFT JOIN budget_entries e ON e.tenant_id = b.tenant_id AND e.id = b.charge_id
        WHERE q.kind = 'settle' AND q.verdict IN ('done', 'same', 'replay');
      END IF;
      RETURN json_build_object('verdicts', verdicts, 'closed', closed,
        'replays', CASE WHEN cardinality(taken) = 0 THEN '[]'::json ELSE budget_replays(keys, taken) END);
    END
    $$`

  for (const name of ["budgets_reserve_v3", "budgets_close_v4"]) {
    const signature = sql.literal(`${name}(json, json, json)`)
    yield* sql`REVOKE ALL ON FUNCTION ${signature} FROM PUBLIC`
    yield* sql`GRANT EXECUTE ON FUNCTION ${signature} TO application_manager`
  }

  // A service of the version before may still run beside this one, and calls what that version called.
  yield* sql`DROP FUNCTION budgets_close_v2(json, json)`
})
