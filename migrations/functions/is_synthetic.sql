-- Whether usage is of a synthetic principal, or of an agent that one registered.
CREATE OR REPLACE FUNCTION is_synthetic(api_key uuid, agent uuid) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM public.api_keys k WHERE k.id = api_key AND k.synthetic_kind IS NOT NULL)
    OR EXISTS (SELECT FROM public.agents a WHERE a.id = agent AND a.synthetic)
$$;

REVOKE ALL ON FUNCTION is_synthetic FROM PUBLIC;
GRANT EXECUTE ON FUNCTION is_synthetic TO application_manager;
