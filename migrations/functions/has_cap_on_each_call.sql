-- Whether a cap of its tenant or of all tenants applies to each call of an agent.
CREATE OR REPLACE FUNCTION has_cap_on_each_call(tenant uuid, agent uuid) RETURNS boolean
LANGUAGE sql STABLE AS $$
  SELECT EXISTS (SELECT FROM public.budget_caps c
    WHERE c.tenant_id IN (tenant, public.all_tenants()) AND c.status = 'active'
      AND c.deleted_at IS NULL AND c.scope - 'agentId' = '{}'::jsonb
      AND coalesce(c.scope->>'agentId', 'each') IN ('each', agent::text))
$$;

REVOKE ALL ON FUNCTION has_cap_on_each_call FROM PUBLIC;
GRANT EXECUTE ON FUNCTION has_cap_on_each_call TO application_manager;
