-- Settles or releases a batch of reservations, each a `budget_closing`, in one statement. `keys` is null where no request has
-- an idempotency key; `unread`: the caller needs no rows. A request of kind `return`, alone in its batch, returns what a call
-- of the gateway took over and did not spend to its caller; its `charge_id` is that of the call. A request gets a verdict:
--   done, same (closed like this before), conflict (closed otherwise), missing, foreign (another principal's), managed
--   (of another origin), managed-by-plan, unopened (never admitted), replay (its key was used)
CREATE OR REPLACE FUNCTION budgets_close(moment timestamptz, unread boolean, requests budget_closing[], keys json)
RETURNS json
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET plan_cache_mode = force_generic_plan SET random_page_cost = 0.01 SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET enable_material = off AS $$
DECLARE
  verdicts text[]; taken integer[] := '{}'; at integer; verdict text; total integer := coalesce(cardinality(requests), 0);
  after_plans boolean[]; returned uuid;
  done_kind text; done_tenants uuid[] := '{}'; done_ids uuid[] := '{}'; holds boolean[] := '{}';
  done_amounts bigint[] := '{}'; done_tokens bigint[] := '{}'; counts integer[] := '{}';
  is_plain boolean; is_rolling boolean := false; has_thresholds boolean;
  counters uuid[]; owners uuid[]; freed_amounts numeric[]; freed_tokens numeric[];
  charged_amounts numeric[]; charged_tokens numeric[]; charges bigint[]; closed json := '[]';
  batch bigint; earliest timestamptz;
  r record;
BEGIN
  moment := budget_moment(moment);
  verdicts := array_fill('missing'::text, ARRAY[total]);
  IF keys IS NOT NULL THEN taken := budget_claim_keys(keys, moment); END IF;
  FOREACH at IN ARRAY taken LOOP verdicts[at] := 'replay'; END LOOP;

  -- Reservations are locked in order. If each is open, has neither plan nor approval, and is settled once, by a caller
  -- that may settle it, nothing is left to decide.
  WITH locked AS MATERIALIZED (
    SELECT b.id, b.amount, b.tokens, b.counter_ids, q.amount AS charged, coalesce(q.tokens, b.tokens) AS charged_tokens,
      q.kind = 'settle' AND b.state = 'open' AND b.origin = q.origin
        AND (q.unrestricted OR b.created_by = q.principal)
        AND b.plan_id IS NULL AND b.decided_at IS NULL AS is_plain
    FROM unnest(requests) q
    JOIN budget_reservations b ON b.id = q.id AND (q.tenant_id IS NULL OR b.tenant_id = q.tenant_id)
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
      owners := '00000000-0000-0000-0000-000000000000'::uuid || ARRAY(
        SELECT DISTINCT coalesce(q.tenant_id, (SELECT b.tenant_id FROM budget_reservations b WHERE b.id = q.id))
        FROM unnest(requests) q);
      -- Charges need the buckets of rolling counters; other counters are locked last, so that the lock lasts only for
      -- the commit.
      is_rolling := EXISTS (
        SELECT FROM budget_counters b WHERE b.tenant_id = ANY (owners) AND b.id = ANY (counters) AND b.ring IS NOT NULL);
      IF is_rolling THEN PERFORM budget_lock_counters(owners, counters, moment); END IF;
    END IF;
  ELSE
    after_plans := array_fill(false, ARRAY[total]);
    FOR r IN
      SELECT q.ordinality AS place, q.id, q.kind, q.origin, q.principal, q.unrestricted, q.amount, q.tokens, q.charge_id, b.tenant_id, b.plan_id, b.transferred->>'charge' AS taken_for, b.state, b.origin AS is_of, b.created_by, b.tokens AS reserved_tokens, b.actual,
        b.actual_tokens, CASE WHEN b.plan_id IS NOT NULL THEN (
          SELECT budget_plan_status(l.status, l.heartbeat_by, l.dead_at, moment) NOT IN ('active', 'suspended')
          FROM budget_plans l WHERE l.tenant_id = b.tenant_id AND l.id = b.plan_id) ELSE false END AS is_after_plan
      FROM unnest(requests) WITH ORDINALITY q
      JOIN budget_reservations b ON b.id = q.id AND (q.tenant_id IS NULL OR b.tenant_id = q.tenant_id)
      WHERE b.origin <> 'plan'
      ORDER BY b.tenant_id, b.id, q.ordinality FOR UPDATE OF b
    LOOP
      CONTINUE WHEN verdicts[r.place] = 'replay';
      verdict := CASE
        WHEN done_ids[cardinality(done_ids)] = r.id THEN
          CASE WHEN done_kind = r.kind AND (r.kind = 'release' OR (done_amounts[cardinality(done_amounts)] = r.amount
            AND done_tokens[cardinality(done_tokens)] = coalesce(r.tokens, r.reserved_tokens)))
            THEN 'same' ELSE 'conflict' END
        WHEN r.created_by <> r.principal AND NOT r.unrestricted THEN 'foreign'
        WHEN r.is_of <> r.origin THEN 'managed'
        WHEN r.kind = 'return' AND (r.state <> 'open' OR r.taken_for IS DISTINCT FROM r.charge_id::text) THEN 'managed'
        WHEN r.kind = 'settle' AND r.state = 'settled' THEN
          CASE WHEN r.actual = r.amount AND coalesce(r.tokens = r.actual_tokens, true) THEN 'same' ELSE 'conflict' END
        WHEN r.kind = 'settle' AND r.state IN ('held', 'denied') THEN 'unopened'
        WHEN r.kind = 'release' AND r.state = 'settled' THEN 'conflict'
        WHEN r.kind = 'release' AND r.state IN ('released', 'expired', 'denied') THEN 'same'
        ELSE 'done' END;
      verdicts[r.place] := verdict;
      IF verdict = 'done' AND r.kind = 'return' THEN
        -- A plan that ends from now on releases what was returned; under one that has ended, it is released here.
        PERFORM budget_lock_plans(ARRAY[r.tenant_id], ARRAY[r.plan_id]);
        IF NOT EXISTS (
          SELECT FROM budget_plans l WHERE l.tenant_id = r.tenant_id AND l.id = r.plan_id
            AND budget_plan_status(l.status, l.heartbeat_by, l.dead_at, moment) NOT IN ('active', 'suspended')) THEN
          returned := r.id;
          CONTINUE;
        END IF;
      END IF;
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

    -- Only the functions of plans lock a plan's own reservation, after the plan.
    IF 'missing' = ANY (verdicts) THEN
      FOR r IN
        SELECT q.ordinality AS place, b.created_by <> q.principal AND NOT q.unrestricted AS is_foreign
        FROM unnest(requests) WITH ORDINALITY q
        JOIN budget_reservations b ON b.id = q.id AND (q.tenant_id IS NULL OR b.tenant_id = q.tenant_id)
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
    batch := nextval('usage_batches');
    WITH closed AS (
      UPDATE budget_reservations b SET
        state = CASE WHEN b.id = returned THEN b.state WHEN q.kind = 'settle' THEN 'settled' ELSE 'released' END,
        closed_at = CASE WHEN b.id = returned THEN NULL ELSE moment END,
        charge_id = CASE q.kind WHEN 'settle' THEN q.charge_id END,
        late = q.kind = 'settle'
          AND (b.state <> 'open' OR b.expires_at <= moment OR coalesce(after_plans[q.ordinality], false)),
        actual = CASE q.kind WHEN 'settle' THEN q.amount END,
        actual_tokens = CASE q.kind WHEN 'settle' THEN coalesce(q.tokens, b.tokens) END
      FROM unnest(requests) WITH ORDINALITY q
      WHERE b.id = q.id AND (q.tenant_id IS NULL OR b.tenant_id = q.tenant_id) AND verdicts[q.ordinality] = 'done'
      RETURNING b.tenant_id, b.id AS reservation_id, b.charge_id, b.created_by, b.agent_id, b.plan_id, b.application_id,
        b.api_key_id, b.user_id, b.task_type, b.model, b.provider AS asked_provider, b.amount AS reserved, b.actual,
        b.actual_tokens, b.late, b.counter_ids, q.kind, q.principal, q.usage, q.metadata, q.operation, q.dialect,
        q.model_asked, q.model_served, q.provider, q.input_tokens, q.output_tokens, q.cached_input_tokens,
        q.cache_write_tokens, q.cache_write_1h_tokens, q.reasoning_tokens, q.rates, q.catalogue_version, q.method,
        q.status, q.latency_ms, q.upstream_latency_ms, q.time_to_first_token_ms, q.attempts, q.call_metadata, q.trace_id,
        q.tool_uses, q.price_terms, q.happened_at,
        CASE WHEN q.happened_at BETWEEN q.booked_from AND moment THEN q.happened_at ELSE moment END AS booked_at
    ), charged AS (
      INSERT INTO budget_entries (tenant_id, id, reservation_id, kind, charge_id, amount, tokens, requests, overrun,
        late, usage, metadata, occurred_at, created_by, counter_ids, buckets)
      SELECT c.tenant_id, c.charge_id, c.reservation_id, 'charge', c.charge_id, c.actual, c.actual_tokens, 1,
        greatest(c.actual - c.reserved, 0), c.late, c.usage, c.metadata, c.booked_at, c.principal, c.counter_ids,
        CASE WHEN is_rolling THEN budget_buckets(c.tenant_id, c.counter_ids) ELSE '{}' END
      FROM closed c WHERE c.kind = 'settle'
    ), used AS (
      INSERT INTO usage_rows (tenant_id, reservation_id, charge_id, agent_id, plan_id, api_key_id, occurred_at, batch,
        cost, saved, input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, cache_write_1h_tokens,
        reasoning_tokens, latency_ms, upstream_latency_ms, time_to_first_token_ms, application_id, status, late, method,
        created_by, user_id, task_type, operation, dialect, model_asked, model, model_served, provider,
        catalogue_version, trace_id, rates, attempts, metadata, tool_uses, price_terms, synthetic, happened_at)
      SELECT c.tenant_id, c.reservation_id, c.charge_id, c.agent_id, c.plan_id, c.api_key_id, c.booked_at, batch,
        coalesce(c.actual, 0),
        CASE WHEN c.cached_input_tokens > 0 THEN usage_saved(c.rates, c.cached_input_tokens) ELSE 0 END,
        CASE WHEN c.usage IS NULL THEN c.input_tokens ELSE (c.usage->>'inputTokens')::bigint END,
        CASE WHEN c.usage IS NULL THEN c.output_tokens ELSE (c.usage->>'outputTokens')::bigint END,
        CASE WHEN c.usage IS NULL THEN c.cached_input_tokens ELSE (c.usage->>'cacheReadTokens')::bigint END,
        CASE WHEN c.usage IS NULL THEN c.cache_write_tokens ELSE (c.usage->>'cacheWriteTokens')::bigint END,
        c.cache_write_1h_tokens,
        CASE WHEN c.usage IS NULL THEN c.reasoning_tokens ELSE (c.usage->>'reasoningTokens')::bigint END,
        usage_millis(c.latency_ms), usage_millis(c.upstream_latency_ms), usage_millis(c.time_to_first_token_ms),
        c.application_id, c.status, c.late,
        coalesce(c.method, 'reported'), usage_principal(c.created_by, c.agent_id, c.api_key_id), c.user_id, c.task_type, c.operation, c.dialect, c.model_asked,
        coalesce(c.model, c.usage->>'model'), c.model_served, coalesce(c.provider, c.asked_provider),
        c.catalogue_version, c.trace_id, c.rates, c.attempts,
        CASE WHEN c.method IS NULL THEN c.metadata ELSE c.call_metadata END, c.tool_uses, c.price_terms,
        is_synthetic(c.api_key_id, c.agent_id), c.happened_at
      FROM closed c WHERE c.kind = 'settle' OR c.method IS NOT NULL
      RETURNING tenant_id, occurred_at
    ), noted AS (
      INSERT INTO usage_outbox (batch, tenant_id, occurred_at) SELECT DISTINCT batch, u.tenant_id, u.occurred_at FROM used u
      RETURNING occurred_at
    )
    SELECT min(n.occurred_at) INTO earliest FROM noted n;
    IF returned IS NOT NULL THEN PERFORM budget_return(q.tenant_id, q.id, moment) FROM unnest(requests) q; END IF;
  END IF;

  IF owners IS NOT NULL THEN
    IF NOT is_rolling THEN PERFORM budget_lock_counters(owners, counters, moment); END IF;
    WITH moved AS (
      UPDATE budget_counters c SET reserved = c.reserved - (CASE c.unit
          WHEN 'usd' THEN d.amount WHEN 'tokens' THEN d.tokens ELSE d.requests END)::bigint,
        spent = c.spent + (CASE c.unit
          WHEN 'usd' THEN d.charged WHEN 'tokens' THEN d.charged_tokens ELSE d.requests END)::bigint,
        use_level = budget_counter_level(c.spent + (CASE c.unit
          WHEN 'usd' THEN d.charged WHEN 'tokens' THEN d.charged_tokens ELSE d.requests END)::bigint, c.cap_limit),
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

  IF keys IS NOT NULL THEN
    PERFORM budget_free_keys(keys, ARRAY(
      SELECT place::integer FROM unnest(verdicts) WITH ORDINALITY AS v(verdict, place)
      WHERE v.verdict NOT IN ('done', 'same', 'replay')));
  END IF;
  IF earliest IS NOT NULL THEN PERFORM usage_keep_bills(batch, earliest); END IF;
  IF NOT unread THEN
    SELECT coalesce(json_agg(json_build_object('place', q.ordinality, 'reservation', to_json(b),
      'charge', CASE WHEN e.id IS NOT NULL THEN to_json(e) END)), '[]')
    INTO closed
    FROM unnest(requests) WITH ORDINALITY q JOIN budget_reservations b ON b.id = q.id
    LEFT JOIN budget_entries e ON e.tenant_id = b.tenant_id AND e.id = b.charge_id
    WHERE q.kind = 'settle' AND verdicts[q.ordinality] IN ('done', 'same', 'replay');
  END IF;
  RETURN json_build_object('verdicts', verdicts, 'closed', closed,
    'replays', CASE WHEN cardinality(taken) = 0 THEN '[]'::json ELSE budget_replays(keys, taken) END);
END
$$;

REVOKE ALL ON FUNCTION budgets_close FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budgets_close TO application_manager;
