import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  // Whether the session is the sign-in of an account, which ends with it.
  yield* sql`ALTER TABLE sessions ADD COLUMN is_sign_in boolean NOT NULL DEFAULT false`

  yield* sql`
    CREATE TABLE account_sessions (
      id uuid PRIMARY KEY DEFAULT new_id(),
      account_id uuid NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
      tenant_id uuid,
      rotation_secret bytea NOT NULL CHECK (octet_length(rotation_secret) = 32),
      ip_address text,
      user_agent text,
      trial_session_id integer,
      created_at timestamptz NOT NULL,
      last_used_at timestamptz NOT NULL,
      expires_at timestamptz NOT NULL,
      ended_at timestamptz
    )`
  yield* sql`CREATE INDEX account_sessions_account ON account_sessions (account_id, id)`
  yield* sql`CREATE INDEX account_sessions_expiry ON account_sessions (expires_at)`
  yield* sql`ALTER TABLE account_sessions ENABLE ROW LEVEL SECURITY`
  yield* sql`
    CREATE POLICY account_sessions_of_tenant ON account_sessions
    USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id))`

  yield* sql`
    CREATE TABLE account_session_tokens (
      sha256 bytea PRIMARY KEY CHECK (octet_length(sha256) = 32),
      session_id uuid NOT NULL REFERENCES account_sessions (id) ON DELETE CASCADE,
      tenant_id uuid,
      issued_at timestamptz NOT NULL,
      replaced_at timestamptz
    )`
  yield* sql`CREATE INDEX account_session_tokens_session ON account_session_tokens (session_id)`
  yield* sql`ALTER TABLE account_session_tokens ENABLE ROW LEVEL SECURITY`
  yield* sql`
    CREATE POLICY account_session_tokens_of_tenant ON account_session_tokens
    USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id))`

  // A token is looked up before anybody knows its tenant, so this one question goes past the policies.
  yield* sql`
    CREATE FUNCTION account_session_by_token(wanted bytea)
    RETURNS TABLE (
      session_id uuid, account_id uuid, tenant_id uuid, tenant_status text, account_status text, capabilities text[],
      last_used_at timestamptz, expires_at timestamptz, is_ended boolean, replaced_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
      SELECT s.id, a.id, a.tenant_id, t.status, a.status,
        ARRAY(
          SELECT DISTINCT c FROM public.account_roles ar
          JOIN public.roles r ON r.id = ar.role_id
          JOIN public.applications m ON m.id = r.application_id AND m.slug = 'application-manager',
          unnest(r.capabilities) c
          WHERE ar.account_id = a.id ORDER BY c),
        s.last_used_at, s.expires_at,
        s.ended_at IS NOT NULL OR (s.trial_session_id IS NOT NULL
          AND NOT EXISTS (SELECT FROM public.sessions i WHERE i.id = s.trial_session_id AND i.is_active)),
        k.replaced_at
      FROM public.account_session_tokens k
      JOIN public.account_sessions s ON s.id = k.session_id
      JOIN public.accounts a ON a.id = s.account_id
      LEFT JOIN public.tenants t ON t.id = a.tenant_id
      WHERE k.sha256 = wanted
    $$`
  yield* sql`REVOKE ALL ON FUNCTION account_session_by_token(bytea) FROM PUBLIC`
  yield* sql`GRANT EXECUTE ON FUNCTION account_session_by_token(bytea) TO application_manager`

  // Failed sign-ins by whose they were: digests of addresses and accounts, since people type passwords into the wrong field.
  yield* sql`
    CREATE TABLE sign_in_failures (
      key text PRIMARY KEY,
      failures integer NOT NULL,
      last_failed_at timestamptz NOT NULL,
      blocked_until timestamptz NOT NULL
    )`
  yield* sql`CREATE INDEX sign_in_failures_age ON sign_in_failures (last_failed_at)`

  yield* sql`
    CREATE TABLE operator_claims (
      token_sha256 bytea PRIMARY KEY CHECK (octet_length(token_sha256) = 32),
      expires_at timestamptz NOT NULL
    )`
})
