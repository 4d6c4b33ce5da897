-- Refunds a part of a charge, on the counters that it was charged to. The refund raises what the plan has left, unless
-- the plan has ended.
CREATE OR REPLACE FUNCTION budgets_refund(p json) RETURNS json
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off AS $$
DECLARE
  moment timestamptz := budget_moment((p->>'now')::timestamptz);
  given bigint := p->>'amount';
  c budget_entries;
  e budget_entries;
  refunded bigint;
  plan uuid;
  held uuid[] := '{}';
  rests bigint[];
  written_by bigint;
BEGIN
  SELECT * INTO c FROM budget_entries x
  WHERE x.id = (p->>'charge')::uuid AND x.kind = 'charge' AND (p->>'tenant' IS NULL OR x.tenant_id = (p->>'tenant')::uuid);
  IF NOT FOUND THEN RETURN json_build_object('verdict', 'missing'); END IF;
  SELECT r.plan_id INTO plan FROM budget_reservations r
  WHERE r.tenant_id = c.tenant_id AND r.id = c.reservation_id FOR UPDATE;
  IF NOT (p->>'system')::boolean AND have_one_holder(p->>'principal', c.created_by) THEN
    RETURN json_build_object('verdict', 'own');
  END IF;
  SELECT coalesce(-sum(x.amount), 0) INTO refunded FROM budget_entries x
  WHERE x.tenant_id = c.tenant_id AND x.charge_id = c.id AND x.kind = 'refund';
  IF refunded + given > c.amount THEN
    RETURN json_build_object('verdict', 'exceeds', 'refundable', (c.amount - refunded)::text);
  END IF;
  IF plan IS NOT NULL THEN
    PERFORM budget_lock_plans(ARRAY[c.tenant_id], ARRAY[plan]);
    SELECT l.counter_ids INTO held FROM budget_plans l WHERE l.tenant_id = c.tenant_id AND l.id = plan;
  END IF;
  PERFORM budget_lock_counters(
    ARRAY[c.tenant_id, all_tenants()], c.counter_ids || held, moment);
  IF plan IS NOT NULL THEN rests := budget_plan_rests(ARRAY[c.tenant_id], ARRAY[plan]); END IF;
  UPDATE budget_counters k SET
    spent = k.spent - CASE WHEN k.ring IS NULL OR m.slot > 0 THEN given ELSE 0 END,
    use_level = budget_counter_level(k.spent - given, k.cap_limit),
    ring = CASE WHEN m.slot > 0 THEN k.ring[:m.slot - 1] || (k.ring[m.slot] - given) || k.ring[m.slot + 1:] ELSE k.ring END
  FROM (
    SELECT o.tenant_id, o.id, (cardinality(o.ring) - (o.ring_head - t.bucket))::integer AS slot
    FROM unnest(c.counter_ids, c.buckets) AS t(counter, bucket)
    JOIN budget_counters o ON o.id = t.counter
      AND o.tenant_id IN (c.tenant_id, all_tenants())
    WHERE o.unit = 'usd'
  ) m WHERE k.tenant_id = m.tenant_id AND k.id = m.id;
  IF plan IS NOT NULL THEN
    -- A charge on counters that the plan no longer reserves on is refunded there, and must not raise what the plan has
    -- left.
    UPDATE budget_plans l SET budget = greatest(l.budget - given, 0)
    WHERE l.tenant_id = c.tenant_id AND l.id = plan AND NOT c.counter_ids @> l.counter_ids;
    PERFORM budget_plan_hold(ARRAY[c.tenant_id], ARRAY[plan], rests);
  END IF;
  -- Its own row counts under the dimensions of the charge, whose row retention may have dropped.
  written_by := nextval('usage_batches');
  INSERT INTO usage_rows (tenant_id, reservation_id, charge_id, agent_id, plan_id, api_key_id, occurred_at, batch, cost,
    application_id, method, created_by, user_id, task_type, operation, dialect, model, model_served, provider,
    synthetic)
  SELECT r.tenant_id, r.id, c.id, r.agent_id, r.plan_id, r.api_key_id, moment, written_by, -given, r.application_id,
    'refunded', p->>'principal', r.user_id, r.task_type, u.operation, u.dialect, coalesce(r.model, u.model),
    u.model_served, coalesce(u.provider, r.provider), is_synthetic(r.api_key_id, r.agent_id)
  FROM budget_reservations r
  LEFT JOIN usage_rows u ON u.tenant_id = c.tenant_id AND u.occurred_at = c.occurred_at AND u.charge_id = c.id
  WHERE r.tenant_id = c.tenant_id AND r.id = c.reservation_id;
  INSERT INTO usage_outbox (batch, tenant_id, occurred_at) VALUES (written_by, c.tenant_id, moment);
  PERFORM budget_audit(p->'entries', '{1}', ARRAY[c.tenant_id], moment);
  INSERT INTO budget_entries (tenant_id, id, reservation_id, kind, charge_id, amount, tokens, requests, reason,
    occurred_at, created_by, counter_ids, buckets)
  VALUES (c.tenant_id, (p->>'id')::uuid, c.reservation_id, 'refund', c.id, -given, 0, 0, p->>'reason',
    coalesce(usage_keep_bills(written_by, moment), moment), p->>'principal', c.counter_ids, c.buckets)
  RETURNING * INTO e;
  RETURN json_build_object('verdict', 'done', 'refund', to_json(e));
END
$$;

REVOKE ALL ON FUNCTION budgets_refund FROM PUBLIC;
