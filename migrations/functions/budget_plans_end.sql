-- Ends locked plans: releases their remaining budget and the reservations of their open API calls, which may settle
-- late. Gateway calls are in progress and keep their reservations until they settle. Calls that another transaction has
-- locked are skipped, because calls are locked before plans: a caller that must not miss any locks them beforehand.
CREATE OR REPLACE FUNCTION budget_plans_end(tenants uuid[], ids uuid[], ending text, moment timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  call_tenants uuid[]; calls uuid[]; rests bigint[];
BEGIN
  WITH open_calls AS MATERIALIZED (
    SELECT b.tenant_id, b.id FROM budget_reservations b
    WHERE b.tenant_id = ANY (tenants) AND b.plan_id = ANY (ids) AND b.state = 'open' AND b.origin = 'api'
    FOR UPDATE SKIP LOCKED)
  SELECT array_agg(c.tenant_id), array_agg(c.id) INTO call_tenants, calls FROM open_calls c;
  PERFORM budget_lock_counters(tenants || '00000000-0000-0000-0000-000000000000'::uuid, ARRAY(
    SELECT unnest(l.counter_ids || l.id) FROM budget_plans l WHERE l.tenant_id = ANY (tenants) AND l.id = ANY (ids)
    UNION
    SELECT unnest(b.counter_ids) FROM budget_reservations b WHERE b.tenant_id = ANY (call_tenants) AND b.id = ANY (calls)),
    moment);
  rests := budget_plan_rests(tenants, ids);
  UPDATE budget_plans l SET status = ending, ended_at = moment
  WHERE l.tenant_id = ANY (tenants) AND l.id = ANY (ids) AND l.status IN ('active', 'suspended');
  PERFORM budget_plan_hold(tenants, ids, rests);
  IF calls IS NOT NULL THEN
    PERFORM budget_move(moment, call_tenants, calls, array_fill(true, ARRAY[cardinality(calls)]),
      array_fill(0::bigint, ARRAY[cardinality(calls)]), array_fill(0::bigint, ARRAY[cardinality(calls)]),
      array_fill(0, ARRAY[cardinality(calls)]));
  END IF;
  UPDATE budget_reservations b SET state = CASE ending WHEN 'expired' THEN 'expired' ELSE 'released' END, closed_at = moment
  WHERE b.tenant_id = ANY (tenants || call_tenants) AND b.id = ANY (ids || calls) AND b.state = 'open';
END
$$;

REVOKE ALL ON FUNCTION budget_plans_end FROM PUBLIC;
