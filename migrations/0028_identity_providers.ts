import { script } from "../src/platform/database/migrations.ts"

export default script(`
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

-- Whoever signs in with a provider has no password.
ALTER TABLE accounts ALTER COLUMN password_hash DROP NOT NULL;
`)
