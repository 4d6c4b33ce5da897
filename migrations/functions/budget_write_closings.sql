-- Writes reservations that are closed, the charges of those that are settled, and what the gateway's calls used. `batch` is
-- that of the usage, and `earliest` when the first of it happened, null where there is none. Where counters are rolling, they
-- are locked, and charges are written with their current buckets.
CREATE OR REPLACE FUNCTION budget_write_closings(moment timestamptz, requests budget_closing[],
  verdicts budget_closing_verdict[], is_rolling boolean, OUT batch bigint, OUT earliest timestamptz)
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
BEGIN
  batch := nextval('usage_batches');
  WITH closed AS (
    UPDATE budget_reservations b SET
      state = CASE WHEN q.is_returned THEN b.state WHEN q.kind = 'settle' THEN 'settled' ELSE 'released' END,
      closed_at = CASE WHEN q.is_returned THEN NULL ELSE moment END,
      charge_id = CASE q.kind WHEN 'settle' THEN q.charge_id END,
      late = q.kind = 'settle' AND (b.state <> 'open' OR b.expires_at <= moment OR q.is_after_plan),
      actual = CASE q.kind WHEN 'settle' THEN q.amount END,
      actual_tokens = CASE q.kind WHEN 'settle' THEN coalesce(q.tokens, b.tokens) END
    FROM unnest(requests, verdicts) q
    WHERE b.id = q.id AND (q.tenant_id IS NULL OR b.tenant_id = q.tenant_id) AND q.verdict = 'done'
    RETURNING b.tenant_id, b.id AS reservation_id, b.charge_id, b.created_by, b.agent_id, b.plan_id, b.application_id,
      b.api_key_id, b.user_id, b.task_type, b.model, b.provider AS asked_provider, b.amount AS reserved, b.actual,
      b.actual_tokens, b.late, b.counter_ids, q.kind, q.principal, q.usage, q.metadata, q.operation, q.dialect,
      q.model_asked, q.model_served, q.provider, q.input_tokens, q.output_tokens, q.cached_input_tokens,
      q.cache_write_tokens, q.cache_write_1h_tokens, q.reasoning_tokens, q.rates, q.catalogue_version, q.method,
      q.status, q.latency_ms, q.upstream_latency_ms, q.time_to_first_token_ms, q.attempts, q.call_metadata, q.trace_id,
      q.tool_uses, q.price_terms, q.error, q.happened_at,
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
      catalogue_version, trace_id, rates, attempts, metadata, tool_uses, price_terms, error, synthetic, happened_at)
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
      coalesce(c.method, 'reported'), usage_principal(c.created_by, c.agent_id, c.api_key_id), c.user_id,
      c.task_type, c.operation, c.dialect, c.model_asked, coalesce(c.model, c.usage->>'model'), c.model_served, coalesce(c.provider, c.asked_provider),
      c.catalogue_version, c.trace_id, c.rates, c.attempts,
      CASE WHEN c.method IS NULL THEN c.metadata ELSE c.call_metadata END, c.tool_uses, c.price_terms, c.error,
      is_synthetic(c.api_key_id, c.agent_id), c.happened_at
    FROM closed c WHERE c.kind = 'settle' OR c.method IS NOT NULL
    RETURNING tenant_id, occurred_at
  ), noted AS (
    INSERT INTO usage_outbox (batch, tenant_id, occurred_at) SELECT DISTINCT batch, u.tenant_id, u.occurred_at FROM used u
    RETURNING occurred_at
  )
  SELECT min(n.occurred_at) INTO earliest FROM noted n;
  PERFORM budget_return(q.tenant_id, q.id, moment) FROM unnest(requests, verdicts) q WHERE q.is_returned;
END
$$;

REVOKE ALL ON FUNCTION budget_write_closings FROM PUBLIC;
