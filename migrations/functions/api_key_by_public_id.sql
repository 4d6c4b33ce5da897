-- The tenant of a key is unknown before the lookup, so this query bypasses row-level security and returns few columns.
CREATE OR REPLACE FUNCTION api_key_by_public_id(wanted text)
RETURNS TABLE (
  id uuid, secret_sha256 bytea, scopes text[], tenant_id uuid, tenant_status text, application_id integer,
  expires_at timestamptz, revoked_at timestamptz, synthetic_kind text, application_status text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  SELECT k.id, k.secret_sha256, k.scopes, k.tenant_id, t.status, k.application_id, k.expires_at, k.revoked_at,
    k.synthetic_kind, a.status
  FROM public.api_keys k
    LEFT JOIN public.tenants t ON t.id = k.tenant_id
    LEFT JOIN public.applications a ON a.id = k.application_id
  WHERE k.public_id = wanted
$$;

REVOKE ALL ON FUNCTION api_key_by_public_id FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api_key_by_public_id TO application_manager;
