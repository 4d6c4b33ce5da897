CREATE OR REPLACE FUNCTION mint_agent_credential(r jsonb) RETURNS text
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
DECLARE
  tenant uuid := r->>'tenantId';
  agent uuid := r->>'agentId';
  agent_key uuid := r->>'keyId';
  session uuid := r->>'sessionId';
  moment timestamptz := r->>'now';
  ancestors uuid[] := ARRAY(SELECT jsonb_array_elements_text(r->'ancestorIds'));
  actor_ids uuid[] := ARRAY(SELECT jsonb_array_elements_text(r->'actors'));
  agent_ids uuid[] := ARRAY(SELECT DISTINCT jsonb_array_elements_text(r->'agentIds')::uuid);
  grant_ids uuid[];
  found_count integer;
  agent_changed timestamptz;
  template uuid;
  template_changed timestamptz;
BEGIN
  PERFORM FROM public.tenants WHERE id = tenant AND status = 'active' FOR SHARE;
  IF NOT FOUND THEN RETURN 'tenant-suspended'; END IF;
  SELECT updated_at, template_id INTO agent_changed, template FROM public.agents
  WHERE id = agent AND tenant_id = tenant AND status = 'active' AND (expires_at IS NULL OR expires_at > moment) FOR SHARE;
  IF NOT FOUND THEN RETURN 'agent-not-active'; END IF;
  IF template IS NOT NULL THEN
    SELECT updated_at INTO template_changed FROM public.agent_templates WHERE id = template FOR SHARE;
  END IF;
  IF public.agent_version(agent_changed, template_changed) IS DISTINCT FROM r->>'version' THEN RETURN 'stale'; END IF;
  IF agent_key IS NOT NULL THEN
    PERFORM FROM public.agent_keys WHERE id = agent_key AND agent_id = agent AND revoked_at IS NULL
      AND valid_from <= moment AND moment < valid_until FOR SHARE;
    IF NOT FOUND THEN RETURN 'key-not-live'; END IF;
  END IF;
  IF r->>'grantId' IS NOT NULL THEN
    SELECT count(*) INTO found_count FROM (
      SELECT FROM public.agents WHERE id = ANY (agent_ids) AND tenant_id = tenant AND status = 'active'
      ORDER BY id FOR SHARE) locked;
    IF found_count <> cardinality(agent_ids) THEN RETURN 'ancestor-not-active'; END IF;
    IF r->>'subject' LIKE 'account:%' THEN
      PERFORM FROM public.accounts WHERE id = substr(r->>'subject', 9)::uuid AND status = 'active' FOR SHARE;
      IF NOT FOUND THEN RETURN 'ancestor-not-active'; END IF;
    END IF;
    IF r->>'subject' LIKE 'idp:%' THEN
      PERFORM FROM public.identity_providers WHERE id::text = substr(r->>'subject', 5, 36) FOR SHARE;
      IF public.workload_subject(r->>'subject') IS NULL THEN RETURN 'ancestor-not-active'; END IF;
    END IF;
    PERFORM FROM public.account_sessions WHERE id = session OR id IN (
      SELECT c.session_id FROM public.agent_credentials c WHERE c.id = ANY (ancestors)) ORDER BY id FOR SHARE;
    IF session IS NOT NULL AND NOT public.sign_in_lives(session) THEN RETURN 'ancestor-not-active'; END IF;
    SELECT count(*) INTO found_count FROM (
      SELECT FROM public.agent_credentials
      WHERE id = ANY (ancestors) AND revoked_at IS NULL AND expires_at > moment
        AND (session_id IS NULL OR public.sign_in_lives(session_id)) ORDER BY id FOR SHARE) locked;
    IF found_count <> cardinality(ancestors) THEN RETURN 'ancestor-revoked'; END IF;
    IF EXISTS (SELECT FROM public.agent_credentials c JOIN public.agent_keys k ON k.id = c.agent_key_id
      WHERE c.id = ANY (ancestors) AND k.credentials_revoked) THEN RETURN 'ancestor-revoked'; END IF;
    grant_ids := ARRAY(SELECT DISTINCT c.grant_id FROM public.agent_credentials c
      WHERE c.id = ANY (ancestors) AND c.grant_id IS NOT NULL UNION SELECT (r->>'grantId')::uuid);
    SELECT count(*) INTO found_count FROM (
      SELECT FROM public.delegation_grants WHERE id = ANY (grant_ids) AND tenant_id = tenant AND revoked_at IS NULL
        AND (expires_at IS NULL OR expires_at > moment) ORDER BY id FOR SHARE) locked;
    IF found_count <> cardinality(grant_ids) THEN RETURN 'grant-not-live'; END IF;
  END IF;
  IF r->>'jti' IS NOT NULL THEN
    INSERT INTO public.agent_assertions (agent_id, jti, expires_at)
    VALUES (agent, r->>'jti', (r->>'assertionExpiresAt')::timestamptz) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN RETURN 'replayed'; END IF;
  END IF;
  INSERT INTO public.agent_credentials (id, tenant_id, agent_id, agent_key_id, grant_id, session_id, subject, actors,
    ancestor_ids, max_depth, scopes, issued_at, issued_by, expires_at)
  VALUES ((r->>'credentialId')::uuid, tenant, agent, agent_key, (r->>'grantId')::uuid, session, r->>'subject',
    actor_ids, ancestors, (r->>'maxDepth')::integer, ARRAY(SELECT jsonb_array_elements_text(r->'scopes')), moment,
    r->>'issuedBy', (r->>'expiresAt')::timestamptz);
  IF r->>'issuedBy' <> 'agent:' || agent THEN
    INSERT INTO public.principal_holders (principal, holder) VALUES ('agent:' || agent, r->>'issuedBy')
    ON CONFLICT DO NOTHING;
  END IF;
  INSERT INTO public.audit_entries (occurred_at, action_type, entity_type, entity_id, user_id, actor_type, tenant_id,
    application_id, outcome, reason, count, ip_address, user_agent, trace_id, changes, transaction_id)
  SELECT occurred_at, action_type, entity_type, entity_id, user_id, actor_type, tenant_id, application_id, outcome,
    reason, count, ip_address, user_agent, trace_id, changes, pg_current_xact_id()
  FROM jsonb_to_record(r->'entry') AS e(occurred_at timestamptz, action_type text, entity_type text, entity_id text,
    user_id text, actor_type text, tenant_id uuid, application_id integer, outcome text, reason text, count integer,
    ip_address text, user_agent text, trace_id text, changes jsonb);
  RETURN NULL;
END
$$;

REVOKE ALL ON FUNCTION mint_agent_credential FROM PUBLIC;
GRANT EXECUTE ON FUNCTION mint_agent_credential TO application_manager;
