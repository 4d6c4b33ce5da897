import { script } from "../src/platform/database/migration-steps.ts"

export default script(
  `
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
  rotated_from uuid REFERENCES api_keys (id),
  -- Of a synthetic principal: a key that monitors, tests or is a trap. Its row outlives it, so that usage which is settled
  -- later is still known as synthetic.
  synthetic_kind text CONSTRAINT api_keys_synthetic_kind CHECK (synthetic_kind IN ('monitor', 'test', 'canary')),
  labels jsonb NOT NULL DEFAULT '{}',
  search_text text NOT NULL GENERATED ALWAYS AS (lower(name || ' amk_' || public_id)) STORED,
  CONSTRAINT api_keys_synthetic_tenant CHECK (synthetic_kind IS NULL OR tenant_id IS NOT NULL),
  CONSTRAINT api_keys_synthetic_end CHECK (synthetic_kind IS NULL OR synthetic_kind = 'canary' OR expires_at IS NOT NULL)
);
CREATE INDEX api_keys_tenant ON api_keys (tenant_id, id);
CREATE INDEX api_keys_rotated_from ON api_keys (rotated_from) WHERE rotated_from IS NOT NULL;
CREATE INDEX api_keys_application_id ON api_keys (application_id) WHERE application_id IS NOT NULL;
CREATE INDEX api_keys_synthetic ON api_keys (id) WHERE synthetic_kind IS NOT NULL;
CREATE INDEX api_keys_search ON api_keys USING gin (search_text gin_trgm_ops);
CREATE INDEX api_keys_created ON api_keys (created_at, id);
CREATE INDEX api_keys_tenant_created ON api_keys (tenant_id, created_at, id);
CREATE INDEX api_keys_name ON api_keys (name COLLATE "und-x-icu", id);
CREATE INDEX api_keys_tenant_name ON api_keys (tenant_id, name COLLATE "und-x-icu", id);
CREATE INDEX api_keys_used ON api_keys ((CASE WHEN last_used_at IS NULL THEN 'epoch' ELSE last_used_at END), id);
CREATE INDEX api_keys_tenant_used ON api_keys (tenant_id, (CASE WHEN last_used_at IS NULL THEN 'epoch' ELSE last_used_at END), id);
CREATE TRIGGER api_keys_holders AFTER INSERT OR UPDATE OF created_by ON api_keys
FOR EACH ROW EXECUTE FUNCTION record_holders('api-key', 'id');
ALTER TABLE api_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY api_keys_of_tenant ON api_keys
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));

CREATE VIEW synthetic_principals WITH (security_invoker = true) AS
SELECT k.id, k.public_id, k.synthetic_kind AS kind, k.name, k.tenant_id, k.application_id, k.scopes,
  k.labels, k.created_at, k.created_by, k.last_used_at, k.expires_at, k.revoked_at
FROM api_keys k WHERE k.synthetic_kind IS NOT NULL AND k.revoked_at IS NULL;
GRANT SELECT, UPDATE ON synthetic_principals TO application_manager;

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
);
ALTER TABLE agent_templates ENABLE ROW LEVEL SECURITY;
CREATE POLICY agent_templates_of_tenant ON agent_templates
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));

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
  -- Those of the credential that created it, if any; what a synthetic principal registers is synthetic, too.
  application_id integer CONSTRAINT agents_application REFERENCES applications (id),
  expires_at timestamptz,
  synthetic boolean NOT NULL DEFAULT false,
  search_text text NOT NULL GENERATED ALWAYS AS (lower(name || ' ' || coalesce(owner_user_id, ''))) STORED,
  CHECK (default_task_type IS NULL OR default_task_type = ANY (allowed_task_types))
) WITH (fillfactor = 80);
CREATE UNIQUE INDEX agents_name ON agents (tenant_id, name) WHERE status <> 'retired';
CREATE INDEX agents_of_tenant ON agents (tenant_id, id);
CREATE INDEX agents_owner ON agents (owner_user_id, id) WHERE owner_user_id IS NOT NULL;
CREATE INDEX agents_template_id ON agents (template_id) WHERE template_id IS NOT NULL;
CREATE INDEX agents_application_id ON agents (application_id) WHERE application_id IS NOT NULL;
CREATE INDEX agents_synthetic ON agents (id) WHERE synthetic;
CREATE INDEX agents_search ON agents USING gin (search_text gin_trgm_ops);
CREATE INDEX agents_created ON agents (created_at, id);
CREATE INDEX agents_tenant_created ON agents (tenant_id, created_at, id);
CREATE INDEX agents_status_created ON agents (status, created_at, id);
CREATE INDEX agents_by_name ON agents (name COLLATE "und-x-icu", id);
CREATE INDEX agents_tenant_name ON agents (tenant_id, name COLLATE "und-x-icu", id);
CREATE INDEX agents_seen ON agents ((CASE WHEN last_seen_at IS NULL THEN 'epoch' ELSE last_seen_at END), id);
CREATE INDEX agents_tenant_seen ON agents (tenant_id, (CASE WHEN last_seen_at IS NULL THEN 'epoch' ELSE last_seen_at END), id);
CREATE TRIGGER agents_holders AFTER INSERT OR UPDATE OF created_by ON agents
FOR EACH ROW EXECUTE FUNCTION record_holders('agent', 'id');
ALTER TABLE agents ENABLE ROW LEVEL SECURITY;
CREATE POLICY agents_of_tenant ON agents
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));

-- Agents as their templates bound them.
CREATE VIEW bounded_agents WITH (security_invoker = true) AS
SELECT a.id, a.tenant_id, a.status, a.scope_ceiling, t.scope_ceiling AS template_ceiling,
  least(a.max_credential_ttl_seconds, t.max_credential_ttl_seconds) AS max_credential_ttl_seconds,
  least(a.per_turn_budget, t.per_turn_budget) AS per_turn_budget, a.allowed_task_types, a.default_task_type,
  agent_version(a.updated_at, t.updated_at) AS version, a.application_id, a.expires_at, a.synthetic, a.created_by
FROM agents a LEFT JOIN agent_templates t ON t.id = a.template_id;

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
);
CREATE INDEX agent_keys_of_tenant ON agent_keys (tenant_id, id);
CREATE TRIGGER agent_keys_holders AFTER INSERT OR UPDATE OF created_by ON agent_keys
FOR EACH ROW EXECUTE FUNCTION record_holders('agent', 'agent_id');
ALTER TABLE agent_keys ENABLE ROW LEVEL SECURITY;
CREATE POLICY agent_keys_of_tenant ON agent_keys
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));

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
);
CREATE INDEX delegation_grants_agent ON delegation_grants (agent_id, subject_type, subject, id);
CREATE INDEX delegation_grants_of_tenant ON delegation_grants (tenant_id, id);
-- An agent may act for many users: its grants are listed in the order of their last use.
CREATE INDEX delegation_grants_used ON delegation_grants (agent_id, (CASE WHEN last_used_at IS NULL THEN 'epoch' ELSE last_used_at END), id);
ALTER TABLE delegation_grants ENABLE ROW LEVEL SECURITY;
CREATE POLICY delegation_grants_of_tenant ON delegation_grants
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));

-- Whether a credential is valid is computed, never stored: it is valid while it and those in ancestor_ids are,
-- with their agents, grants and keys. So revoking any of them also revokes all descendants, including those minted
-- concurrently.
CREATE TABLE agent_credentials (
  id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL,
  agent_id uuid NOT NULL,
  agent_key_id uuid,
  grant_id uuid,
  subject text NOT NULL,
  actors uuid[] NOT NULL,
  ancestor_ids uuid[] NOT NULL,
  max_depth integer NOT NULL,
  scopes text[] NOT NULL,
  issued_at timestamptz NOT NULL,
  issued_by text NOT NULL,
  expires_at timestamptz NOT NULL,
  revoked_at timestamptz,
  -- The sign-in that the credential was minted from, if any; the credential ends with it.
  session_id uuid,
  CHECK (cardinality(ancestor_ids) <= 32)
);
CREATE INDEX agent_credentials_agent ON agent_credentials (agent_id, id);
CREATE INDEX agent_credentials_expired ON agent_credentials (expires_at);
CREATE INDEX agent_credentials_of_tenant ON agent_credentials (tenant_id, id);
ALTER TABLE agent_credentials ENABLE ROW LEVEL SECURITY;
CREATE POLICY agent_credentials_of_tenant ON agent_credentials
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));
REVOKE INSERT ON agent_credentials FROM application_manager;

-- The assertions that were used, kept until they have expired.
CREATE TABLE agent_assertions (
  agent_id uuid NOT NULL,
  jti text NOT NULL,
  expires_at timestamptz NOT NULL,
  PRIMARY KEY (agent_id, jti)
);
CREATE INDEX agent_assertions_expired ON agent_assertions (expires_at);
REVOKE INSERT, UPDATE ON agent_assertions FROM application_manager;

CREATE TABLE registration_tokens (
  id uuid PRIMARY KEY DEFAULT new_id(),
  token_sha256 bytea NOT NULL CONSTRAINT registration_tokens_sha256 UNIQUE,
  uses integer NOT NULL CHECK (uses > 0),
  remaining_uses integer NOT NULL CHECK (remaining_uses BETWEEN 0 AND uses),
  expires_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL,
  created_by text NOT NULL
);

-- What an application said of itself when it registered, under the id of the application.
CREATE TABLE application_registrations (
  id integer PRIMARY KEY REFERENCES applications (id) ON DELETE CASCADE,
  access_token_sha256 bytea NOT NULL,
  client_name text,
  client_uri text,
  redirect_uris text[] NOT NULL,
  jwks jsonb,
  jwks_uri text,
  contacts text[] NOT NULL,
  software_id text,
  software_version text,
  requested_scopes text[] NOT NULL,
  -- The key that the approval issued; those that took its place refer to it.
  api_key_id uuid REFERENCES api_keys (id),
  -- That key until the application has read it.
  sealed_secret bytea,
  registration_token_id uuid,
  created_at timestamptz NOT NULL,
  updated_at timestamptz NOT NULL,
  CHECK (sealed_secret IS NULL OR api_key_id IS NOT NULL)
);
`,
  ["agent_version"]
)
