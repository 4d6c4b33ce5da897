CREATE OR REPLACE FUNCTION budget_plan_beat(l budget_plans, moment timestamptz) RETURNS json
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
DECLARE
  heartbeat interval := make_interval(secs => l.heartbeat_seconds);
BEGIN
  UPDATE budget_plans o SET status = 'active', heartbeat_by = moment + heartbeat,
    dead_at = least(moment + 2 * heartbeat, o.expires_at)
  WHERE o.tenant_id = l.tenant_id AND o.id = l.id RETURNING o.* INTO l;
  RETURN json_build_object('verdict', 'done', 'plan', budget_plan_json(l, moment));
END
$$;

REVOKE ALL ON FUNCTION budget_plan_beat FROM PUBLIC;
