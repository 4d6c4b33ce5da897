CREATE OR REPLACE FUNCTION agent_credential_state(wanted uuid)
RETURNS TABLE (
  id uuid, tenant_id uuid, agent_id uuid, grant_id uuid, subject text, actors uuid[], ancestor_ids uuid[],
  max_depth integer, scopes text[], issued_at timestamptz, expires_at timestamptz, scope_ceiling text[],
  chain_ceilings jsonb, per_turn_budget bigint, allowed_task_types text[], default_task_type text, live boolean,
  compromised_key_ids text[], application_id integer, synthetic boolean)
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  SELECT c.id, c.tenant_id, c.agent_id, c.grant_id, c.subject, c.actors, c.ancestor_ids, c.max_depth, c.scopes,
    c.issued_at, c.expires_at, a.scope_ceiling,
    CASE WHEN a.template_ceiling IS NULL THEN '[]'::jsonb ELSE jsonb_build_array(a.template_ceiling) END ||
    CASE WHEN c.grant_id IS NULL THEN '[]'::jsonb ELSE coalesce((
      SELECT jsonb_agg(ceiling) FROM (
        SELECT to_jsonb(bound.ceiling) FROM public.agent_credentials one
        JOIN public.bounded_agents before ON before.id = one.agent_id,
        LATERAL (VALUES (before.scope_ceiling), (before.template_ceiling)) AS bound (ceiling)
        WHERE one.id = ANY (c.ancestor_ids) AND bound.ceiling IS NOT NULL
        UNION ALL
        SELECT to_jsonb(s.capabilities) FROM public.account_subject(
          CASE WHEN c.subject LIKE 'account:%' THEN substr(c.subject, 9)::uuid END) s) AS chain (ceiling)), '[]') END,
    a.per_turn_budget, a.allowed_task_types, a.default_task_type,
    t.status = 'active' AND public.subject_lives(c.subject) AND (
      SELECT count(*) = 1 + cardinality(c.ancestor_ids) FROM public.agent_credentials one
      JOIN public.agents owner ON owner.id = one.agent_id AND owner.status = 'active'
      LEFT JOIN public.agent_keys k ON k.id = one.agent_key_id
      LEFT JOIN public.delegation_grants g ON g.id = one.grant_id
      WHERE one.id = ANY (c.ancestor_ids || c.id) AND one.revoked_at IS NULL
        AND (one.session_id IS NULL OR public.sign_in_lives(one.session_id))
        AND k.credentials_revoked IS NOT TRUE AND g.revoked_at IS NULL),
    public.compromised_key_ids(), a.application_id, a.synthetic
  FROM public.agent_credentials c
  JOIN public.bounded_agents a ON a.id = c.agent_id
  JOIN public.tenants t ON t.id = c.tenant_id
  WHERE c.id = wanted
$$;

REVOKE ALL ON FUNCTION agent_credential_state FROM PUBLIC;
GRANT EXECUTE ON FUNCTION agent_credential_state TO application_manager;
