import { script } from "../src/platform/database/migration-steps.ts"

export default script(
  `
-- Who has had the secret of a principal, or may have: who created it, rotated its key, reset its password, registered a
-- key of it or was issued its credential. Rows outlive what they name, so that deleting an account hides nobody.
CREATE TABLE principal_holders (
  principal text NOT NULL,
  holder text NOT NULL,
  PRIMARY KEY (principal, holder),
  CHECK (principal <> holder)
);
REVOKE UPDATE, DELETE ON principal_holders FROM application_manager;


-- Row-level security is checked before any function that is not leakproof, as lower() and coalesce() are: what a list of a
-- tenant's rows is sorted by is a column, and a time that may be missing is read by CASE.
CREATE TABLE accounts (
  id uuid PRIMARY KEY DEFAULT new_id(),
  email text NOT NULL,
  -- What the address is compared by, as the service writes it: the database has other rules for letters.
  email_key text NOT NULL,
  name text NOT NULL,
  -- Null for a person who signs in with an identity provider.
  password_hash text,
  tenant_id uuid REFERENCES tenants (id),
  trial_user_id integer,
  status text NOT NULL CHECK (status IN ('active', 'suspended')),
  created_at timestamptz NOT NULL,
  created_by text NOT NULL,
  last_sign_in_at timestamptz,
  -- Those of the credential that created it, if any.
  application_id integer CONSTRAINT accounts_application REFERENCES applications (id),
  expires_at timestamptz,
  search_text text NOT NULL GENERATED ALWAYS AS (lower(name || ' ' || email)) STORED
);
-- Unique within a tenant, so that no tenant learns of another's accounts.
CREATE UNIQUE INDEX accounts_email ON accounts (tenant_id, email_key) NULLS NOT DISTINCT;
CREATE INDEX accounts_sign_in ON accounts (email_key, id);
CREATE INDEX accounts_application_id ON accounts (application_id) WHERE application_id IS NOT NULL;
CREATE INDEX accounts_tenant ON accounts (tenant_id, id);
CREATE INDEX accounts_search ON accounts USING gin (search_text gin_trgm_ops);
CREATE INDEX accounts_created ON accounts (created_at, id);
CREATE INDEX accounts_tenant_created ON accounts (tenant_id, created_at, id);
CREATE INDEX accounts_name ON accounts (name COLLATE "und-x-icu", id);
CREATE INDEX accounts_tenant_name ON accounts (tenant_id, name COLLATE "und-x-icu", id);
CREATE INDEX accounts_signed_in ON accounts ((CASE WHEN last_sign_in_at IS NULL THEN 'epoch' ELSE last_sign_in_at END), id);
CREATE INDEX accounts_tenant_signed_in ON accounts (tenant_id, (CASE WHEN last_sign_in_at IS NULL THEN 'epoch' ELSE last_sign_in_at END), id);
CREATE TRIGGER accounts_holders AFTER INSERT OR UPDATE OF created_by ON accounts
FOR EACH ROW EXECUTE FUNCTION record_holders('account', 'id');
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

-- The link by which the owner of an account chooses its password: at most one for each account.
CREATE TABLE account_invitations (
  account_id uuid PRIMARY KEY REFERENCES accounts (id) ON DELETE CASCADE,
  tenant_id uuid,
  token_sha256 bytea NOT NULL CONSTRAINT account_invitations_token UNIQUE CHECK (octet_length(token_sha256) = 32),
  expires_at timestamptz NOT NULL
);
ALTER TABLE account_invitations ENABLE ROW LEVEL SECURITY;
CREATE POLICY account_invitations_of_tenant ON account_invitations
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));

CREATE TABLE identity_providers (
  id uuid PRIMARY KEY,
  kind text NOT NULL CHECK (kind IN ('login', 'workload')),
  issuer text NOT NULL,
  client_id text,
  sealed_client_secret bytea,
  scopes text[] NOT NULL,
  allowed_algorithms text[] NOT NULL,
  claim_mapping jsonb NOT NULL,
  domains text[] NOT NULL,
  subjects text[] NOT NULL,
  default_role_ids integer[] NOT NULL,
  tenant_id uuid CONSTRAINT identity_providers_tenant REFERENCES tenants (id),
  status text NOT NULL CHECK (status IN ('active', 'disabled')),
  created_at timestamptz NOT NULL,
  created_by text NOT NULL,
  updated_at timestamptz NOT NULL,
  -- Since when its configuration or its keys could not be fetched.
  keys_failing_since timestamptz,
  CHECK (kind = 'workload' OR client_id IS NOT NULL)
);
CREATE INDEX identity_providers_issuer ON identity_providers (issuer) WHERE kind = 'workload';
ALTER TABLE identity_providers ENABLE ROW LEVEL SECURITY;
CREATE POLICY identity_providers_of_tenant ON identity_providers
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));

-- Which account a user of a provider signs in to. A user is the provider and its name there, never an e-mail address.
CREATE TABLE account_identities (
  provider_id uuid NOT NULL REFERENCES identity_providers (id) ON DELETE CASCADE,
  subject text NOT NULL,
  account_id uuid NOT NULL REFERENCES accounts (id) ON DELETE CASCADE,
  tenant_id uuid,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (provider_id, subject)
);
CREATE INDEX account_identities_account ON account_identities (account_id);
ALTER TABLE account_identities ENABLE ROW LEVEL SECURITY;
CREATE POLICY account_identities_of_tenant ON account_identities
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));
REVOKE UPDATE ON account_identities FROM application_manager;
`,
  ["record_holders"]
)
