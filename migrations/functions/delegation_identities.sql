-- Delegation grants that still hold, for the inventory of identities that are no people.
CREATE OR REPLACE FUNCTION delegation_identities(at timestamptz, used_since timestamptz, for_rules boolean) RETURNS TABLE (
  id uuid, tenant_id uuid, name text, owner text, owner_is_live boolean, created_at timestamptz,
  last_used_at timestamptz, expires_at timestamptz, scopes_granted text[], is_suspended boolean
) LANGUAGE sql STABLE AS $$
  SELECT d.id, d.tenant_id, d.reason, d.subject,
    CASE d.subject_type
      WHEN 'user' THEN o.lives
      WHEN 'agent' THEN EXISTS (SELECT FROM public.agents other
        WHERE other.id = public.uuid_or_null(d.subject) AND other.status = 'active') END,
    d.created_at, d.last_used_at, d.expires_at, d.scopes, a.status = 'suspended'
  FROM public.delegation_grants d JOIN public.agents a ON a.id = d.agent_id
    CROSS JOIN public.account_lives(d.subject) o
  WHERE d.revoked_at IS NULL AND (d.expires_at IS NULL OR d.expires_at > at) AND a.status <> 'retired'
$$;

REVOKE ALL ON FUNCTION delegation_identities FROM PUBLIC;
GRANT EXECUTE ON FUNCTION delegation_identities TO application_manager;
