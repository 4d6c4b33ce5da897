import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Whether a credential lives is never written down: it lives while it and all in `ancestor_ids` do, with their agents,
  // grants and keys. So whatever ends any of them ends all below, also what is minted at the same moment.
  yield* sql`
    CREATE TABLE agent_credentials (
      id uuid PRIMARY KEY,
      tenant_id uuid NOT NULL,
      agent_id uuid NOT NULL,
      agent_key_id uuid,
      grant_id uuid,
      subject text NOT NULL,
      actors uuid[] NOT NULL,
      ancestor_ids uuid[] NOT NULL,
      max_depth integer NOT NULL,
      scopes text[] NOT NULL,
      issued_at timestamptz NOT NULL,
      issued_by text NOT NULL,
      expires_at timestamptz NOT NULL,
      revoked_at timestamptz,
      CHECK (cardinality(ancestor_ids) <= 32)
    )`
  yield* sql`CREATE INDEX agent_credentials_agent ON agent_credentials (agent_id, id)`
  yield* sql`CREATE INDEX agent_credentials_expired ON agent_credentials (expires_at)`
  yield* sql`ALTER TABLE agent_credentials ENABLE ROW LEVEL SECURITY`
  yield* sql`
    CREATE POLICY agent_credentials_of_tenant ON agent_credentials
    USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id))`
  yield* sql`REVOKE INSERT ON agent_credentials FROM application_manager`

  // The assertions that were used, kept until they have expired.
  yield* sql`
    CREATE TABLE agent_assertions (
      agent_id uuid NOT NULL,
      jti text NOT NULL,
      expires_at timestamptz NOT NULL,
      PRIMARY KEY (agent_id, jti)
    )`
  yield* sql`CREATE INDEX agent_assertions_expired ON agent_assertions (expires_at)`
  yield* sql`REVOKE INSERT, UPDATE ON agent_assertions FROM application_manager`

  // Asked before anybody knows the tenant, so past the policies: an agent with its tenant's status, and one of its keys.
  yield* sql`
    CREATE FUNCTION agent_client(wanted uuid, wanted_kid text)
    RETURNS TABLE (
      id uuid, tenant_id uuid, tenant_status text, status text, scope_ceiling text[], max_credential_ttl_seconds integer,
      per_turn_budget bigint, allowed_task_types text[], default_task_type text, updated_at timestamptz,
      key_id uuid, algorithm text, public_key_pem text, valid_from timestamptz, valid_until timestamptz,
      key_revoked_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
      SELECT a.id, a.tenant_id, t.status, a.status, a.scope_ceiling, a.max_credential_ttl_seconds, a.per_turn_budget,
        a.allowed_task_types, a.default_task_type, a.updated_at,
        k.id, k.algorithm, k.public_key_pem, k.valid_from, k.valid_until, k.revoked_at
      FROM public.agents a JOIN public.tenants t ON t.id = a.tenant_id
      LEFT JOIN public.agent_keys k ON k.agent_id = a.id AND k.kid = wanted_kid
      WHERE a.id = wanted
    $$`

  // Who an account is when somebody acts for it: looked at anew at every hop, and while what was minted for it lives.
  yield* sql`
    CREATE FUNCTION account_subject(wanted uuid)
    RETURNS TABLE (id uuid, tenant_id uuid, live boolean, capabilities text[])
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
      SELECT a.id, a.tenant_id, a.status = 'active' AND coalesce(t.status = 'active', true), ARRAY(
        SELECT DISTINCT c FROM public.account_roles ar
        JOIN public.roles r ON r.id = ar.role_id
        JOIN public.applications m ON m.id = r.application_id AND m.slug = 'application-manager',
        unnest(r.capabilities) c
        WHERE ar.account_id = a.id ORDER BY c)
      FROM public.accounts a LEFT JOIN public.tenants t ON t.id = a.tenant_id
      WHERE a.id = wanted
    $$`
  yield* sql`
    CREATE FUNCTION subject_lives(subject text) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
      SELECT subject NOT LIKE 'account:%'
        OR coalesce((SELECT s.live FROM public.account_subject(substr(subject, 9)::uuid) s), false)
    $$`

  // A credential and whether everything that it hangs on lives; expiry is left to whoever asks, who knows the time.
  yield* sql`
    CREATE FUNCTION agent_credential_state(wanted uuid)
    RETURNS TABLE (
      id uuid, tenant_id uuid, agent_id uuid, grant_id uuid, subject text, actors uuid[], ancestor_ids uuid[],
      max_depth integer, scopes text[], issued_at timestamptz, expires_at timestamptz, scope_ceiling text[],
      per_turn_budget bigint, allowed_task_types text[], default_task_type text, live boolean)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
      SELECT c.id, c.tenant_id, c.agent_id, c.grant_id, c.subject, c.actors, c.ancestor_ids, c.max_depth, c.scopes,
        c.issued_at, c.expires_at, a.scope_ceiling, a.per_turn_budget, a.allowed_task_types, a.default_task_type,
        t.status = 'active' AND public.subject_lives(c.subject) AND (
          SELECT count(*) = 1 + cardinality(c.ancestor_ids) FROM public.agent_credentials one
          JOIN public.agents owner ON owner.id = one.agent_id AND owner.status = 'active'
          LEFT JOIN public.agent_keys k ON k.id = one.agent_key_id
          LEFT JOIN public.delegation_grants g ON g.id = one.grant_id
          WHERE one.id = ANY (c.ancestor_ids || c.id) AND one.revoked_at IS NULL
            AND k.credentials_revoked IS NOT TRUE AND g.revoked_at IS NULL)
      FROM public.agent_credentials c
      JOIN public.agents a ON a.id = c.agent_id
      JOIN public.tenants t ON t.id = c.tenant_id
      WHERE c.id = wanted
    $$`

  // For exchanges, whose client is known by then, but whose transaction is only the one statement that mints.
  yield* sql`
    CREATE FUNCTION delegations_between(agent uuid, type_of_subject text, wanted_subject text)
    RETURNS SETOF delegation_grants
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
      SELECT * FROM public.delegation_grants
      WHERE agent_id = agent AND subject_type = type_of_subject AND subject = wanted_subject AND revoked_at IS NULL
      ORDER BY id DESC LIMIT 20
    $$`

  // Mints in one statement: whatever the credential hangs on is locked and looked at as it stands after the lock, then the
  // assertion is used up, the credential stored and the entry written. Answers why not, and has written nothing then.
  yield* sql`
    CREATE FUNCTION mint_agent_credential(r jsonb) RETURNS text
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    DECLARE
      tenant uuid := r->>'tenantId';
      agent uuid := r->>'agentId';
      agent_key uuid := r->>'keyId';
      moment timestamptz := r->>'now';
      ancestors uuid[] := ARRAY(SELECT jsonb_array_elements_text(r->'ancestorIds'));
      actor_ids uuid[] := ARRAY(SELECT jsonb_array_elements_text(r->'actors'));
      agent_ids uuid[] := ARRAY(SELECT DISTINCT jsonb_array_elements_text(r->'agentIds')::uuid);
      grant_ids uuid[];
      found_count integer;
      seen timestamptz;
    BEGIN
      PERFORM FROM public.tenants WHERE id = tenant AND status = 'active' FOR SHARE;
      IF NOT FOUND THEN RETURN 'tenant-suspended'; END IF;
      SELECT updated_at INTO seen FROM public.agents
      WHERE id = agent AND tenant_id = tenant AND status = 'active' FOR SHARE;
      IF NOT FOUND THEN RETURN 'agent-not-active'; END IF;
      IF seen <> (r->>'seen')::timestamptz THEN RETURN 'stale'; END IF;
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
        SELECT count(*) INTO found_count FROM (
          SELECT FROM public.agent_credentials
          WHERE id = ANY (ancestors) AND revoked_at IS NULL AND expires_at > moment ORDER BY id FOR SHARE) locked;
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
      INSERT INTO public.agent_credentials (id, tenant_id, agent_id, agent_key_id, grant_id, subject, actors, ancestor_ids,
        max_depth, scopes, issued_at, issued_by, expires_at)
      VALUES ((r->>'credentialId')::uuid, tenant, agent, agent_key, (r->>'grantId')::uuid, r->>'subject', actor_ids,
        ancestors, (r->>'maxDepth')::integer, ARRAY(SELECT jsonb_array_elements_text(r->'scopes')), moment,
        r->>'issuedBy', (r->>'expiresAt')::timestamptz);
      INSERT INTO public.audit_entries (occurred_at, action_type, entity_type, entity_id, user_id, actor_type, tenant_id,
        application_id, outcome, reason, count, ip_address, user_agent, trace_id, changes, transaction_id)
      SELECT occurred_at, action_type, entity_type, entity_id, user_id, actor_type, tenant_id, application_id, outcome,
        reason, count, ip_address, user_agent, trace_id, changes, pg_current_xact_id()
      FROM jsonb_to_record(r->'entry') AS e(occurred_at timestamptz, action_type text, entity_type text, entity_id text,
        user_id text, actor_type text, tenant_id uuid, application_id integer, outcome text, reason text, count integer,
        ip_address text, user_agent text, trace_id text, changes jsonb);
      RETURN NULL;
    END
    $$`
  yield* sql`
    CREATE FUNCTION use_agent_assertion(agent uuid, used text, until timestamptz) RETURNS boolean
    LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
    BEGIN
      INSERT INTO public.agent_assertions (agent_id, jti, expires_at) VALUES (agent, used, until)
      ON CONFLICT DO NOTHING;
      RETURN FOUND;
    END
    $$`
  for (const name of [
    "agent_client(uuid, text)",
    "account_subject(uuid)",
    "subject_lives(text)",
    "agent_credential_state(uuid)",
    "delegations_between(uuid, text, text)",
    "mint_agent_credential(jsonb)",
    "use_agent_assertion(uuid, text, timestamptz)"
  ]) {
    yield* sql`REVOKE ALL ON FUNCTION ${sql.literal(name)} FROM PUBLIC`
    yield* sql`GRANT EXECUTE ON FUNCTION ${sql.literal(name)} TO application_manager`
  }
})
