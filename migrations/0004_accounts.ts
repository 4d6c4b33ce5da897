import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
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
);
-- One sign-in page serves every tenant, so an address names one account of the whole installation.
CREATE UNIQUE INDEX accounts_email ON accounts (lower(email));
CREATE INDEX accounts_tenant ON accounts (tenant_id, id);
ALTER TABLE accounts ENABLE ROW LEVEL SECURITY;
CREATE POLICY accounts_of_tenant ON accounts
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));

CREATE TABLE account_roles (
  account_id uuid NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  role_id integer NOT NULL CONSTRAINT account_roles_role REFERENCES roles (id),
  tenant_id uuid,
  PRIMARY KEY (account_id, role_id)
);
CREATE INDEX account_roles_role_id ON account_roles (role_id);
ALTER TABLE account_roles ENABLE ROW LEVEL SECURITY;
CREATE POLICY account_roles_of_tenant ON account_roles
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));

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
);
CREATE INDEX account_sessions_account ON account_sessions (account_id, id);
CREATE INDEX account_sessions_expiry ON account_sessions (expires_at);
ALTER TABLE account_sessions ENABLE ROW LEVEL SECURITY;
CREATE POLICY account_sessions_of_tenant ON account_sessions
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));

CREATE TABLE account_session_tokens (
  sha256 bytea PRIMARY KEY CHECK (octet_length(sha256) = 32),
  session_id uuid NOT NULL REFERENCES account_sessions (id) ON DELETE CASCADE,
  tenant_id uuid,
  issued_at timestamptz NOT NULL,
  replaced_at timestamptz
);
CREATE INDEX account_session_tokens_session ON account_session_tokens (session_id);
ALTER TABLE account_session_tokens ENABLE ROW LEVEL SECURITY;
CREATE POLICY account_session_tokens_of_tenant ON account_session_tokens
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));

-- Failed sign-ins by whose they were: digests of addresses and accounts, since people type passwords into the wrong field.
CREATE TABLE sign_in_failures (
  key text PRIMARY KEY,
  failures integer NOT NULL,
  last_failed_at timestamptz NOT NULL,
  blocked_until timestamptz NOT NULL
);
CREATE INDEX sign_in_failures_age ON sign_in_failures (last_failed_at);

CREATE TABLE operator_claims (
  token_sha256 bytea PRIMARY KEY CHECK (octet_length(token_sha256) = 32),
  expires_at timestamptz NOT NULL
);
`
)
