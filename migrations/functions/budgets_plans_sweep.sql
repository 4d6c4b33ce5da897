-- Suspends plans that missed a heartbeat, and ends those that are dead. With `waiting` it only ends plans, waits for
-- transactions that have them locked, and covers one tenant if one is given.
CREATE OR REPLACE FUNCTION budgets_plans_sweep(p json) RETURNS json
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan SET enable_material = off AS $$
DECLARE
  moment timestamptz := budget_moment((p->>'now')::timestamptz);
  only_tenant uuid := p->>'tenant';
  most integer := p->>'most';
  is_waiting boolean := (p->>'waiting')::boolean;
  silent_tenants uuid[]; silent uuid[]; tenants uuid[]; ids uuid[];
BEGIN
  IF is_waiting THEN
    SELECT array_agg(d.tenant_id), array_agg(d.id) INTO tenants, ids FROM (
      SELECT l.tenant_id, l.id FROM budget_plans l
      WHERE l.status IN ('active', 'suspended') AND l.dead_at <= moment AND (only_tenant IS NULL OR l.tenant_id = only_tenant)
      ORDER BY l.dead_at LIMIT most) d;
    IF ids IS NULL THEN RETURN json_build_object('swept', 0); END IF;
    PERFORM FROM budget_reservations b
    WHERE b.tenant_id = ANY (tenants) AND b.plan_id = ANY (ids) AND b.state = 'open' AND b.origin = 'api'
    ORDER BY b.tenant_id, b.id FOR UPDATE;
    PERFORM budget_lock_plans(tenants, ids);
    -- Some may have ended or been revived while this waited.
    SELECT array_agg(l.tenant_id), array_agg(l.id) INTO tenants, ids FROM budget_plans l
    WHERE l.tenant_id = ANY (tenants) AND l.id = ANY (ids) AND l.status IN ('active', 'suspended') AND l.dead_at <= moment;
  ELSE
    -- An idle service calls this each second, and planning what follows takes a session longer than this.
    IF NOT EXISTS (SELECT FROM budget_plans l WHERE l.status = 'active' AND l.heartbeat_by <= moment) AND NOT EXISTS (
      SELECT FROM budget_plans l WHERE l.status IN ('active', 'suspended') AND l.dead_at <= moment) THEN
      RETURN json_build_object('swept', 0);
    END IF;
    WITH due AS MATERIALIZED (
      SELECT l.tenant_id, l.id FROM budget_plans l
      WHERE l.status = 'active' AND l.heartbeat_by <= moment AND l.dead_at > moment
        AND (only_tenant IS NULL OR l.tenant_id = only_tenant)
      ORDER BY l.heartbeat_by LIMIT most FOR UPDATE SKIP LOCKED
    ), suspended AS (
      UPDATE budget_plans l SET status = 'suspended' FROM due
      WHERE l.tenant_id = due.tenant_id AND l.id = due.id RETURNING l.tenant_id, l.id)
    SELECT array_agg(s.tenant_id), array_agg(s.id) INTO silent_tenants, silent FROM suspended s;
    WITH due AS MATERIALIZED (
      SELECT l.tenant_id, l.id FROM budget_plans l
      WHERE l.status IN ('active', 'suspended') AND l.dead_at <= moment AND (only_tenant IS NULL OR l.tenant_id = only_tenant)
      ORDER BY l.dead_at LIMIT most FOR UPDATE SKIP LOCKED)
    SELECT array_agg(d.tenant_id), array_agg(d.id) INTO tenants, ids FROM due d;
  END IF;
  IF ids IS NOT NULL THEN PERFORM budget_plans_end(tenants, ids, 'expired', moment); END IF;
  PERFORM budget_audit(json_agg(json_build_object('place', s.place, 'action_type', s.action, 'entity_type', 'Plan',
      'entity_id', s.id, 'user_id', 'system', 'actor_type', 'system',
      'changes', json_build_object('before', NULL, 'after', budget_plan_json(l, moment)))),
    array_agg(s.place), array_agg(s.tenant), moment)
  FROM (
    SELECT e.tenant, e.id, e.action, row_number() OVER ()::integer AS place FROM (
      SELECT u.tenant, u.id, 'PlanSuspended' AS action FROM unnest(silent_tenants, silent) AS u(tenant, id)
      UNION ALL SELECT u.tenant, u.id, 'PlanExpired' FROM unnest(tenants, ids) AS u(tenant, id)) e) s
  JOIN budget_plans l ON l.tenant_id = s.tenant AND l.id = s.id;
  RETURN json_build_object('swept', coalesce(cardinality(silent), 0) + coalesce(cardinality(ids), 0));
END
$$;

REVOKE ALL ON FUNCTION budgets_plans_sweep FROM PUBLIC;
GRANT EXECUTE ON FUNCTION budgets_plans_sweep TO application_manager;
