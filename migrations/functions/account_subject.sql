-- An account as the subject that an agent acts for. Read again at every exchange and at every check of a credential
-- minted for the account.
CREATE OR REPLACE FUNCTION account_subject(wanted uuid)
RETURNS TABLE (id uuid, tenant_id uuid, live boolean, capabilities text[])
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  SELECT a.id, a.tenant_id, a.status = 'active' AND coalesce(t.status = 'active', true)
    AND coalesce(a.expires_at > statement_timestamp(), true), ARRAY(
    SELECT DISTINCT c FROM public.account_roles ar
    JOIN public.roles r ON r.id = ar.role_id
    JOIN public.applications m ON m.id = r.application_id AND m.slug = 'application-manager',
    unnest(r.capabilities) c
    WHERE ar.account_id = a.id ORDER BY c)
  FROM public.accounts a LEFT JOIN public.tenants t ON t.id = a.tenant_id
  WHERE a.id = wanted
$$;

REVOKE ALL ON FUNCTION account_subject FROM PUBLIC;
GRANT EXECUTE ON FUNCTION account_subject TO application_manager;
