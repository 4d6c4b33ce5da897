-- A sign-in gives an e-mail address and need not name a tenant, so this query bypasses row-level security. Each account found
-- costs the check of a password. `wanted` is what addresses are compared by (`emailKey`).
CREATE OR REPLACE FUNCTION accounts_by_email(wanted text, tenant uuid)
RETURNS TABLE (
  id uuid, password_hash text, tenant_id uuid, tenant_status text, status text, trial_user_id integer,
  expires_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  SELECT a.id, a.password_hash, a.tenant_id, t.status, a.status, a.trial_user_id, a.expires_at
  FROM public.accounts a LEFT JOIN public.tenants t ON t.id = a.tenant_id
  WHERE a.email_key = wanted AND (tenant IS NULL OR a.tenant_id = tenant)
  ORDER BY a.id LIMIT 10
$$;

REVOKE ALL ON FUNCTION accounts_by_email FROM PUBLIC;
GRANT EXECUTE ON FUNCTION accounts_by_email TO application_manager;
