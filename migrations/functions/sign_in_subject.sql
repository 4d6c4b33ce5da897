CREATE OR REPLACE FUNCTION sign_in_subject(wanted uuid)
RETURNS TABLE (account_id uuid, tenant_id uuid, capabilities text[], expires_at timestamptz, live boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  SELECT a.id, a.tenant_id, a.capabilities, s.expires_at, a.live AND public.sign_in_lives(s.id)
  FROM public.account_sessions s, public.account_subject(s.account_id) a
  WHERE s.id = wanted
$$;

REVOKE ALL ON FUNCTION sign_in_subject FROM PUBLIC;
GRANT EXECUTE ON FUNCTION sign_in_subject TO application_manager;
