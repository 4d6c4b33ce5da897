CREATE OR REPLACE FUNCTION sign_in_lives(wanted uuid) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  SELECT EXISTS (SELECT FROM public.account_sessions s WHERE s.id = wanted AND s.ended_at IS NULL
    AND (s.trial_session_id IS NULL
      OR EXISTS (SELECT FROM public.sessions i WHERE i.id = s.trial_session_id AND i.is_active)))
$$;

REVOKE ALL ON FUNCTION sign_in_lives FROM PUBLIC;
GRANT EXECUTE ON FUNCTION sign_in_lives TO application_manager;
