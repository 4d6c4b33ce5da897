import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // As before; where nobody reads the rows that it closed (`unread`), it does not write them out.
  yield* sql`
    CREATE OR REPLACE FUNCTION budgets_close_v1(p json, requests json) RETURNS json
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
    SET plan_cache_mode = force_generic_plan
    SET random_page_cost = 0.01 SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    SET enable_material = off AS $$
    DECLARE
      moment timestamptz := p->>'now';
      verdicts text[]; taken integer[] := '{}'; at integer; verdict text; keyed boolean := (p->>'keyed')::boolean;
      done integer[] := '{}'; tenants uuid[] := '{}'; ids uuid[] := '{}';
      holds boolean[] := '{}'; amounts bigint[] := '{}'; charged_tokens bigint[] := '{}'; counts integer[] := '{}';
      place_tenants uuid[]; place_tokens bigint[]; lates boolean[]; is_rolling boolean;
      r record;
    BEGIN
      verdicts := array_fill('missing'::text, ARRAY[json_array_length(requests)]);
      place_tenants := array_fill(NULL::uuid, ARRAY[cardinality(verdicts)]);
      place_tokens := array_fill(NULL::bigint, ARRAY[cardinality(verdicts)]);
      lates := array_fill(false, ARRAY[cardinality(verdicts)]);
      IF keyed THEN taken := budget_claim_keys(requests, moment); END IF;
      FOREACH at IN ARRAY taken LOOP verdicts[at] := 'replay'; END LOOP;

      FOR r IN
        SELECT q.*, b.tenant_id, b.state, b.origin AS is_of, b.created_by, b.expires_at, b.amount AS reserved,
          b.tokens AS reserved_tokens, b.actual, b.actual_tokens,
          CASE WHEN b.plan_id IS NOT NULL THEN (
            SELECT budget_plan_status(l.status, l.heartbeat_by, l.dead_at, moment) NOT IN ('active', 'suspended')
            FROM budget_plans l WHERE l.tenant_id = b.tenant_id AND l.id = b.plan_id) ELSE false END AS is_after_plan
        FROM json_to_recordset(requests) AS q(place integer, id uuid, tenant uuid, kind text, origin text, principal text,
          unrestricted boolean, amount bigint, tokens bigint)
        JOIN budget_reservations b ON b.id = q.id AND (q.tenant IS NULL OR b.tenant_id = q.tenant)
        WHERE b.origin <> 'plan'
        ORDER BY b.tenant_id, b.id FOR UPDATE OF b
      LOOP
        CONTINUE WHEN verdicts[r.place] = 'replay';
        verdict := CASE
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
          done := done || r.place;
          tenants := tenants || r.tenant_id;
          ids := ids || r.id;
          holds := holds || (r.state = 'open');
          amounts := amounts || CASE r.kind WHEN 'settle' THEN r.amount ELSE 0 END;
          charged_tokens := charged_tokens || CASE r.kind WHEN 'settle' THEN coalesce(r.tokens, r.reserved_tokens) ELSE 0 END;
          counts := counts || CASE r.kind WHEN 'settle' THEN 1 ELSE 0 END;
          place_tenants[r.place] := r.tenant_id;
          place_tokens[r.place] := coalesce(r.tokens, r.reserved_tokens);
          lates[r.place] := r.state <> 'open' OR r.expires_at <= moment OR r.is_after_plan;
        END IF;
      END LOOP;

      -- A plan's own is locked by the plan's functions alone, after the plan.
      IF 'missing' = ANY (verdicts) THEN
        FOR r IN
          SELECT q.place, b.created_by <> q.principal AND NOT q.unrestricted AS is_foreign
          FROM json_to_recordset(requests) AS q(place integer, id uuid, tenant uuid, principal text, unrestricted boolean)
          JOIN budget_reservations b ON b.id = q.id AND (q.tenant IS NULL OR b.tenant_id = q.tenant)
          WHERE b.origin = 'plan'
        LOOP
          CONTINUE WHEN verdicts[r.place] = 'replay';
          verdicts[r.place] := CASE WHEN r.is_foreign THEN 'foreign' ELSE 'managed-by-plan' END;
        END LOOP;
      END IF;

      IF cardinality(ids) > 0 THEN
        is_rolling := budget_move(moment, tenants, ids, holds, amounts, charged_tokens, counts);
        INSERT INTO budget_entries (tenant_id, id, reservation_id, kind, charge_id, amount, tokens, requests, overrun,
          late, usage, metadata, occurred_at, created_by, counter_ids, buckets)
        SELECT b.tenant_id, q.charge_id, b.id, 'charge', q.charge_id, q.amount, q.charged_tokens, 1,
          greatest(q.amount - b.amount, 0), q.late, q.usage, q.metadata, moment, q.principal, b.counter_ids,
          CASE WHEN is_rolling THEN budget_buckets(b.tenant_id, b.counter_ids) ELSE '{}' END
        FROM ROWS FROM (
          json_to_recordset(requests) AS (id uuid, kind text, amount bigint, charge_id uuid, usage jsonb, metadata jsonb,
            principal text),
          unnest(verdicts), unnest(place_tenants), unnest(place_tokens), unnest(lates)
        ) AS q(id, kind, amount, charge_id, usage, metadata, principal, verdict, tenant, charged_tokens, late)
        JOIN budget_reservations b ON b.tenant_id = q.tenant AND b.id = q.id
        WHERE q.verdict = 'done' AND q.kind = 'settle';
        UPDATE budget_reservations b SET
          state = CASE q.kind WHEN 'settle' THEN 'settled' ELSE 'released' END, closed_at = moment,
          charge_id = q.charge_id, late = q.late AND q.kind = 'settle',
          actual = CASE q.kind WHEN 'settle' THEN q.amount END,
          actual_tokens = CASE q.kind WHEN 'settle' THEN q.charged_tokens END
        FROM ROWS FROM (
          json_to_recordset(requests) AS (id uuid, kind text, amount bigint, charge_id uuid),
          unnest(verdicts), unnest(place_tenants), unnest(place_tokens), unnest(lates)
        ) AS q(id, kind, amount, charge_id, verdict, tenant, charged_tokens, late)
        WHERE b.tenant_id = q.tenant AND b.id = q.id AND q.verdict = 'done';
      END IF;

      IF keyed THEN
        PERFORM budget_free_keys(requests, ARRAY(
          SELECT place::integer FROM unnest(verdicts) WITH ORDINALITY AS v(verdict, place)
          WHERE v.verdict NOT IN ('done', 'same', 'replay')));
      END IF;
      RETURN json_build_object('verdicts', verdicts,
        'replays', CASE WHEN cardinality(taken) = 0 THEN '[]'::json ELSE budget_replays(requests, taken) END,
        'closed', CASE WHEN (p->>'unread')::boolean THEN '[]'::json ELSE (
          SELECT coalesce(json_agg(json_build_object('place', q.place, 'reservation', to_json(b),
            'charge', CASE WHEN e.id IS NOT NULL THEN to_json(e) END)), '[]')
          FROM ROWS FROM (json_to_recordset(requests) AS (place integer, id uuid, kind text), unnest(verdicts))
            AS q(place, id, kind, verdict)
          JOIN budget_reservations b ON b.id = q.id
          LEFT JOIN budget_entries e ON e.tenant_id = b.tenant_id AND e.id = b.charge_id
          WHERE q.kind = 'settle' AND q.verdict IN ('done', 'same', 'replay')) END);
    END
    $$`

  // As version 2, but what the rows of calls keep stands by itself in `calls`, each with the place of its request: version 1
  // reads the requests several times.
  yield* sql`
    CREATE FUNCTION budgets_close_v3(p json, requests json, calls json) RETURNS json
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
    SET plan_cache_mode = force_generic_plan
    SET random_page_cost = 0.01 SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
    SET enable_material = off AS $$
    DECLARE
      outcome json := budgets_close_v1(p, requests);
      verdicts text[];
    BEGIN
      IF json_array_length(calls) > 0 THEN
        verdicts := ARRAY(SELECT json_array_elements_text(outcome->'verdicts'));
        INSERT INTO gateway_usage (tenant_id, reservation_id, occurred_at, charge_id, created_by, agent_id, plan_id,
          application_id, api_key_id, user_id, task_type, operation, dialect, model_asked, model, model_served, provider,
          input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens,
          cost, rates, catalogue_version, method, status, latency_ms, upstream_latency_ms, time_to_first_token_ms, attempts,
          metadata, trace_id)
        SELECT b.tenant_id, b.id, (p->>'now')::timestamptz, b.charge_id, b.created_by, b.agent_id, b.plan_id,
          b.application_id, b.api_key_id, b.user_id, b.task_type, c."operation", c."dialect", c."modelAsked", b.model,
          c."modelServed", coalesce(c."provider", b.provider), c."inputTokens", c."outputTokens", c."cachedInputTokens",
          c."cacheWriteTokens", c."cacheWrite1hTokens", c."reasoningTokens", coalesce(b.actual, 0), c."rates",
          c."catalogueVersion", c."method", c."status", c."latencyMs", c."upstreamLatencyMs", c."timeToFirstTokenMs",
          c."attempts", c."metadata", c."traceId"
        FROM json_to_recordset(calls) AS c("place" integer, "id" uuid, "operation" text, "dialect" text,
          "modelAsked" text, "modelServed" text, "provider" text, "inputTokens" bigint, "outputTokens" bigint,
          "cachedInputTokens" bigint, "cacheWriteTokens" bigint, "cacheWrite1hTokens" bigint, "reasoningTokens" bigint,
          "rates" jsonb, "catalogueVersion" text, "method" text, "status" integer, "latencyMs" bigint,
          "upstreamLatencyMs" bigint, "timeToFirstTokenMs" bigint, "attempts" jsonb, "metadata" jsonb, "traceId" text)
        JOIN budget_reservations b ON b.id = c."id"
        WHERE verdicts[c."place"] = 'done'
        ON CONFLICT DO NOTHING;
      END IF;
      RETURN outcome;
    END
    $$`
  yield* sql`REVOKE ALL ON FUNCTION budgets_close_v3(json, json, json) FROM PUBLIC`
  yield* sql`GRANT EXECUTE ON FUNCTION budgets_close_v3(json, json, json) TO application_manager`
})
