-- Writes the reservations that were admitted or are held, each with the answer to its key.
CREATE OR REPLACE FUNCTION budget_write_reservations(moment timestamptz, hold_seconds integer, requests budget_request[],
  verdicts budget_verdict[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
BEGIN
  INSERT INTO budget_reservations (tenant_id, id, state, origin, agent_id, plan_id, application_id, api_key_id,
    user_id, model, provider, task_type, amount, tokens, ttl_seconds, expires_at, created_at, created_by, metadata,
    counter_ids, answer)
  SELECT q.tenant_id, q.id, q.verdict, q.origin, q.agent_id, q.plan_id, q.application_id,
    q.api_key_id, q.user_id, q.model, q.provider, q.task_type, q.amount, q.tokens, q.ttl_seconds,
    moment + make_interval(secs => CASE q.verdict WHEN 'open' THEN q.ttl_seconds ELSE hold_seconds END),
    moment, q.created_by, q.metadata, q.counter_ids,
    CASE WHEN q.caps IS NOT NULL THEN jsonb_build_object(
      'state', q.verdict, 'amount', q.amount, 'tokens', q.tokens, 'ttl', q.ttl_seconds, 'caps', q.caps,
      'headrooms', q.headrooms, 'ends', q.ends) END
  FROM unnest(requests, verdicts) q
  WHERE q.verdict IN ('open', 'held') AND NOT budget_is_approval(q.kind);
END
$$;

REVOKE ALL ON FUNCTION budget_write_reservations FROM PUBLIC;
