-- Synthetic principals, for the inventory of identities that are no people.
CREATE OR REPLACE FUNCTION synthetic_principal_identities(at timestamptz, used_since timestamptz, for_rules boolean) RETURNS TABLE (
  id uuid, tenant_id uuid, name text, owner text, owner_is_live boolean, created_at timestamptz,
  last_used_at timestamptz, expires_at timestamptz, scopes_granted text[], scopes_used text[], is_canary boolean
) LANGUAGE sql STABLE AS $$
  SELECT s.id, s.tenant_id, s.name, s.created_by, o.lives, s.created_at,
    s.last_used_at, s.expires_at, s.scopes, u.used, s.kind = 'canary'
  FROM public.synthetic_principals s
    CROSS JOIN public.principal_lives(s.created_by, at) o
    CROSS JOIN public.capabilities_used('synthetic:' || s.id, used_since) u
  WHERE s.expires_at IS NULL OR s.expires_at > at
$$;

REVOKE ALL ON FUNCTION synthetic_principal_identities FROM PUBLIC;
GRANT EXECUTE ON FUNCTION synthetic_principal_identities TO application_manager;
