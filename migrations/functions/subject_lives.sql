CREATE OR REPLACE FUNCTION subject_lives(subject text) RETURNS boolean
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  SELECT CASE
    WHEN subject LIKE 'account:%' THEN
      coalesce((SELECT s.live FROM public.account_subject(substr(subject, 9)::uuid) s), false)
    WHEN subject LIKE 'idp:%' THEN public.workload_subject(subject) IS NOT NULL
    ELSE true END
$$;

REVOKE ALL ON FUNCTION subject_lives FROM PUBLIC;
GRANT EXECUTE ON FUNCTION subject_lives TO application_manager;
