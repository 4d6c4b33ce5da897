import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // One row for each call of the gateway that had something kept free, written with what ended it. Tokens are null where
  // nobody knows them. What was said is in none of them.
  yield* sql`
    CREATE TABLE gateway_usage (
      tenant_id uuid NOT NULL,
      reservation_id uuid NOT NULL,
      occurred_at timestamptz NOT NULL,
      charge_id uuid,
      created_by text NOT NULL,
      agent_id uuid,
      plan_id uuid,
      application_id integer,
      api_key_id uuid,
      user_id text,
      task_type text,
      operation text,
      dialect text,
      model_asked text,
      model text,
      model_served text,
      provider text,
      input_tokens bigint,
      output_tokens bigint,
      cached_input_tokens bigint,
      cache_write_tokens bigint,
      cache_write_1h_tokens bigint,
      reasoning_tokens bigint,
      cost bigint NOT NULL CHECK (cost >= 0),
      rates jsonb,
      catalogue_version text,
      method text NOT NULL CHECK (
        method IN ('provider_usage', 'aborted', 'estimated', 'unanswered', 'released', 'expired')),
      status integer,
      latency_ms bigint,
      upstream_latency_ms bigint,
      time_to_first_token_ms bigint,
      attempts jsonb,
      metadata jsonb,
      trace_id text,
      PRIMARY KEY (tenant_id, reservation_id)
    )`
  yield* sql`CREATE INDEX gateway_usage_occurred ON gateway_usage USING brin (occurred_at)`
  yield* sql`ALTER TABLE gateway_usage ENABLE ROW LEVEL SECURITY`
  yield* sql`
    CREATE POLICY gateway_usage_of_tenant ON gateway_usage
    USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id))`
  yield* sql`REVOKE INSERT, UPDATE, DELETE ON gateway_usage FROM application_manager`

  // As version 1; a request that ends a call of the gateway says of it in `call` what its row keeps.
  yield* sql`
    CREATE FUNCTION budgets_close_v2(p json, requests json) RETURNS json
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    DECLARE
      outcome json := budgets_close_v1(p, requests);
    BEGIN
      IF (p->>'calls')::boolean THEN
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
        FROM ROWS FROM (
          json_to_recordset(requests) AS (id uuid, call json), json_array_elements_text(outcome->'verdicts')
        ) AS q(id, call, verdict)
        JOIN budget_reservations b ON b.id = q.id
        CROSS JOIN LATERAL json_to_record(q.call) AS c("operation" text, "dialect" text, "modelAsked" text,
          "modelServed" text, "provider" text, "inputTokens" bigint, "outputTokens" bigint, "cachedInputTokens" bigint,
          "cacheWriteTokens" bigint, "cacheWrite1hTokens" bigint, "reasoningTokens" bigint, "rates" jsonb,
          "catalogueVersion" text, "method" text, "status" integer, "latencyMs" bigint, "upstreamLatencyMs" bigint,
          "timeToFirstTokenMs" bigint, "attempts" jsonb, "metadata" jsonb, "traceId" text)
        WHERE q.call IS NOT NULL AND q.verdict = 'done'
        ON CONFLICT DO NOTHING;
      END IF;
      RETURN outcome;
    END
    $$`

  // As version 1, and with a row for each call that nobody ended: nobody knows what it used.
  yield* sql`
    CREATE FUNCTION budgets_sweep_v2(p json) RETURNS json
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    DECLARE
      moment timestamptz := p->>'now';
      only_tenant uuid := p->>'tenant';
      tenants uuid[]; ids uuid[];
      outcome json;
    BEGIN
      SELECT array_agg(d.tenant_id), array_agg(d.id) INTO tenants, ids FROM (
        SELECT b.tenant_id, b.id FROM budget_reservations b
        WHERE b.state IN ('open', 'held') AND b.expires_at <= moment AND b.origin = 'gateway'
          AND (only_tenant IS NULL OR b.tenant_id = only_tenant)
        ORDER BY b.expires_at LIMIT (p->>'most')::integer) d;
      outcome := budgets_sweep_v1(p);
      IF ids IS NOT NULL THEN
        INSERT INTO gateway_usage (tenant_id, reservation_id, occurred_at, charge_id, created_by, agent_id, plan_id,
          application_id, api_key_id, user_id, task_type, model, provider, cost, method, metadata)
        SELECT b.tenant_id, b.id, moment, b.charge_id, b.created_by, b.agent_id, b.plan_id, b.application_id,
          b.api_key_id, b.user_id, b.task_type, b.model, b.provider, b.actual, 'expired', b.metadata
        FROM unnest(tenants, ids) AS d(tenant, id)
        JOIN budget_reservations b ON b.tenant_id = d.tenant AND b.id = d.id
        JOIN budget_entries e ON e.tenant_id = b.tenant_id AND e.id = b.charge_id AND e.reason = 'abandoned'
        WHERE b.state = 'settled'
        ON CONFLICT DO NOTHING;
      END IF;
      RETURN outcome;
    END
    $$`

  // Lets the reservations of calls that still run live on; what others are at work on is ended or comes again.
  yield* sql`
    CREATE FUNCTION budgets_renew_v1(p json) RETURNS json
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    DECLARE
      renewed integer;
    BEGIN
      WITH running AS MATERIALIZED (
        SELECT b.tenant_id, b.id FROM json_to_recordset(p->'calls') AS c(tenant uuid, id uuid)
        JOIN budget_reservations b ON b.tenant_id = c.tenant AND b.id = c.id
        WHERE b.state = 'open' AND b.origin = 'gateway'
        ORDER BY b.tenant_id, b.id FOR UPDATE OF b SKIP LOCKED)
      UPDATE budget_reservations b SET expires_at = (p->>'now')::timestamptz + make_interval(secs => (p->>'ttl')::integer)
      FROM running r WHERE b.tenant_id = r.tenant_id AND b.id = r.id;
      GET DIAGNOSTICS renewed = ROW_COUNT;
      RETURN json_build_object('renewed', renewed);
    END
    $$`

  // Makes a prepared or approved reservation that of a call of the gateway, whose caps it counts on from then on: what it
  // holds already stays, what it lacks is taken if there is room, and what does not govern the call returns. 'counters' are
  // those of the caps that govern the call. Verdicts: open, stale (the caps are others by now), missing, foreign (another
  // principal's or agent's), managed, held, unopened, other-plan, too-small, denied (with the first counter that has no
  // room), and plan-suspended, plan-completed, plan-aborted or plan-expired.
  yield* sql`
    CREATE FUNCTION budgets_adopt_v1(p json) RETURNS json
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
    SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
    DECLARE
      moment timestamptz := p->>'now';
      owner uuid := p->>'tenant';
      plan uuid := p->>'plan';
      b budget_reservations;
      l budget_plans;
      verdict text;
      places integer[]; tenants uuid[]; caps uuid[]; keys text[]; own uuid[];
      lacking integer[]; opened uuid[]; counters uuid[] := '{}'; kept uuid[];
      all_tokens bigint; failing record; room text;
    BEGIN
      IF EXISTS (
        SELECT FROM json_to_recordset(p->'books') AS k(tenant uuid, version bigint)
        LEFT JOIN budget_books o ON o.tenant_id = k.tenant WHERE coalesce(o.caps_version, 0) <> k.version
      ) THEN RETURN json_build_object('verdict', 'stale'); END IF;
      SELECT * INTO b FROM budget_reservations r WHERE r.tenant_id = owner AND r.id = (p->>'id')::uuid FOR UPDATE;
      verdict := CASE
        WHEN b.id IS NULL THEN 'missing'
        WHEN b.created_by <> p->>'principal' OR b.agent_id IS DISTINCT FROM (p->>'agent')::uuid THEN 'foreign'
        WHEN b.state = 'held' AND b.expires_at > moment THEN 'held'
        WHEN b.origin <> 'api' THEN 'managed'
        WHEN b.state <> 'open' OR b.expires_at <= moment THEN 'unopened'
        WHEN b.plan_id IS DISTINCT FROM plan THEN 'other-plan'
        WHEN b.amount < (p->>'amount')::bigint THEN 'too-small'
      END;
      IF verdict IS NULL AND plan IS NOT NULL THEN
        PERFORM budget_lock_plans(ARRAY[owner], ARRAY[plan]);
        SELECT * INTO l FROM budget_plans o WHERE o.tenant_id = owner AND o.id = plan;
        verdict := nullif('plan-' || budget_plan_status(l.status, l.heartbeat_by, l.dead_at, moment), 'plan-active');
      END IF;
      IF verdict IS NOT NULL THEN
        RETURN json_build_object('verdict', verdict, 'origin', b.origin,
          'state', CASE WHEN b.state IN ('open', 'held') AND b.expires_at <= moment THEN 'expired' ELSE b.state END);
      END IF;

      -- Each counter of a governing cap that the reservation has already, and those caps that it has none of.
      SELECT array_agg(c.place ORDER BY c.place), array_agg(c.tenant ORDER BY c.place),
        array_agg(c.cap ORDER BY c.place), array_agg(c.key ORDER BY c.place), array_agg((
          SELECT o.id FROM unnest(b.counter_ids) AS e(id)
          JOIN budget_counters o ON o.tenant_id = c.tenant AND o.id = e.id
          WHERE o.cap_id = c.cap AND o.counter_key = c.key LIMIT 1) ORDER BY c.place)
      INTO places, tenants, caps, keys, own
      FROM json_to_recordset(p->'counters') AS c(place integer, tenant uuid, cap uuid, key text);
      lacking := ARRAY(
        SELECT c.place FROM unnest(places, caps, keys, own) AS c(place, cap, key, own)
        WHERE c.own IS NULL AND NOT EXISTS (
          SELECT FROM unnest(l.held_caps, l.held_keys) AS h(cap, key) WHERE h.cap = c.cap AND h.key = c.key)
        ORDER BY c.place);
      IF cardinality(lacking) > 0 THEN
        opened := budget_open_counters(
          ARRAY(SELECT tenants[i] FROM unnest(lacking) WITH ORDINALITY AS x(i, n) ORDER BY n),
          ARRAY(SELECT caps[i] FROM unnest(lacking) WITH ORDINALITY AS x(i, n) ORDER BY n),
          ARRAY(SELECT keys[i] FROM unnest(lacking) WITH ORDINALITY AS x(i, n) ORDER BY n), moment);
      END IF;
      opened := coalesce(opened, '{}');
      PERFORM budget_lock_counters(ARRAY[owner, '00000000-0000-0000-0000-000000000000'],
        b.counter_ids || opened || coalesce(l.counter_ids || l.id, '{}'), moment);
      -- What the plan holds stays with it.
      kept := ARRAY(
        SELECT e.id FROM unnest(b.counter_ids) AS e(id)
        JOIN budget_counters o ON o.id = e.id AND o.tenant_id IN (owner, '00000000-0000-0000-0000-000000000000')
        WHERE e.id = ANY (own) OR (plan IS NOT NULL AND (e.id = plan OR o.cap_id = ANY (l.held_caps))));
      all_tokens := greatest(b.tokens, (p->>'tokens')::bigint);

      SELECT o.cap_id, o.counter_key, o.spent, o.reserved, x.lim INTO failing
      FROM unnest(places, tenants, caps, own) AS c(place, tenant, cap, own)
      JOIN budget_counters o ON o.tenant_id = c.tenant
        AND o.id = coalesce(c.own, opened[array_position(lacking, c.place)])
      JOIN budget_caps k ON k.tenant_id = o.tenant_id AND k.id = o.cap_id
      CROSS JOIN LATERAL (
        SELECT budget_limit(o.tenant_id, o.cap_id, o.counter_key, moment) AS lim,
          CASE WHEN c.own IS NOT NULL THEN CASE o.unit WHEN 'tokens' THEN all_tokens - b.tokens ELSE 0 END
            ELSE CASE o.unit WHEN 'usd' THEN b.amount WHEN 'tokens' THEN all_tokens ELSE 1 END END AS need) x
      WHERE k.status = 'active' AND k.deleted_at IS NULL AND k.mode <> 'soft' AND x.need > 0
        AND o.spent::numeric + o.reserved + x.need > x.lim
      ORDER BY c.place LIMIT 1;
      IF FOUND THEN
        RETURN json_build_object('verdict', 'denied', 'cap', failing.cap_id, 'key', failing.counter_key,
          'limit', failing.lim::text, 'spent', failing.spent::text, 'reserved', failing.reserved::text);
      END IF;

      UPDATE budget_counters o SET reserved = o.reserved
        + CASE WHEN o.id = ANY (opened) OR o.id = ANY (kept) THEN
            CASE o.unit WHEN 'usd' THEN b.amount WHEN 'tokens' THEN all_tokens ELSE 1 END ELSE 0 END
        - CASE WHEN o.id = ANY (b.counter_ids) THEN
            CASE o.unit WHEN 'usd' THEN b.amount WHEN 'tokens' THEN b.tokens ELSE 1 END ELSE 0 END
      WHERE o.tenant_id IN (owner, '00000000-0000-0000-0000-000000000000') AND o.id = ANY (b.counter_ids || opened);
      counters := kept || opened;
      UPDATE budget_reservations r SET origin = 'gateway', model = p->>'model', provider = p->>'provider',
        task_type = p->>'task_type', tokens = all_tokens, ttl_seconds = (p->>'ttl')::integer,
        expires_at = moment + make_interval(secs => (p->>'ttl')::integer), counter_ids = counters
      WHERE r.tenant_id = owner AND r.id = b.id;
      IF budget_has_thresholds(counters, ARRAY[owner, '00000000-0000-0000-0000-000000000000']) THEN
        PERFORM budget_note_alerts(moment, counters);
      END IF;
      SELECT min(greatest(coalesce(n.budget, budget_limit(o.tenant_id, o.cap_id, o.counter_key, moment))::numeric
        - o.spent - o.reserved, 0))::text INTO room
      FROM unnest(counters) AS e(id)
      JOIN budget_counters o ON o.id = e.id AND o.tenant_id IN (owner, '00000000-0000-0000-0000-000000000000')
      LEFT JOIN budget_caps k ON k.tenant_id = o.tenant_id AND k.id = o.cap_id
      LEFT JOIN budget_plans n ON n.tenant_id = o.tenant_id AND n.id = o.cap_id
      WHERE o.unit = 'usd' AND (n.id IS NOT NULL
        OR (k.status = 'active' AND k.deleted_at IS NULL AND k.mode <> 'soft' AND plan IS NULL)
        OR (k.status = 'active' AND k.deleted_at IS NULL AND k.mode <> 'soft' AND NOT k.id = ANY (l.held_caps)));
      RETURN json_build_object('verdict', 'open', 'amount', b.amount, 'tokens', all_tokens, 'room', room);
    END
    $$`

  // A call of the gateway that was held for an approval was never made: approved, it is its caller's, to be called with,
  // released, or to expire at no cost.
  yield* sql`
    CREATE FUNCTION budgets_hand_over_v1(p json) RETURNS json
    LANGUAGE sql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
      WITH handed AS (
        UPDATE budget_reservations r SET origin = 'api'
        WHERE r.tenant_id = (p->>'tenant')::uuid AND r.id = (p->>'id')::uuid AND r.state = 'held' AND r.origin = 'gateway'
        RETURNING r.id)
      SELECT json_build_object('handed', count(*)) FROM handed
    $$`

  yield* sql`
    DO $$
    DECLARE
      f regprocedure;
    BEGIN
      FOR f IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace AND p.proname IN (
        'budgets_close_v2', 'budgets_sweep_v2', 'budgets_renew_v1', 'budgets_adopt_v1', 'budgets_hand_over_v1') LOOP
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
        EXECUTE format('GRANT EXECUTE ON FUNCTION %s TO application_manager', f);
      END LOOP;
    END
    $$`
})
