-- Identity providers that are trusted, for the inventory of identities that are no people.
CREATE OR REPLACE FUNCTION identity_provider_identities(at timestamptz, used_since timestamptz, for_rules boolean) RETURNS TABLE (
  id uuid, tenant_id uuid, name text, owner text, owner_is_live boolean, created_at timestamptz,
  failing_since timestamptz
) LANGUAGE sql STABLE AS $$
  SELECT p.id, p.tenant_id, p.issuer, p.created_by, o.lives, p.created_at,
    p.keys_failing_since
  FROM public.identity_providers p
    CROSS JOIN public.principal_lives(p.created_by, at) o
  WHERE p.status = 'active'
$$;

REVOKE ALL ON FUNCTION identity_provider_identities FROM PUBLIC;
GRANT EXECUTE ON FUNCTION identity_provider_identities TO application_manager;
