-- Whether a reservation or a plan of a tenant, or of any where it is the one of all tenants, has expired and is not swept yet.
CREATE OR REPLACE FUNCTION budget_has_due(moment timestamptz, tenant uuid) RETURNS boolean
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, public AS $$
DECLARE
  is_any CONSTANT boolean := tenant = all_tenants();
BEGIN
  RETURN EXISTS (
    SELECT FROM budget_reservations b
    WHERE b.state = 'open' AND b.origin <> 'plan' AND b.expires_at <= moment AND (is_any OR b.tenant_id = tenant)
  ) OR EXISTS (
    SELECT FROM budget_plans l
    WHERE l.status IN ('active', 'suspended') AND l.dead_at <= moment AND (is_any OR l.tenant_id = tenant));
END
$$;

REVOKE ALL ON FUNCTION budget_has_due FROM PUBLIC;
