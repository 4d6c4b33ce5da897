-- Decides the closings of a batch in the order of their reservations, which it locks. `replayed` are the places of those whose
-- keys were used. `movements` are the reservations that are done, but for one that is returned.
CREATE OR REPLACE FUNCTION budget_decide_closings(moment timestamptz, requests budget_closing[], replayed integer[],
  OUT verdicts budget_closing_verdict[], OUT movements budget_movement[])
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  v budget_closing_verdict; last budget_movement; last_kind text; replay integer; r record;
BEGIN
  verdicts := array_fill(ROW('missing', false, false)::budget_closing_verdict, ARRAY[coalesce(cardinality(requests), 0)]);
  movements := '{}';
  FOR r IN
    SELECT q.ordinality AS place, q.id, q.kind, q.origin, q.principal, q.unrestricted, q.amount, q.tokens, q.charge_id,
      b.tenant_id, b.plan_id, b.transferred->>'charge' AS taken_for, b.state, b.origin AS is_of, b.created_by,
      b.tokens AS reserved_tokens, b.actual, b.actual_tokens,
      b.plan_id IS NOT NULL AND (
        SELECT budget_plan_status(l.status, l.heartbeat_by, l.dead_at, moment) NOT IN ('active', 'suspended')
        FROM budget_plans l WHERE l.tenant_id = b.tenant_id AND l.id = b.plan_id) AS is_after_plan
    FROM unnest(requests) WITH ORDINALITY q
    JOIN budget_reservations b ON b.id = q.id AND (q.tenant_id IS NULL OR b.tenant_id = q.tenant_id)
    WHERE b.origin <> 'plan'
    ORDER BY b.tenant_id, b.id, q.ordinality FOR UPDATE OF b
  LOOP
    CONTINUE WHEN r.place = ANY (replayed);
    v := ROW(CASE
      WHEN last.id = r.id THEN
        CASE WHEN last_kind = r.kind AND (r.kind = 'release' OR (last.amount = r.amount
          AND last.tokens = coalesce(r.tokens, r.reserved_tokens)))
          THEN 'same' ELSE 'conflict' END
      WHEN r.created_by <> r.principal AND NOT r.unrestricted THEN 'foreign'
      WHEN r.is_of <> r.origin THEN 'managed'
      WHEN r.kind = 'return' AND (r.state <> 'open' OR r.taken_for IS DISTINCT FROM r.charge_id::text) THEN 'managed'
      WHEN r.kind = 'settle' AND r.state = 'settled' THEN
        CASE WHEN r.actual = r.amount AND coalesce(r.tokens = r.actual_tokens, true) THEN 'same' ELSE 'conflict' END
      WHEN r.kind = 'settle' AND r.state IN ('held', 'denied') THEN 'unopened'
      WHEN r.kind = 'release' AND r.state = 'settled' THEN 'conflict'
      WHEN r.kind = 'release' AND r.state IN ('released', 'expired', 'denied') THEN 'same'
      ELSE 'done' END, coalesce(r.is_after_plan, false), false);
    IF v.verdict = 'done' AND r.kind = 'return' THEN
      -- A plan that ends from now on releases what was returned; under one that has ended, it is released here.
      PERFORM budget_lock_plans(ARRAY[r.tenant_id], ARRAY[r.plan_id]);
      v.is_returned := NOT EXISTS (
        SELECT FROM budget_plans l WHERE l.tenant_id = r.tenant_id AND l.id = r.plan_id
          AND budget_plan_status(l.status, l.heartbeat_by, l.dead_at, moment) NOT IN ('active', 'suspended'));
    END IF;
    verdicts[r.place] := v;
    IF v.verdict = 'done' AND NOT v.is_returned THEN
      last := CASE r.kind
        WHEN 'settle' THEN ROW(r.tenant_id, r.id, r.state = 'open', r.charge_id, r.amount, coalesce(r.tokens, r.reserved_tokens))
        ELSE ROW(r.tenant_id, r.id, r.state = 'open', NULL, 0, 0) END;
      last_kind := r.kind;
      movements := movements || last;
    END IF;
  END LOOP;

  -- Only the functions of plans lock a plan's own reservation, after the plan.
  IF EXISTS (SELECT FROM unnest(verdicts) u WHERE u.verdict = 'missing') THEN
    FOR r IN
      SELECT q.ordinality AS place, b.created_by <> q.principal AND NOT q.unrestricted AS is_foreign
      FROM unnest(requests) WITH ORDINALITY q
      JOIN budget_reservations b ON b.id = q.id AND (q.tenant_id IS NULL OR b.tenant_id = q.tenant_id)
      WHERE b.origin = 'plan'
    LOOP
      verdicts[r.place].verdict := CASE WHEN r.is_foreign THEN 'foreign' ELSE 'managed-by-plan' END;
    END LOOP;
  END IF;
  FOREACH replay IN ARRAY replayed LOOP verdicts[replay].verdict := 'replay'; END LOOP;
END
$$;

REVOKE ALL ON FUNCTION budget_decide_closings FROM PUBLIC;
