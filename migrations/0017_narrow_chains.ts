import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // What a credential may do is bounded by everybody in its chain as they are now: by the ceilings of the agents before it,
  // and by what the account that it acts for may do. So nobody keeps by a chain what was taken from who gave it.
  yield* sql`DROP FUNCTION agent_credential_state(uuid)`
  yield* sql`
    CREATE FUNCTION agent_credential_state(wanted uuid)
    RETURNS TABLE (
      id uuid, tenant_id uuid, agent_id uuid, grant_id uuid, subject text, actors uuid[], ancestor_ids uuid[],
      max_depth integer, scopes text[], issued_at timestamptz, expires_at timestamptz, scope_ceiling text[],
      chain_ceilings jsonb, per_turn_budget bigint, allowed_task_types text[], default_task_type text, live boolean)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
      SELECT c.id, c.tenant_id, c.agent_id, c.grant_id, c.subject, c.actors, c.ancestor_ids, c.max_depth, c.scopes,
        c.issued_at, c.expires_at, a.scope_ceiling,
        CASE WHEN c.grant_id IS NULL THEN '[]'::jsonb ELSE coalesce((
          SELECT jsonb_agg(ceiling) FROM (
            SELECT to_jsonb(before.scope_ceiling) FROM public.agent_credentials one
            JOIN public.agents before ON before.id = one.agent_id
            WHERE one.id = ANY (c.ancestor_ids)
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
            AND k.credentials_revoked IS NOT TRUE AND g.revoked_at IS NULL)
      FROM public.agent_credentials c
      JOIN public.agents a ON a.id = c.agent_id
      JOIN public.tenants t ON t.id = c.tenant_id
      WHERE c.id = wanted
    $$`
  yield* sql`REVOKE ALL ON FUNCTION agent_credential_state(uuid) FROM PUBLIC`
  yield* sql`GRANT EXECUTE ON FUNCTION agent_credential_state(uuid) TO application_manager`
})
