-- The subject of a token exchange: a credential, or the sign-in of an account.
CREATE OR REPLACE FUNCTION exchange_subject(credential uuid, session uuid) RETURNS jsonb
LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
  SELECT jsonb_build_object('name', c.subject, 'tenantId', c.tenant_id, 'credentialId', c.id, 'agentId', c.agent_id,
    'actors', c.actors, 'ancestorIds', c.ancestor_ids, 'maxDepth', c.max_depth, 'scopes', c.scopes,
    'ceilings', jsonb_build_array(c.scope_ceiling) || c.chain_ceilings,
    'expiresAt', (extract(epoch FROM c.expires_at) * 1000)::bigint, 'isLive', c.live)
  FROM public.agent_credential_state(credential) c
  UNION ALL
  SELECT jsonb_build_object('name', 'account:' || s.account_id, 'tenantId', s.tenant_id, 'credentialId', NULL,
    'agentId', NULL, 'actors', '[]'::jsonb, 'ancestorIds', '[]'::jsonb, 'maxDepth', 32, 'scopes', s.capabilities,
    'ceilings', '[]'::jsonb, 'expiresAt', (extract(epoch FROM s.expires_at) * 1000)::bigint, 'isLive', s.live)
  FROM public.sign_in_subject(session) s
$$;

REVOKE ALL ON FUNCTION exchange_subject FROM PUBLIC;
GRANT EXECUTE ON FUNCTION exchange_subject TO application_manager;
