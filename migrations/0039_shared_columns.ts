import { Effect } from "effect"
import { SqlClient } from "effect/sql"

type Changes = ReadonlyArray<readonly [before: string, after: string]>

/** Another version of a function: its text with some of it replaced. Each must be there once, so that nothing is lost in silence. */
const rewrite = Effect.fnUntraced(function* (before: string, after: string, takes: string, changes: Changes) {
  const sql = yield* SqlClient.SqlClient
  const rows = yield* sql<{ readonly definition: string }>`
    SELECT pg_get_functiondef(${`${before}(${takes})`}::text::regprocedure) AS definition`
  let definition = rows[0]?.definition ?? ""
  for (const [from, to] of [[`FUNCTION public.${before}(`, `FUNCTION public.${after}(`] as const, ...changes]) {
    if (definition.split(from).length !== 2) {
      return yield* Effect.die(new Error(`${before} says not once: ${from}`))
    }
    definition = definition.replace(from, () => to)
  }
  yield* sql.unsafe(definition)
  const signature = sql.literal(`${after}(${takes})`)
  yield* sql`REVOKE ALL ON FUNCTION ${signature} FROM PUBLIC`
  yield* sql`GRANT EXECUTE ON FUNCTION ${signature} TO application_manager`
})

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // A column that has the same value in all rows of a batch has it once. These are written into the statements that use them.
  yield* sql`
    CREATE FUNCTION budget_at(of_column anyarray, place integer) RETURNS anyelement
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$ SELECT of_column[least(place, cardinality(of_column))] $$`
  yield* sql`
    CREATE FUNCTION budget_column(of_column anyarray, total integer) RETURNS anyarray
    LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
      SELECT CASE WHEN cardinality(of_column) < total THEN array_fill(of_column[1], ARRAY[total]) ELSE of_column END
    $$`
  yield* sql`REVOKE ALL ON FUNCTION budget_at(anyarray, integer), budget_column(anyarray, integer) FROM PUBLIC`

  // As version 4, but what is the same in all requests comes once, and rows are put together where they are written.
  yield* rewrite("budgets_close_v4", "budgets_close_v5", "json, json, json", [
    [
      `      r record;
    BEGIN`,
      `      operations text[]; dialects text[]; models_asked text[]; models_served text[]; call_providers text[];
      inputs bigint[]; outputs bigint[]; cached_inputs bigint[]; cache_writes bigint[]; cache_writes_1h bigint[];
      reasonings bigint[]; call_rates jsonb[]; catalogues text[]; methods text[]; statuses integer[]; latencies bigint[];
      upstream_latencies bigint[]; first_tokens bigint[]; call_attempts jsonb[]; call_metadatas jsonb[]; traces text[];
      r record;
    BEGIN`
    ],
    [
      `q.usage::jsonb[], q.metadata::jsonb[]
      INTO`,
      `q.usage::jsonb[], q.metadata::jsonb[],
        c."operation"::text[], c."dialect"::text[], c."modelAsked"::text[], c."modelServed"::text[], c."provider"::text[],
        c."inputTokens"::bigint[], c."outputTokens"::bigint[], c."cachedInputTokens"::bigint[],
        c."cacheWriteTokens"::bigint[], c."cacheWrite1hTokens"::bigint[], c."reasoningTokens"::bigint[],
        c."rates"::jsonb[], c."catalogueVersion"::text[], c."method"::text[], c."status"::integer[],
        c."latencyMs"::bigint[], c."upstreamLatencyMs"::bigint[], c."timeToFirstTokenMs"::bigint[],
        c."attempts"::jsonb[], c."metadata"::jsonb[], c."traceId"::text[]
      INTO`
    ],
    [
      `charge_ids, usages, metadatas
      FROM json_to_record(requests)`,
      `charge_ids, usages, metadatas,
        operations, dialects, models_asked, models_served, call_providers, inputs, outputs, cached_inputs, cache_writes,
        cache_writes_1h, reasonings, call_rates, catalogues, methods, statuses, latencies, upstream_latencies, first_tokens,
        call_attempts, call_metadatas, traces
      FROM json_to_record(calls) AS c("operation" text, "dialect" text, "modelAsked" text, "modelServed" text,
          "provider" text, "inputTokens" text, "outputTokens" text, "cachedInputTokens" text, "cacheWriteTokens" text,
          "cacheWrite1hTokens" text, "reasoningTokens" text, "rates" text, "catalogueVersion" text, "method" text,
          "status" text, "latencyMs" text, "upstreamLatencyMs" text, "timeToFirstTokenMs" text, "attempts" text,
          "metadata" text, "traceId" text),
        json_to_record(requests)`
    ],
    [`coalesce(tenants, array_fill(NULL::uuid, ARRAY[total]))`, `coalesce(tenants, ARRAY[NULL::uuid])`],
    [
      `SELECT b.id, b.amount, b.tokens, b.counter_ids, q.amount AS charged, coalesce(q.tokens, b.tokens) AS charged_tokens,
          q.kind = 'settle' AND b.state = 'open' AND b.origin = q.origin AND (q.unrestricted OR b.created_by = q.principal)
            AND b.plan_id IS NULL AND b.decided_at IS NULL AS is_plain
        FROM unnest(ids, tenants, kinds, origins, principals, unrestricteds, amounts, token_counts)
          AS q(id, tenant, kind, origin, principal, unrestricted, amount, tokens)
        JOIN budget_reservations b ON b.id = q.id AND (q.tenant IS NULL OR b.tenant_id = q.tenant)
        WHERE`,
      `SELECT b.id, b.amount, b.tokens, b.counter_ids, budget_at(amounts, q.place) AS charged,
          coalesce(budget_at(token_counts, q.place), b.tokens) AS charged_tokens,
          budget_at(kinds, q.place) = 'settle' AND b.state = 'open' AND b.origin = budget_at(origins, q.place)
            AND (budget_at(unrestricteds, q.place) OR b.created_by = budget_at(principals, q.place))
            AND b.plan_id IS NULL AND b.decided_at IS NULL AS is_plain
        FROM generate_series(1, total) AS q(place)
        JOIN budget_reservations b ON b.id = ids[q.place]
          AND (budget_at(tenants, q.place) IS NULL OR b.tenant_id = budget_at(tenants, q.place))
        WHERE`
    ],
    [
      `        after_plans := array_fill(false, ARRAY[total]);`,
      `        after_plans := array_fill(false, ARRAY[total]);
        tenants := budget_column(tenants, total);
        kinds := budget_column(kinds, total);
        origins := budget_column(origins, total);
        principals := budget_column(principals, total);
        unrestricteds := budget_column(unrestricteds, total);
        amounts := budget_column(amounts, total);
        token_counts := budget_column(token_counts, total);`
    ],
    [
      `            state = CASE q.kind WHEN 'settle' THEN 'settled' ELSE 'released' END, closed_at = moment, charge_id = q.charge,
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
        )`,
      `            state = CASE budget_at(kinds, q.place) WHEN 'settle' THEN 'settled' ELSE 'released' END, closed_at = moment,
            charge_id = budget_at(charge_ids, q.place),
            late = budget_at(kinds, q.place) = 'settle'
              AND (b.state <> 'open' OR b.expires_at <= moment OR coalesce(after_plans[q.place], false)),
            actual = CASE budget_at(kinds, q.place) WHEN 'settle' THEN budget_at(amounts, q.place) END,
            actual_tokens = CASE budget_at(kinds, q.place) WHEN 'settle' THEN
              coalesce(budget_at(token_counts, q.place), b.tokens) END
          FROM generate_series(1, total) AS q(place)
          WHERE b.id = ids[q.place] AND (budget_at(tenants, q.place) IS NULL OR b.tenant_id = budget_at(tenants, q.place))
            AND verdicts[q.place] = 'done'
          RETURNING b.tenant_id, b.id AS reservation_id, b.charge_id, b.created_by, b.agent_id, b.plan_id, b.application_id,
            b.api_key_id, b.user_id, b.task_type, b.model, b.provider, b.amount AS reserved, b.actual, b.actual_tokens,
            b.late, b.counter_ids, q.place
        )`
    ],
    [
      `greatest(c.actual - c.reserved, 0), c.late, c.usage, c.metadata, moment, c.principal, c.counter_ids,`,
      `greatest(c.actual - c.reserved, 0), c.late, budget_at(usages, c.place), budget_at(metadatas, c.place), moment,
            budget_at(principals, c.place), c.counter_ids,`
    ],
    [`FROM closed c WHERE c.kind = 'settle'`, `FROM closed c WHERE budget_at(kinds, c.place) = 'settle'`],
    [
      `c.api_key_id, c.user_id, c.task_type, c.operation, c.dialect, c.model_asked, c.model, c.model_served,
          coalesce(c.call_provider, c.provider), c.input_tokens, c.output_tokens, c.cached_input_tokens,
          c.cache_write_tokens, c.cache_write_1h_tokens, c.reasoning_tokens, coalesce(c.actual, 0), c.rates,
          c.catalogue_version, c.method, c.status, c.latency_ms, c.upstream_latency_ms, c.time_to_first_token_ms,
          c.attempts, c.call_metadata, c.trace_id
        FROM closed c WHERE c.method IS NOT NULL`,
      `c.api_key_id, c.user_id, c.task_type, budget_at(operations, c.place), budget_at(dialects, c.place),
          budget_at(models_asked, c.place), c.model, budget_at(models_served, c.place),
          coalesce(budget_at(call_providers, c.place), c.provider), budget_at(inputs, c.place),
          budget_at(outputs, c.place), budget_at(cached_inputs, c.place), budget_at(cache_writes, c.place),
          budget_at(cache_writes_1h, c.place), budget_at(reasonings, c.place), coalesce(c.actual, 0),
          budget_at(call_rates, c.place), budget_at(catalogues, c.place), budget_at(methods, c.place),
          budget_at(statuses, c.place), budget_at(latencies, c.place), budget_at(upstream_latencies, c.place),
          budget_at(first_tokens, c.place), budget_at(call_attempts, c.place), budget_at(call_metadatas, c.place),
          budget_at(traces, c.place)
        FROM closed c WHERE budget_at(methods, c.place) IS NOT NULL`
    ],
    // What was open has no row yet, and whoever writes one holds the reservation.
    [
      `        ON CONFLICT DO NOTHING;`,
      `          AND (is_plain OR NOT EXISTS (
            SELECT FROM gateway_usage u WHERE u.tenant_id = c.tenant_id AND u.reservation_id = c.reservation_id));`
    ],
    [
      `FROM unnest(ids, kinds, verdicts) WITH ORDINALITY AS q(id, kind, verdict, place)`,
      `FROM unnest(ids, budget_column(kinds, total), verdicts) WITH ORDINALITY AS q(id, kind, verdict, place)`
    ]
  ])

  // As version 3, but what is the same in all requests comes once, one statement finds and locks the counters, and where
  // all have room at once only the room is answered that there was: who asked knows what each of them took.
  yield* rewrite("budgets_reserve_v3", "budgets_reserve_v4", "json, json, json", [
    [
      `      r record;
    BEGIN`,
      `      needs numeric[]; is_alike boolean; is_rolling boolean; all_rooms text[];
      r record;
    BEGIN`
    ],
    [
      `h."lastPairs"::integer[],
        EXISTS (`,
      `h."lastPairs"::integer[], h.needs::numeric[], coalesce(h.alike, false),
        EXISTS (`
    ],
    [
      `first_pairs, last_pairs, is_stale,
        counter_tenants`,
      `first_pairs, last_pairs, needs, is_alike, is_stale,
        counter_tenants`
    ],
    [`"firstPairs" text, "lastPairs" text),`, `"firstPairs" text, "lastPairs" text, needs text, alike boolean),`],
    [
      `      has_approvals := coalesce('reserve' <> ANY (kinds), false);`,
      `      has_approvals := coalesce('reserve' <> ANY (kinds), false);
      tenants := budget_column(tenants, total);
      kinds := budget_column(kinds, total);
      plans := budget_column(plans, total);
      amounts := budget_column(amounts, total);
      tokens := budget_column(tokens, total);
      principals := budget_column(principals, total);
      confineds := budget_column(confineds, total);
      reasons := budget_column(reasons, total);`
    ],
    [
      `        ELSE
          counters := budget_open_counters(counter_tenants, counter_caps, counter_keys, moment);
        END IF;
        PERFORM budget_lock_counters(counter_tenants, counters, moment);`,
      `        ELSE
          -- Nobody waits for a counter that somebody else makes while others are locked, so they are locked here all or none.
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
          IF cardinality(counters) IS DISTINCT FROM cardinality(counter_caps) THEN
            counters := budget_open_counters(counter_tenants, counter_caps, counter_keys, moment);
            is_rolling := true;
          END IF;
        END IF;
        IF is_rolling IS NOT FALSE THEN PERFORM budget_lock_counters(counter_tenants, counters, moment); END IF;`
    ],
    [
      `coalesce(l.budget, budget_limit(b.tenant_id, b.cap_id, b.counter_key, moment)) ORDER BY k.place`,
      `coalesce(l.budget, CASE WHEN c.id IS NOT NULL THEN
            least(9223372036854775807, c.limit_amount + coalesce((
              SELECT sum(g.amount) FROM budget_grants g
              WHERE g.tenant_id = b.tenant_id AND g.cap_id = b.cap_id AND g.ended_at IS NULL
                AND (g.expires_at IS NULL OR g.expires_at > moment)
                AND (g.counter_key IS NULL OR g.counter_key = b.counter_key)), 0))::bigint END) ORDER BY k.place`
    ],
    [
      `      IF is_roomy THEN
        pair_ids := array_fill(NULL::uuid, ARRAY[cardinality(pair_requests)]);
        rooms := deltas;`,
      `      IF is_roomy THEN
        rooms := deltas;`
    ],
    [
      `          IF modes[i] = 'soft' THEN slacks[i] := 9223372036854775807 - limits[i]; END IF;
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
`,
      `          IF modes[i] = 'soft' THEN slacks[i] := 9223372036854775807 - limits[i]; END IF;
          IF (needs[i] <= rooms[i] + slacks[i]) IS NOT TRUE THEN
            is_roomy := false;
            EXIT;
          END IF;
          deltas[i] := needs[i];
        END LOOP;
      END IF;
`
    ],
    [
      `        verdicts := array_fill('open'::text, ARRAY[total]);
        IF keyed THEN
          FOR pair IN 1..cardinality(pair_requests) LOOP
            at := pair_requests[pair];`,
      `        verdicts := array_fill('open'::text, ARRAY[total]);
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
            at := pair_requests[pair];`
    ],
    [
      `      SELECT q.tenant, q.id, q.verdict, q.origin, q.agent, q.plan, q.application, q.api_key, q.user_id, q.model,
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
      WHERE q.verdict IN ('open', 'held') AND q.kind = 'reserve';`,
      `      SELECT budget_at(tenants, q.place), ids[q.place], verdicts[q.place], budget_at(origins, q.place),
        budget_at(agents, q.place), budget_at(plans, q.place), budget_at(applications, q.place),
        budget_at(api_keys, q.place), budget_at(user_ids, q.place), budget_at(models, q.place),
        budget_at(providers, q.place), budget_at(task_types, q.place), budget_at(amounts, q.place),
        budget_at(tokens, q.place), budget_at(ttls, q.place),
        moment + make_interval(secs => CASE verdicts[q.place] WHEN 'open' THEN budget_at(ttls, q.place)
          ELSE budget_at(holds, q.place) END),
        moment, budget_at(principals, q.place), budget_at(metadatas, q.place),
        CASE WHEN NOT is_roomy THEN lists[q.place]::uuid[] WHEN is_alike THEN coalesce(counters, '{}')
          ELSE coalesce(pair_ids[first_pairs[q.place]:last_pairs[q.place]], '{}') END,
        CASE WHEN budget_at(repeated, q.place) IS NOT NULL THEN jsonb_build_object(
          'state', verdicts[q.place], 'amount', budget_at(amounts, q.place), 'tokens', budget_at(tokens, q.place),
          'ttl', budget_at(ttls, q.place), 'caps', budget_at(caps, q.place),
          'headrooms', string_to_array(headroom_lists[q.place], ','),
          'ends', ('[' || end_lists[q.place] || ']')::jsonb) END
      FROM generate_series(1, total) AS q(place)
      WHERE verdicts[q.place] IN ('open', 'held') AND kinds[q.place] = 'reserve';`
    ],
    [
      `      RETURN json_build_object('verdicts', verdicts, 'headrooms', headrooms,`,
      `      IF is_roomy AND NOT keyed THEN
        RETURN json_build_object('rooms', coalesce(all_rooms, '{}'), 'ends', ends);
      END IF;
      RETURN json_build_object('verdicts', verdicts, 'headrooms', headrooms,`
    ]
  ])

  // The only duplicates in these are versions of one row: looking for them cost more than they took.
  for (const index of ["budget_reservations_pkey", "budget_reservations_id"]) {
    yield* sql`ALTER INDEX ${sql(index)} SET (deduplicate_items = off)`
  }

  // As version 1, and writes itself the rows of the calls that it charges: version 2 looked for them by an index of their own.
  yield* rewrite("budgets_sweep_v1", "budgets_sweep_v3", "json", [
    [
      `      WHERE b.tenant_id = m.tenant AND b.id = m.id;
      PERFORM budget_audit(`,
      `      WHERE b.tenant_id = m.tenant AND b.id = m.id;
      IF true = ANY (charges) THEN
        INSERT INTO gateway_usage (tenant_id, reservation_id, occurred_at, charge_id, created_by, agent_id, plan_id,
          application_id, api_key_id, user_id, task_type, model, provider, cost, method, metadata)
        SELECT b.tenant_id, b.id, moment, b.charge_id, b.created_by, b.agent_id, b.plan_id, b.application_id,
          b.api_key_id, b.user_id, b.task_type, b.model, b.provider, b.actual, 'expired', b.metadata
        FROM unnest(tenants, ids, charge_ids) AS m(tenant, id, charge_id)
        JOIN budget_reservations b ON b.tenant_id = m.tenant AND b.id = m.id WHERE m.charge_id IS NOT NULL
        ON CONFLICT DO NOTHING;
      END IF;
      PERFORM budget_audit(`
    ]
  ])
  yield* sql`DROP INDEX budget_reservations_due_calls`

  // What only versions before the one before this called.
  yield* sql`DROP FUNCTION budgets_reserve_v2(json, json, json)`
  yield* sql`DROP FUNCTION budgets_close_v3(json, json, json)`
  yield* sql`DROP FUNCTION budgets_close_v1(json, json)`
})
