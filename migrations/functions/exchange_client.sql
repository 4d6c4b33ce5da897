CREATE OR REPLACE FUNCTION exchange_client(wanted uuid, wanted_kid text, credential uuid, session uuid, external text, moment timestamptz)
RETURNS TABLE (
  id uuid, tenant_id uuid, tenant_status text, status text, scope_ceiling text[], template_ceiling text[],
  max_credential_ttl_seconds integer, per_turn_budget bigint, allowed_task_types text[], default_task_type text,
  version text, key_id uuid, algorithm text, public_key_pem text, valid_from timestamptz, valid_until timestamptz,
  key_revoked_at timestamptz, application_id integer, expires_at timestamptz, synthetic boolean, created_by text,
  subject jsonb, grants jsonb, compromised_key_ids text[])
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  SELECT c.*, s.subject, coalesce((
    SELECT jsonb_agg(jsonb_build_object('id', g.id, 'scopes', g.scopes, 'maxDepth', g.max_depth,
      'expiresAt', (extract(epoch FROM g.expires_at) * 1000)::bigint) ORDER BY g.id DESC)
    FROM (
      SELECT * FROM public.delegation_grants d
      WHERE d.agent_id = wanted AND d.revoked_at IS NULL AND (d.expires_at IS NULL OR d.expires_at > moment)
        AND (d.subject_type, d.subject) = (SELECT
          CASE split_part(n, ':', 1) WHEN 'agent' THEN 'agent' WHEN 'account' THEN 'user' ELSE 'external' END,
          CASE WHEN split_part(n, ':', 1) IN ('agent', 'account') THEN split_part(n, ':', 2)
            ELSE coalesce(external, public.workload_subject(n)) END
          FROM (SELECT coalesce(s.subject->>'name', external)) AS named (n))
      ORDER BY d.id DESC LIMIT 20) g), '[]'), public.compromised_key_ids()
  FROM public.agent_client(wanted, wanted_kid) c, (SELECT public.exchange_subject(credential, session)) AS s (subject)
$$;

REVOKE ALL ON FUNCTION exchange_client FROM PUBLIC;
GRANT EXECUTE ON FUNCTION exchange_client TO application_manager;
