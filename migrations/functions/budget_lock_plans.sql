-- Locks plans. To avoid deadlocks, every transaction locks reservations first, then plans, then counters, each in the
-- order of their keys.
CREATE OR REPLACE FUNCTION budget_lock_plans(tenants uuid[], ids uuid[]) RETURNS void
LANGUAGE plpgsql VOLATILE SET search_path = pg_catalog, public AS $$
BEGIN
  PERFORM FROM budget_plans l WHERE l.tenant_id = ANY (tenants) AND l.id = ANY (ids)
  ORDER BY l.tenant_id, l.id FOR UPDATE;
END
$$;

REVOKE ALL ON FUNCTION budget_lock_plans FROM PUBLIC;
