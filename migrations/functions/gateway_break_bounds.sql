-- Notes the targets whose charges exceeded what was held for them under a hard cap, each once until it is acknowledged, with
-- an audit entry in the same transaction, since events are published from the audit log. Replicas are notified at the commit.
-- It comes after all counters are locked, so that a batch that waits for another one's target needs no counter of that any more.
CREATE OR REPLACE FUNCTION gateway_break_bounds(
  moment timestamptz, requests budget_closing[], verdicts budget_closing_verdict[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  entries json; places integer[]; tenants uuid[];
BEGIN
  WITH over AS (
    SELECT b.tenant_id, b.id AS reservation_id, q.provider, coalesce(q.model_served, '') AS model,
      coalesce(q.operation, '') AS operation, b.amount AS reserved, q.amount AS charged,
      b.tokens AS reserved_tokens, q.tokens AS charged_tokens
    FROM unnest(requests, verdicts) q
    JOIN budget_reservations b ON b.id = q.id AND (q.tenant_id IS NULL OR b.tenant_id = q.tenant_id)
    WHERE q.verdict = 'done' AND q.kind = 'settle' AND q.price_terms->>'hold' = 'over' AND q.provider IS NOT NULL
  ), worst AS (
    SELECT DISTINCT ON (o.provider, o.model, o.operation) o.*,
      count(*) OVER (PARTITION BY o.provider, o.model, o.operation)::integer AS times
    FROM over o ORDER BY o.provider, o.model, o.operation, o.charged - o.reserved DESC, o.reservation_id
  ), noted AS (
    INSERT INTO gateway_broken_bounds AS g (provider, model, operation, reservation_id, reserved, charged, reserved_tokens,
      charged_tokens, times, broken_at)
    SELECT w.provider, w.model, w.operation, w.reservation_id, w.reserved, w.charged, w.reserved_tokens, w.charged_tokens,
      w.times, moment
    FROM worst w ORDER BY w.provider, w.model, w.operation
    ON CONFLICT (provider, model, operation) WHERE acknowledged_at IS NULL DO UPDATE SET times = g.times + EXCLUDED.times
    RETURNING g.*
  ), fresh AS (
    SELECT n.*, w.tenant_id, row_number() OVER (ORDER BY n.id)::integer AS place
    FROM noted n JOIN worst w ON w.reservation_id = n.reservation_id
  )
  SELECT json_agg(json_build_object('place', f.place, 'action_type', 'GatewayTargetBoundBroken',
      'entity_type', 'GatewayTarget', 'entity_id', f.id, 'user_id', 'system', 'actor_type', 'system',
      'changes', json_build_object('before', NULL, 'after', json_build_object('provider', f.provider, 'model', f.model,
        'operation', f.operation, 'tenantId', f.tenant_id, 'reservationId', f.reservation_id,
        'reservedUsd', budget_quantity('usd', f.reserved), 'chargedUsd', budget_quantity('usd', f.charged),
        'reservedTokens', f.reserved_tokens, 'chargedTokens', f.charged_tokens)))),
    array_agg(f.place), array_agg(NULL::uuid)
  INTO entries, places, tenants FROM fresh f;
  IF entries IS NULL THEN RETURN; END IF;
  PERFORM budget_audit(entries, places, tenants, moment);
  PERFORM pg_notify('application_manager', 'gateway_broken_bounds broken');
END
$$;

REVOKE ALL ON FUNCTION gateway_break_bounds FROM PUBLIC;
