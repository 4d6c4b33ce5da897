import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE agent_keys (
      id uuid PRIMARY KEY DEFAULT new_id(),
      tenant_id uuid NOT NULL REFERENCES tenants (id),
      agent_id uuid NOT NULL REFERENCES agents (id),
      kid text NOT NULL,
      algorithm text NOT NULL CHECK (algorithm IN ('ES256', 'EdDSA', 'PS256', 'RS256')),
      public_key_pem text NOT NULL,
      thumbprint text NOT NULL,
      valid_from timestamptz NOT NULL,
      valid_until timestamptz NOT NULL,
      created_at timestamptz NOT NULL,
      created_by text NOT NULL,
      revoked_at timestamptz,
      credentials_revoked boolean NOT NULL DEFAULT false,
      CONSTRAINT agent_keys_kid UNIQUE (agent_id, kid),
      CONSTRAINT agent_keys_thumbprint UNIQUE (tenant_id, thumbprint),
      CHECK (valid_until > valid_from),
      CHECK (revoked_at IS NOT NULL OR NOT credentials_revoked)
    )`
  yield* sql`ALTER TABLE agent_keys ENABLE ROW LEVEL SECURITY`
  yield* sql`
    CREATE POLICY agent_keys_of_tenant ON agent_keys
    USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id))`

  yield* sql`
    CREATE TABLE delegation_grants (
      id uuid PRIMARY KEY DEFAULT new_id(),
      tenant_id uuid NOT NULL REFERENCES tenants (id),
      agent_id uuid NOT NULL REFERENCES agents (id),
      subject text NOT NULL,
      subject_type text NOT NULL CHECK (subject_type IN ('user', 'agent', 'external')),
      scopes text[] NOT NULL,
      max_depth integer NOT NULL CHECK (max_depth BETWEEN 1 AND 32),
      reason text,
      created_at timestamptz NOT NULL,
      created_by text NOT NULL,
      expires_at timestamptz,
      revoked_at timestamptz,
      last_used_at timestamptz
    )`
  yield* sql`CREATE INDEX delegation_grants_agent ON delegation_grants (agent_id, subject_type, subject, id)`
  yield* sql`ALTER TABLE delegation_grants ENABLE ROW LEVEL SECURITY`
  yield* sql`
    CREATE POLICY delegation_grants_of_tenant ON delegation_grants
    USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id))`
})
