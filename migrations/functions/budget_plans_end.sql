-- Ends locked plans: releases their remaining budget and the reservations of their open API calls, which may settle
-- late. Gateway calls are in progress and keep their reservations until they settle. Calls that another transaction has
-- locked are skipped, because calls are locked before plans: a caller that must not miss any locks them beforehand.
CREATE OR REPLACE FUNCTION budget_plans_end(tenants uuid[], ids uuid[], ending text, moment timestamptz) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  calls budget_movement[]; rests bigint[];
BEGIN
  WITH open_calls AS MATERIALIZED (
    SELECT b.tenant_id, b.id FROM budget_reservations b
    WHERE b.tenant_id = ANY (tenants) AND b.plan_id = ANY (ids) AND b.state = 'open' AND b.origin = 'api'
    FOR UPDATE SKIP LOCKED)
  SELECT array_agg(ROW(c.tenant_id, c.id, true, NULL, 0, 0)::budget_movement) INTO calls FROM open_calls c;
  PERFORM budget_lock_counters(tenants || all_tenants(), ARRAY(
    SELECT unnest(l.counter_ids || l.id) FROM budget_plans l WHERE l.tenant_id = ANY (tenants) AND l.id = ANY (ids)
    UNION
    SELECT unnest(b.counter_ids) FROM unnest(calls) c
    JOIN budget_reservations b ON b.tenant_id = c.tenant_id AND b.id = c.id), moment);
  rests := budget_plan_rests(tenants, ids);
  UPDATE budget_plans l SET status = ending, ended_at = moment
  WHERE l.tenant_id = ANY (tenants) AND l.id = ANY (ids) AND l.status IN ('active', 'suspended');
  PERFORM budget_plan_hold(tenants, ids, rests);
  IF calls IS NOT NULL THEN
    PERFORM budget_move(moment, calls);
  END IF;
  UPDATE budget_reservations b SET state = CASE ending WHEN 'expired' THEN 'expired' ELSE 'released' END, closed_at = moment
  WHERE b.tenant_id = ANY (tenants) AND b.id = ANY (ids || ARRAY(SELECT c.id FROM unnest(calls) c)) AND b.state = 'open';
END
$$;

REVOKE ALL ON FUNCTION budget_plans_end FROM PUBLIC;
