-- The tenant that a transaction speaks for: a tenant's id, '*' for all of them, or nothing, which sees no tenant's row.
CREATE OR REPLACE FUNCTION sees_tenant(tenant uuid) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT current_setting('app.tenant_id', true) = '*' OR tenant::text = current_setting('app.tenant_id', true)
$$;
