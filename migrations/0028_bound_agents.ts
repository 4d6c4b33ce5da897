import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // A template bounds its agents as it is now, not as it was when they were made. The version tells a mint whether either
  // has changed since it was looked at.
  yield* sql`
    CREATE FUNCTION agent_version(agent timestamptz, template timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
      SELECT concat_ws('/', extract(epoch FROM agent), extract(epoch FROM template))
    $$`
  yield* sql`
    CREATE VIEW bounded_agents WITH (security_invoker = true) AS
    SELECT a.id, a.tenant_id, a.status, a.scope_ceiling, t.scope_ceiling AS template_ceiling,
      least(a.max_credential_ttl_seconds, t.max_credential_ttl_seconds) AS max_credential_ttl_seconds,
      least(a.per_turn_budget, t.per_turn_budget) AS per_turn_budget, a.allowed_task_types, a.default_task_type,
      agent_version(a.updated_at, t.updated_at) AS version
    FROM agents a LEFT JOIN agent_templates t ON t.id = a.template_id`
  yield* sql`DROP FUNCTION agent_client(uuid, text)`
  yield* sql`
    CREATE FUNCTION agent_client(wanted uuid, wanted_kid text)
    RETURNS TABLE (
      id uuid, tenant_id uuid, tenant_status text, status text, scope_ceiling text[], template_ceiling text[],
      max_credential_ttl_seconds integer, per_turn_budget bigint, allowed_task_types text[], default_task_type text,
      version text, key_id uuid, algorithm text, public_key_pem text, valid_from timestamptz, valid_until timestamptz,
      key_revoked_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
      SELECT a.id, a.tenant_id, t.status, a.status, a.scope_ceiling, a.template_ceiling, a.max_credential_ttl_seconds,
        a.per_turn_budget, a.allowed_task_types, a.default_task_type, a.version,
        k.id, k.algorithm, k.public_key_pem, k.valid_from, k.valid_until, k.revoked_at
      FROM public.bounded_agents a JOIN public.tenants t ON t.id = a.tenant_id
      LEFT JOIN public.agent_keys k ON k.agent_id = a.id AND k.kid = wanted_kid
      WHERE a.id = wanted
    $$`

  // What an account let an agent do from a sign-in ends with that sign-in.
  yield* sql`ALTER TABLE agent_credentials ADD COLUMN session_id uuid`
  yield* sql`
    CREATE FUNCTION sign_in_lives(wanted uuid) RETURNS boolean
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
      SELECT EXISTS (SELECT FROM public.account_sessions s WHERE s.id = wanted AND s.ended_at IS NULL
        AND (s.trial_session_id IS NULL
          OR EXISTS (SELECT FROM public.sessions i WHERE i.id = s.trial_session_id AND i.is_active)))
    $$`
  yield* sql`
    CREATE FUNCTION sign_in_subject(wanted uuid)
    RETURNS TABLE (account_id uuid, tenant_id uuid, capabilities text[], expires_at timestamptz, live boolean)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
      SELECT a.id, a.tenant_id, a.capabilities, s.expires_at, a.live AND public.sign_in_lives(s.id)
      FROM public.account_sessions s, public.account_subject(s.account_id) a
      WHERE s.id = wanted
    $$`

  // The keys that signed for the service and were given away: beside what they may have signed, so that nobody believes it
  // for longer than anything else that was revoked.
  yield* sql`ALTER TABLE attestation_keys ADD COLUMN compromised_at timestamptz`
  yield* sql`
    CREATE FUNCTION compromised_key_ids() RETURNS text[]
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
      SELECT ARRAY(SELECT key_id FROM public.attestation_keys WHERE purpose = 'sign-tokens' AND status = 'compromised')
    $$`

  yield* sql`DROP FUNCTION agent_credential_state(uuid)`
  yield* sql`
    CREATE FUNCTION agent_credential_state(wanted uuid)
    RETURNS TABLE (
      id uuid, tenant_id uuid, agent_id uuid, grant_id uuid, subject text, actors uuid[], ancestor_ids uuid[],
      max_depth integer, scopes text[], issued_at timestamptz, expires_at timestamptz, scope_ceiling text[],
      chain_ceilings jsonb, per_turn_budget bigint, allowed_task_types text[], default_task_type text, live boolean,
      compromised_key_ids text[])
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
      SELECT c.id, c.tenant_id, c.agent_id, c.grant_id, c.subject, c.actors, c.ancestor_ids, c.max_depth, c.scopes,
        c.issued_at, c.expires_at, a.scope_ceiling,
        CASE WHEN a.template_ceiling IS NULL THEN '[]'::jsonb ELSE jsonb_build_array(a.template_ceiling) END ||
        CASE WHEN c.grant_id IS NULL THEN '[]'::jsonb ELSE coalesce((
          SELECT jsonb_agg(ceiling) FROM (
            SELECT to_jsonb(bound.ceiling) FROM public.agent_credentials one
            JOIN public.bounded_agents before ON before.id = one.agent_id,
            LATERAL (VALUES (before.scope_ceiling), (before.template_ceiling)) AS bound (ceiling)
            WHERE one.id = ANY (c.ancestor_ids) AND bound.ceiling IS NOT NULL
            UNION ALL
            SELECT to_jsonb(s.capabilities) FROM public.account_subject(
              CASE WHEN c.subject LIKE 'account:%' THEN substr(c.subject, 9)::uuid END) s) AS chain (ceiling)), '[]') END,
        a.per_turn_budget, a.allowed_task_types, a.default_task_type,
        t.status = 'active' AND public.subject_lives(c.subject) AND (
          SELECT count(*) = 1 + cardinality(c.ancestor_ids) FROM public.agent_credentials one
          JOIN public.agents owner ON owner.id = one.agent_id AND owner.status = 'active'
          LEFT JOIN public.agent_keys k ON k.id = one.agent_key_id
          LEFT JOIN public.delegation_grants g ON g.id = one.grant_id
          WHERE one.id = ANY (c.ancestor_ids || c.id) AND one.revoked_at IS NULL
            AND (one.session_id IS NULL OR public.sign_in_lives(one.session_id))
            AND k.credentials_revoked IS NOT TRUE AND g.revoked_at IS NULL),
        public.compromised_key_ids()
      FROM public.agent_credentials c
      JOIN public.bounded_agents a ON a.id = c.agent_id
      JOIN public.tenants t ON t.id = c.tenant_id
      WHERE c.id = wanted
    $$`

  // All that an exchange asks before it mints, in one question: the client, whoever it would act for, and the grants between
  // them. The subject is a credential or the sign-in of an account.
  yield* sql`
    CREATE FUNCTION exchange_subject(credential uuid, session uuid) RETURNS jsonb
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
      SELECT jsonb_build_object('name', c.subject, 'tenantId', c.tenant_id, 'credentialId', c.id, 'agentId', c.agent_id,
        'actors', c.actors, 'ancestorIds', c.ancestor_ids, 'maxDepth', c.max_depth, 'scopes', c.scopes,
        'ceilings', jsonb_build_array(c.scope_ceiling) || c.chain_ceilings,
        'expiresAt', (extract(epoch FROM c.expires_at) * 1000)::bigint, 'isLive', c.live)
      FROM public.agent_credential_state(credential) c
      UNION ALL
      SELECT jsonb_build_object('name', 'account:' || s.account_id, 'tenantId', s.tenant_id, 'credentialId', NULL,
        'agentId', NULL, 'actors', '[]'::jsonb, 'ancestorIds', '[]'::jsonb, 'maxDepth', 32, 'scopes', s.capabilities,
        'ceilings', '[]'::jsonb, 'expiresAt', (extract(epoch FROM s.expires_at) * 1000)::bigint, 'isLive', s.live)
      FROM public.sign_in_subject(session) s
    $$`
  yield* sql`
    CREATE FUNCTION exchange_client(wanted uuid, wanted_kid text, credential uuid, session uuid, moment timestamptz)
    RETURNS TABLE (
      id uuid, tenant_id uuid, tenant_status text, status text, scope_ceiling text[], template_ceiling text[],
      max_credential_ttl_seconds integer, per_turn_budget bigint, allowed_task_types text[], default_task_type text,
      version text, key_id uuid, algorithm text, public_key_pem text, valid_from timestamptz, valid_until timestamptz,
      key_revoked_at timestamptz, subject jsonb, grants jsonb, compromised_key_ids text[])
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
      SELECT c.*, s.subject, coalesce((
        SELECT jsonb_agg(jsonb_build_object('id', g.id, 'scopes', g.scopes, 'maxDepth', g.max_depth,
          'expiresAt', (extract(epoch FROM g.expires_at) * 1000)::bigint) ORDER BY g.id DESC)
        FROM (
          SELECT * FROM public.delegation_grants d
          WHERE d.agent_id = wanted AND d.revoked_at IS NULL AND (d.expires_at IS NULL OR d.expires_at > moment)
            AND (d.subject_type, d.subject) = (SELECT
              CASE split_part(n, ':', 1) WHEN 'agent' THEN 'agent' WHEN 'account' THEN 'user' ELSE 'external' END,
              CASE WHEN split_part(n, ':', 1) IN ('agent', 'account') THEN split_part(n, ':', 2) ELSE n END
              FROM (SELECT s.subject->>'name') AS named (n))
          ORDER BY d.id DESC LIMIT 20) g), '[]'), public.compromised_key_ids()
      FROM public.agent_client(wanted, wanted_kid) c, (SELECT public.exchange_subject(credential, session)) AS s (subject)
    $$`
  yield* sql`DROP FUNCTION delegations_between(uuid, text, text)`

  yield* sql`
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
      WHERE id = agent AND tenant_id = tenant AND status = 'active' FOR SHARE;
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

  for (const name of [
    "agent_client(uuid, text)",
    "sign_in_lives(uuid)",
    "sign_in_subject(uuid)",
    "compromised_key_ids()",
    "agent_credential_state(uuid)",
    "exchange_subject(uuid, uuid)",
    "exchange_client(uuid, text, uuid, uuid, timestamptz)"
  ]) {
    yield* sql`REVOKE ALL ON FUNCTION ${sql.literal(name)} FROM PUBLIC`
    yield* sql`GRANT EXECUTE ON FUNCTION ${sql.literal(name)} TO application_manager`
  }
})
