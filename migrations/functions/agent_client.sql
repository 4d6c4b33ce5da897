CREATE OR REPLACE FUNCTION agent_client(wanted uuid, wanted_kid text)
RETURNS TABLE (
  id uuid, tenant_id uuid, tenant_status text, status text, scope_ceiling text[], template_ceiling text[],
  max_credential_ttl_seconds integer, per_turn_budget bigint, allowed_task_types text[], default_task_type text,
  version text, key_id uuid, algorithm text, public_key_pem text, valid_from timestamptz, valid_until timestamptz,
  key_revoked_at timestamptz, application_id integer, expires_at timestamptz,
  synthetic boolean, created_by text)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  SELECT a.id, a.tenant_id, t.status, a.status, a.scope_ceiling, a.template_ceiling, a.max_credential_ttl_seconds,
    a.per_turn_budget, a.allowed_task_types, a.default_task_type, a.version,
    k.id, k.algorithm, k.public_key_pem, k.valid_from, k.valid_until, k.revoked_at, a.application_id, a.expires_at,
    a.synthetic, a.created_by
  FROM public.bounded_agents a JOIN public.tenants t ON t.id = a.tenant_id
  LEFT JOIN public.agent_keys k ON k.agent_id = a.id AND k.kid = wanted_kid
  WHERE a.id = wanted
$$;

REVOKE ALL ON FUNCTION agent_client FROM PUBLIC;
GRANT EXECUTE ON FUNCTION agent_client TO application_manager;
