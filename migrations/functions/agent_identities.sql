-- Agents that are not retired, for the inventory of identities that are no people.
CREATE OR REPLACE FUNCTION agent_identities(at timestamptz, used_since timestamptz, for_rules boolean) RETURNS TABLE (
  id uuid, tenant_id uuid, name text, owner text, owner_is_live boolean, created_at timestamptz,
  last_used_at timestamptz, scopes_granted text[], scopes_used text[], is_suspended boolean, uncapped_nano_usd bigint
) LANGUAGE sql STABLE AS $$
  SELECT a.id, a.tenant_id, a.name, a.owner_user_id, o.lives, a.created_at,
    a.last_seen_at, a.scope_ceiling, u.used, a.status = 'suspended',
    -- What it was charged while no cap applies to each of its calls.
    CASE WHEN g.cost IS NULL OR public.has_cap_on_each_call(a.tenant_id, a.id) THEN 0 ELSE g.cost END
  FROM public.agents a
    LEFT JOIN public.agent_spend(at, for_rules) g ON g.tenant_id = a.tenant_id AND g.agent = a.id::text
    CROSS JOIN public.account_lives(a.owner_user_id) o
    CROSS JOIN public.capabilities_used('agent:' || a.id, used_since) u
  WHERE a.status <> 'retired'
$$;

REVOKE ALL ON FUNCTION agent_identities FROM PUBLIC;
GRANT EXECUTE ON FUNCTION agent_identities TO application_manager;
