-- The tenant of a token is unknown before the lookup, so this query bypasses row-level security.
CREATE OR REPLACE FUNCTION account_session_by_token(wanted bytea)
RETURNS TABLE (
  session_id uuid, account_id uuid, tenant_id uuid, tenant_status text, account_status text, capabilities text[],
  last_used_at timestamptz, expires_at timestamptz, is_ended boolean, replaced_at timestamptz,
  application_id integer, account_expires_at timestamptz)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  SELECT s.id, a.id, a.tenant_id, t.status, a.status,
    ARRAY(
      SELECT DISTINCT c FROM public.account_roles ar
      JOIN public.roles r ON r.id = ar.role_id
      JOIN public.applications m ON m.id = r.application_id AND m.slug = 'application-manager',
      unnest(r.capabilities) c
      WHERE ar.account_id = a.id ORDER BY c),
    s.last_used_at, s.expires_at,
    s.ended_at IS NOT NULL OR (s.trial_session_id IS NOT NULL
      AND NOT EXISTS (SELECT FROM public.sessions i WHERE i.id = s.trial_session_id AND i.is_active)),
    k.replaced_at, a.application_id, a.expires_at
  FROM public.account_session_tokens k
  JOIN public.account_sessions s ON s.id = k.session_id
  JOIN public.accounts a ON a.id = s.account_id
  LEFT JOIN public.tenants t ON t.id = a.tenant_id
  WHERE k.sha256 = wanted
$$;

REVOKE ALL ON FUNCTION account_session_by_token FROM PUBLIC;
GRANT EXECUTE ON FUNCTION account_session_by_token TO application_manager;
