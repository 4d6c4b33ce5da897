-- A user of a workload provider, `idp:<providerId>:<sub>`, as grants name it: `<issuer>|<sub>`. Null where the provider no
-- longer lets it in.
CREATE OR REPLACE FUNCTION workload_subject(subject text) RETURNS text
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  SELECT p.issuer || '|' || substr(subject, 42) FROM public.identity_providers p
  WHERE subject LIKE 'idp:%' AND p.id::text = substr(subject, 5, 36) AND p.kind = 'workload' AND p.status = 'active'
    AND substr(subject, 42) = ANY (p.subjects)
$$;

REVOKE ALL ON FUNCTION workload_subject FROM PUBLIC;
GRANT EXECUTE ON FUNCTION workload_subject TO application_manager;
