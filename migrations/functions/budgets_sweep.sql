-- Ends reservations that have expired, and writes the rows of the gateway's calls that it charges.
CREATE OR REPLACE FUNCTION budgets_sweep(p json) RETURNS json
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_hashjoin = off
SET enable_mergejoin = off SET enable_material = off AS $$
DECLARE
  moment timestamptz := budget_moment((p->>'now')::timestamptz);
  only_tenant uuid := p->>'tenant';
  most integer := p->>'most';
  ended budget_movement[];
  has_charges boolean;
  batch bigint;
BEGIN
  IF (p->>'waiting')::boolean THEN
    PERFORM FROM budget_reservations b
    WHERE (b.tenant_id, b.id) IN (
      SELECT d.tenant_id, d.id FROM budget_reservations d
      WHERE d.state IN ('open', 'held') AND d.origin <> 'plan' AND d.expires_at <= moment
        AND (only_tenant IS NULL OR d.tenant_id = only_tenant)
      ORDER BY d.expires_at LIMIT most)
    ORDER BY b.tenant_id, b.id FOR UPDATE;
  END IF;
  WITH due AS MATERIALIZED (
    SELECT d.tenant_id, d.id, d.state = 'open' AS holds, d.state = 'open' AND d.origin = 'gateway' AS is_charged,
      d.amount, d.tokens
    FROM budget_reservations d
    WHERE d.state IN ('open', 'held') AND d.origin <> 'plan' AND d.expires_at <= moment
      AND (only_tenant IS NULL OR d.tenant_id = only_tenant)
    ORDER BY d.expires_at LIMIT most FOR UPDATE SKIP LOCKED)
  SELECT array_agg(ROW(d.tenant_id, d.id, d.holds, CASE WHEN d.is_charged THEN new_id() END,
    CASE WHEN d.is_charged THEN d.amount ELSE 0 END, CASE WHEN d.is_charged THEN d.tokens ELSE 0 END)::budget_movement),
    bool_or(d.is_charged)
  INTO ended, has_charges FROM due d;
  IF ended IS NULL THEN RETURN json_build_object('swept', 0); END IF;
  PERFORM budget_move(moment, ended);
  IF has_charges THEN
    INSERT INTO budget_entries (tenant_id, id, reservation_id, kind, charge_id, amount, tokens, requests, reason,
      occurred_at, created_by, counter_ids, buckets)
    SELECT b.tenant_id, m.charge_id, b.id, 'charge', m.charge_id, b.amount, b.tokens, 1, 'abandoned', moment, 'system',
      b.counter_ids, budget_buckets(b.tenant_id, b.counter_ids)
    FROM unnest(ended) m
    JOIN budget_reservations b ON b.tenant_id = m.tenant_id AND b.id = m.id WHERE m.charge_id IS NOT NULL;
  END IF;
  UPDATE budget_reservations b SET state = CASE WHEN m.charge_id IS NULL THEN 'expired' ELSE 'settled' END,
    closed_at = moment, charge_id = m.charge_id,
    actual = CASE WHEN m.charge_id IS NOT NULL THEN b.amount END,
    actual_tokens = CASE WHEN m.charge_id IS NOT NULL THEN b.tokens END
  FROM unnest(ended) m
  WHERE b.tenant_id = m.tenant_id AND b.id = m.id;
  IF has_charges THEN
    batch := nextval('usage_batches');
    WITH used AS (
      INSERT INTO usage_rows (tenant_id, reservation_id, charge_id, agent_id, plan_id, api_key_id, occurred_at, batch,
        cost, application_id, method, created_by, user_id, task_type, model, provider, metadata, error, synthetic)
      SELECT b.tenant_id, b.id, b.charge_id, b.agent_id, b.plan_id, b.api_key_id, moment, batch, b.actual,
        b.application_id, 'expired', usage_principal(b.created_by, b.agent_id, b.api_key_id), b.user_id, b.task_type, b.model, b.provider, b.metadata,
        jsonb_build_object('code', 'expired', 'message',
          'The call was not settled before its reservation expired, so all of it was charged.'),
        is_synthetic(b.api_key_id, b.agent_id)
      FROM unnest(ended) m
      JOIN budget_reservations b ON b.tenant_id = m.tenant_id AND b.id = m.id WHERE m.charge_id IS NOT NULL
      RETURNING tenant_id
    )
    INSERT INTO usage_outbox (batch, tenant_id, occurred_at) SELECT DISTINCT batch, u.tenant_id, moment FROM used u;
  END IF;
  PERFORM budget_audit(json_agg(json_build_object('place', s.place, 'action_type', 'SpendReservationsExpired',
      'entity_type', 'Tenant', 'entity_id', s.tenant_id, 'user_id', 'system', 'actor_type', 'system',
      'changes', json_build_object('before', NULL,
        'after', json_build_object('expired', s.expired, 'charged', s.charged)))),
    array_agg(s.place::integer), array_agg(s.tenant_id), moment)
  FROM (
    SELECT tenant_id, row_number() OVER () AS place, count(*) FILTER (WHERE charge_id IS NULL) AS expired,
      count(*) FILTER (WHERE charge_id IS NOT NULL) AS charged
    FROM unnest(ended) m GROUP BY tenant_id) s;
  IF batch IS NOT NULL THEN PERFORM usage_keep_bills(batch, moment); END IF;
  RETURN json_build_object('swept', cardinality(ended));
END
$$;

REVOKE ALL ON FUNCTION budgets_sweep FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budgets_sweep TO application_manager;
