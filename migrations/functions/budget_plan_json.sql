-- Plans as the service reads them; sums are text, since a double may lose digits.
CREATE OR REPLACE FUNCTION budget_plan_json(l budget_plans, moment timestamptz) RETURNS json
LANGUAGE sql STABLE SET search_path = pg_catalog, public AS $$
  SELECT json_build_object('id', l.id, 'tenantId', l.tenant_id, 'agentId', l.agent_id,
    'applicationId', l.application_id, 'taskType', l.task_type, 'name', l.name, 'status', s.status,
    'budget', l.budget::text, 'spent', k.spent::text, 'reserved', k.reserved::text,
    'remaining', budget_plan_rest(s.status, l.budget, k.spent, k.reserved)::text,
    'heartbeatSeconds', l.heartbeat_seconds, 'heartbeatBy', l.heartbeat_by, 'expiresAt', l.expires_at,
    'metadata', l.metadata, 'createdAt', l.created_at, 'createdBy', l.created_by,
    'endedAt', CASE WHEN s.status NOT IN ('active', 'suspended') THEN coalesce(l.ended_at, l.dead_at) END)
  FROM budget_counters k,
    (SELECT budget_plan_status(l.status, l.heartbeat_by, l.dead_at, moment) AS status) s
  WHERE k.tenant_id = l.tenant_id AND k.id = l.id
$$;

REVOKE ALL ON FUNCTION budget_plan_json FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budget_plan_json TO application_manager;
