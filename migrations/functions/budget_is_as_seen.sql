-- Whether what a change acts on has the version that its caller has read, which then lasts until the transaction ends. Only the
-- functions of plans lock a plan's own reservation, after the plan.
CREATE OR REPLACE FUNCTION budget_is_as_seen(change text, p json) RETURNS boolean
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  own uuid := (p->>'id')::uuid;
BEGIN
  IF change = 'plan' THEN
    PERFORM budget_lock_plans(ARRAY[(p->>'tenant')::uuid], ARRAY[own]);
    RETURN coalesce(budget_plan_version((p->>'tenant')::uuid, own) = p->>'seen', false);
  END IF;
  PERFORM FROM budget_reservations b WHERE b.id = own AND b.origin <> 'plan' FOR UPDATE;
  RETURN EXISTS (SELECT FROM budget_reservations b WHERE b.id = own AND b.xmin::text = p->>'seen');
END
$$;

REVOKE ALL ON FUNCTION budget_is_as_seen FROM PUBLIC;
