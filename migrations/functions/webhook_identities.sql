-- Webhooks that get events, for the inventory of identities that are no people.
CREATE OR REPLACE FUNCTION webhook_identities(at timestamptz, used_since timestamptz, for_rules boolean) RETURNS TABLE (
  id uuid, tenant_id uuid, name text, owner text, owner_is_live boolean, created_at timestamptz,
  failing_since timestamptz
) LANGUAGE sql STABLE AS $$
  SELECT w.id, w.tenant_id, w.name, w.created_by, o.lives, w.created_at, w.failing_since
  FROM public.event_targets w
    CROSS JOIN public.principal_lives(w.created_by, at) o
  WHERE w.status = 'active'
$$;

REVOKE ALL ON FUNCTION webhook_identities FROM PUBLIC;
GRANT EXECUTE ON FUNCTION webhook_identities TO application_manager;
