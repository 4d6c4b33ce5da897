-- API keys that still work, for the inventory of identities that are no people.
CREATE OR REPLACE FUNCTION api_key_identities(at timestamptz, used_since timestamptz, for_rules boolean) RETURNS TABLE (
  id uuid, tenant_id uuid, name text, owner text, owner_is_live boolean, created_at timestamptz,
  last_used_at timestamptz, expires_at timestamptz, scopes_granted text[], scopes_used text[]
) LANGUAGE sql STABLE AS $$
  SELECT k.id, k.tenant_id, k.name, k.created_by, o.lives, k.created_at,
    k.last_used_at, k.expires_at, k.scopes, u.used
  FROM public.api_keys k
    CROSS JOIN public.principal_lives(k.created_by, at) o
    CROSS JOIN public.capabilities_used('api-key:' || k.id, used_since) u
  WHERE k.synthetic_kind IS NULL AND (k.revoked_at IS NULL OR k.revoked_at > at)
    AND (k.expires_at IS NULL OR k.expires_at > at)
$$;

REVOKE ALL ON FUNCTION api_key_identities FROM PUBLIC;
GRANT EXECUTE ON FUNCTION api_key_identities TO application_manager;
