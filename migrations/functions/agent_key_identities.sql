-- Keys with which agents can authenticate, for the inventory of identities that are no people.
CREATE OR REPLACE FUNCTION agent_key_identities(at timestamptz, used_since timestamptz, for_rules boolean) RETURNS TABLE (
  id uuid, tenant_id uuid, name text, owner text, owner_is_live boolean, created_at timestamptz,
  expires_at timestamptz, scopes_granted text[], scopes_used text[], is_suspended boolean, shared_with integer
) LANGUAGE sql STABLE AS $$
  SELECT k.id, k.tenant_id, k.kid, a.owner_user_id, o.lives, k.created_at,
    k.valid_until, a.scope_ceiling, u.used, a.status = 'suspended',
    CASE WHEN for_rules THEN (SELECT count(*) FROM public.agent_keys other
      WHERE other.thumbprint = k.thumbprint AND other.id <> k.id AND other.revoked_at IS NULL)::integer ELSE 0 END
  FROM public.agent_keys k JOIN public.agents a ON a.id = k.agent_id
    CROSS JOIN public.account_lives(a.owner_user_id) o
    CROSS JOIN public.capabilities_used('agent:' || k.agent_id, used_since) u
  WHERE k.revoked_at IS NULL AND k.valid_until > at AND a.status <> 'retired'
$$;

REVOKE ALL ON FUNCTION agent_key_identities FROM PUBLIC;
GRANT EXECUTE ON FUNCTION agent_key_identities TO application_manager;
