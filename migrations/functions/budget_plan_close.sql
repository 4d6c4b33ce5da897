-- Completes or aborts a locked plan. Verdicts: done, same (it was ended so before), calls-open (it cannot be completed).
CREATE OR REPLACE FUNCTION budget_plan_close(p json, l budget_plans, moment timestamptz) RETURNS json
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  ending text := p->>'kind';
  verdict text := CASE l.status WHEN ending THEN 'same' ELSE 'done' END;
BEGIN
  IF ending = 'completed' AND verdict = 'done' AND EXISTS (
    SELECT FROM budget_reservations b
    WHERE b.tenant_id = l.tenant_id AND b.plan_id = l.id AND b.state = 'open' AND b.origin <> 'plan'
  ) THEN
    RETURN json_build_object('verdict', 'calls-open', 'isDue', EXISTS (
      SELECT FROM budget_reservations b WHERE b.tenant_id = l.tenant_id AND b.plan_id = l.id AND b.state = 'open'
        AND b.origin <> 'plan' AND b.expires_at <= moment));
  END IF;
  IF ending = 'aborted' OR verdict = 'done' THEN
    PERFORM budget_plans_end(ARRAY[l.tenant_id], ARRAY[l.id], ending, moment);
    SELECT * INTO l FROM budget_plans o WHERE o.tenant_id = l.tenant_id AND o.id = l.id;
  END IF;
  RETURN json_build_object('verdict', verdict, 'plan', budget_plan_json(l, moment), 'hasCalls', EXISTS (
    SELECT FROM budget_reservations b
    WHERE b.tenant_id = l.tenant_id AND b.plan_id = l.id AND b.state = 'open' AND b.origin = 'api'));
END
$$;

REVOKE ALL ON FUNCTION budget_plan_close FROM PUBLIC;
