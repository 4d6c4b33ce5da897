-- Whether the transaction may see a tenant's rows: `app.tenant_id` is a tenant's id, '*' for all, or unset for none.
CREATE OR REPLACE FUNCTION sees_tenant(tenant uuid) RETURNS boolean LANGUAGE sql STABLE PARALLEL SAFE AS $$
  SELECT current_setting('app.tenant_id', true) = '*' OR tenant::text = current_setting('app.tenant_id', true)
$$;
