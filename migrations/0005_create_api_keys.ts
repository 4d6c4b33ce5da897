import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE api_keys (
      id uuid PRIMARY KEY DEFAULT new_id(),
      public_id text NOT NULL CONSTRAINT api_keys_public_id UNIQUE,
      secret_sha256 bytea NOT NULL CHECK (octet_length(secret_sha256) = 32),
      name text NOT NULL,
      scopes text[] NOT NULL,
      tenant_id uuid REFERENCES tenants (id),
      application_id integer CONSTRAINT api_keys_application REFERENCES applications (id),
      created_at timestamptz NOT NULL,
      created_by text NOT NULL,
      last_used_at timestamptz,
      expires_at timestamptz,
      revoked_at timestamptz,
      rotated_from uuid REFERENCES api_keys (id)
    )`
  yield* sql`CREATE INDEX api_keys_tenant ON api_keys (tenant_id, id)`
  yield* sql`CREATE INDEX api_keys_rotated_from ON api_keys (rotated_from) WHERE rotated_from IS NOT NULL`
  yield* sql`CREATE INDEX api_keys_application_id ON api_keys (application_id) WHERE application_id IS NOT NULL`
  yield* sql`ALTER TABLE api_keys ENABLE ROW LEVEL SECURITY`
  yield* sql`CREATE POLICY api_keys_of_tenant ON api_keys USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id))`

  // A key is looked up before anybody knows its tenant, so this one question goes past the policy, and answers little.
  yield* sql`
    CREATE FUNCTION api_key_by_public_id(wanted text)
    RETURNS TABLE (
      id uuid, secret_sha256 bytea, scopes text[], tenant_id uuid, tenant_status text, application_id integer,
      expires_at timestamptz, revoked_at timestamptz)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
      SELECT k.id, k.secret_sha256, k.scopes, k.tenant_id, t.status, k.application_id, k.expires_at, k.revoked_at
      FROM public.api_keys k LEFT JOIN public.tenants t ON t.id = k.tenant_id
      WHERE k.public_id = wanted
    $$`
  yield* sql`REVOKE ALL ON FUNCTION api_key_by_public_id(text) FROM PUBLIC`
  yield* sql`GRANT EXECUTE ON FUNCTION api_key_by_public_id(text) TO application_manager`

  // What the installation keeps for itself: digests of keys it made, never a key.
  yield* sql`
    CREATE TABLE installation (
      name text PRIMARY KEY,
      value jsonb NOT NULL,
      created_at timestamptz NOT NULL
    )`
})
