-- Settles the reservation that a call of the gateway took over for an attempt that failed and is charged, and keeps what that
-- leaves for the next attempt, as the reservation `rest` on the same counters and under the same grants: no other call can
-- take it meanwhile. Returns what is left; null where nothing is, or a cap in requests has no room for another one.
CREATE OR REPLACE FUNCTION budgets_settle_part(moment timestamptz, requests budget_closing[], rest uuid, rest_charge uuid)
RETURNS json
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  q budget_closing := requests[1];
  b budget_reservations;
  granted budget_grants[]; of_plan uuid[]; plan_rests bigint[]; rest_tokens bigint;
BEGIN
  moment := budget_moment(moment);
  SELECT * INTO b FROM budget_reservations r WHERE r.tenant_id = q.tenant_id AND r.id = q.id FOR UPDATE;
  granted := ARRAY(
    SELECT g FROM budget_grants g
    WHERE g.reservation_id = b.id AND g.ended_at IS NULL AND (g.expires_at IS NULL OR g.expires_at > moment));
  IF budgets_close(moment, true, requests, NULL)->'verdicts'->>0 <> 'done' OR b.state <> 'open'
    OR b.transferred->>'charge' IS DISTINCT FROM q.charge_id::text OR b.amount <= q.amount THEN
    RETURN json_build_object('rest', NULL);
  END IF;
  SELECT l.counter_ids INTO of_plan FROM budget_plans l WHERE l.tenant_id = b.tenant_id AND l.id = b.plan_id;
  rest_tokens := greatest(b.tokens - coalesce(q.tokens, b.tokens), 0);
  IF NOT b.counter_ids @> coalesce(of_plan, '{}') OR EXISTS (
    SELECT FROM budget_counters o JOIN budget_caps k ON k.tenant_id = o.tenant_id AND k.id = o.cap_id
    WHERE o.tenant_id IN (b.tenant_id, all_tenants()) AND o.id = ANY (b.counter_ids) AND o.unit = 'requests'
      AND k.status = 'active' AND k.deleted_at IS NULL AND k.mode <> 'soft'
      AND o.spent::numeric + o.reserved + 1 > budget_limit(o.tenant_id, o.cap_id, o.counter_key, moment)) THEN
    RETURN json_build_object('rest', NULL);
  END IF;
  INSERT INTO budget_grants (
    reservation_id, tenant_id, cap_id, counter_key, amount, reason, expires_at, created_at, created_by)
  SELECT rest, f.tenant_id, f.cap_id, f.counter_key, f.amount, f.reason, f.expires_at, moment, f.created_by
  FROM (
    SELECT g.tenant_id, g.cap_id, g.counter_key, g.reason, g.expires_at, g.created_by, g.amount - coalesce((
      SELECT sum(o.amount) FROM budget_grants o
      WHERE o.reservation_id = b.id AND o.ended_at IS NULL AND o.tenant_id = g.tenant_id AND o.cap_id = g.cap_id
        AND o.counter_key IS NOT DISTINCT FROM g.counter_key), 0) AS amount
    FROM unnest(granted) g) f
  WHERE f.amount > 0;
  IF b.plan_id IS NOT NULL THEN plan_rests := budget_plan_rests(ARRAY[b.tenant_id], ARRAY[b.plan_id]); END IF;
  UPDATE budget_counters o SET spent = o.spent,
    reserved = o.reserved + budget_need_in(o.unit, b.amount - q.amount, rest_tokens)
  WHERE o.tenant_id IN (b.tenant_id, all_tenants()) AND o.id = ANY (b.counter_ids);
  IF b.plan_id IS NOT NULL THEN PERFORM budget_plan_hold(ARRAY[b.tenant_id], ARRAY[b.plan_id], plan_rests); END IF;
  INSERT INTO budget_reservations (tenant_id, id, state, origin, agent_id, plan_id, application_id, api_key_id, user_id,
    model, provider, task_type, amount, tokens, ttl_seconds, expires_at, created_at, created_by, metadata, counter_ids,
    decided_at, decided_by, decision_reason, transferred)
  VALUES (b.tenant_id, rest, 'open', 'gateway', b.agent_id, b.plan_id, b.application_id, b.api_key_id, b.user_id,
    b.model, b.provider, b.task_type, b.amount - q.amount, rest_tokens, b.ttl_seconds,
    moment + make_interval(secs => b.ttl_seconds), moment, b.created_by, b.metadata, b.counter_ids,
    b.decided_at, b.decided_by, b.decision_reason, jsonb_build_object('charge', rest_charge));
  RETURN json_build_object('rest', json_build_object('amount', b.amount - q.amount, 'tokens', rest_tokens));
END
$$;

REVOKE ALL ON FUNCTION budgets_settle_part FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budgets_settle_part TO application_manager;
