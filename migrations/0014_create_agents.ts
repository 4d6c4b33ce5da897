import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE agent_templates (
      id uuid PRIMARY KEY DEFAULT new_id(),
      tenant_id uuid NOT NULL CONSTRAINT agent_templates_tenant REFERENCES tenants (id),
      name text NOT NULL,
      description text NOT NULL,
      scope_ceiling text[] NOT NULL,
      max_credential_ttl_seconds integer NOT NULL CHECK (max_credential_ttl_seconds BETWEEN 60 AND 86400),
      per_turn_budget bigint CHECK (per_turn_budget > 0),
      allowed_task_types text[] NOT NULL,
      default_task_type text,
      created_at timestamptz NOT NULL,
      created_by text NOT NULL,
      updated_at timestamptz NOT NULL,
      CONSTRAINT agent_templates_name UNIQUE (tenant_id, name),
      CHECK (default_task_type IS NULL OR default_task_type = ANY (allowed_task_types))
    )`
  yield* sql`
    CREATE TABLE agents (
      id uuid PRIMARY KEY DEFAULT new_id(),
      tenant_id uuid NOT NULL CONSTRAINT agents_tenant REFERENCES tenants (id),
      name text NOT NULL,
      description text NOT NULL,
      owner_user_id text,
      scope_ceiling text[] NOT NULL,
      max_credential_ttl_seconds integer NOT NULL CHECK (max_credential_ttl_seconds BETWEEN 60 AND 86400),
      per_turn_budget bigint CHECK (per_turn_budget > 0),
      allowed_task_types text[] NOT NULL,
      default_task_type text,
      template_id uuid CONSTRAINT agents_template REFERENCES agent_templates (id),
      status text NOT NULL CHECK (status IN ('active', 'suspended', 'retired')),
      created_at timestamptz NOT NULL,
      created_by text NOT NULL,
      updated_at timestamptz NOT NULL,
      last_seen_at timestamptz,
      CHECK (default_task_type IS NULL OR default_task_type = ANY (allowed_task_types))
    ) WITH (fillfactor = 80)`
  yield* sql`CREATE UNIQUE INDEX agents_name ON agents (tenant_id, name) WHERE status <> 'retired'`
  yield* sql`CREATE INDEX agents_of_tenant ON agents (tenant_id, id)`
  yield* sql`CREATE INDEX agents_owner ON agents (owner_user_id, id) WHERE owner_user_id IS NOT NULL`
  yield* sql`CREATE INDEX agents_template_id ON agents (template_id) WHERE template_id IS NOT NULL`
  for (const table of ["agent_templates", "agents"]) {
    yield* sql`ALTER TABLE ${sql(table)} ENABLE ROW LEVEL SECURITY`
    yield* sql`
      CREATE POLICY ${sql(`${table}_of_tenant`)} ON ${sql(table)}
      USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id))`
  }
})
