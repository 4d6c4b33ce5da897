import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`
    CREATE TABLE accounts (
      id uuid PRIMARY KEY DEFAULT new_id(),
      email text NOT NULL,
      name text NOT NULL,
      password_hash text NOT NULL,
      tenant_id uuid REFERENCES tenants (id),
      trial_user_id integer,
      status text NOT NULL CHECK (status IN ('active', 'suspended')),
      created_at timestamptz NOT NULL,
      created_by text NOT NULL,
      last_sign_in_at timestamptz
    )`
  // One sign-in page serves every tenant, so an address names one account of the whole installation.
  yield* sql`CREATE UNIQUE INDEX accounts_email ON accounts (lower(email))`
  yield* sql`CREATE INDEX accounts_tenant ON accounts (tenant_id, id)`
  yield* sql`ALTER TABLE accounts ENABLE ROW LEVEL SECURITY`
  yield* sql`CREATE POLICY accounts_of_tenant ON accounts USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id))`

  yield* sql`
    CREATE TABLE account_roles (
      account_id uuid NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
      role_id integer NOT NULL CONSTRAINT account_roles_role REFERENCES roles (id),
      tenant_id uuid,
      PRIMARY KEY (account_id, role_id)
    )`
  yield* sql`CREATE INDEX account_roles_role_id ON account_roles (role_id)`
  yield* sql`ALTER TABLE account_roles ENABLE ROW LEVEL SECURITY`
  yield* sql`
    CREATE POLICY account_roles_of_tenant ON account_roles
    USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id))`

  // Whoever signs in says an address and no tenant, so this one question goes past the policy.
  yield* sql`
    CREATE FUNCTION account_by_email(wanted text)
    RETURNS TABLE (
      id uuid, password_hash text, tenant_id uuid, tenant_status text, status text, trial_user_id integer)
    LANGUAGE sql STABLE SECURITY DEFINER SET search_path = pg_catalog, public AS $$
      SELECT a.id, a.password_hash, a.tenant_id, t.status, a.status, a.trial_user_id
      FROM public.accounts a LEFT JOIN public.tenants t ON t.id = a.tenant_id
      WHERE lower(a.email) = lower(wanted)
    $$`
  yield* sql`REVOKE ALL ON FUNCTION account_by_email(text) FROM PUBLIC`
  yield* sql`GRANT EXECUTE ON FUNCTION account_by_email(text) TO application_manager`
})
