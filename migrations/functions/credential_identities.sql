-- Credentials of active agents that are still valid, for the inventory of identities that are no people.
CREATE OR REPLACE FUNCTION credential_identities(at timestamptz, used_since timestamptz, for_rules boolean) RETURNS TABLE (
  id uuid, tenant_id uuid, name text, owner text, owner_is_live boolean, created_at timestamptz,
  expires_at timestamptz, scopes_granted text[]
) LANGUAGE sql STABLE AS $$
  SELECT c.id, c.tenant_id, c.subject, a.owner_user_id, o.lives, c.issued_at,
    c.expires_at, c.scopes
  FROM public.agent_credentials c JOIN public.agents a ON a.id = c.agent_id
    CROSS JOIN public.account_lives(a.owner_user_id) o
  WHERE c.revoked_at IS NULL AND c.expires_at > at AND a.status = 'active'
$$;

REVOKE ALL ON FUNCTION credential_identities FROM PUBLIC;
GRANT EXECUTE ON FUNCTION credential_identities TO application_manager;
