import { script } from "../src/platform/database/migration-steps.ts"

export default script(
  `
-- Files that callers uploaded to a provider, without their content.
CREATE TABLE gateway_files (
  tenant_id uuid NOT NULL REFERENCES tenants (id),
  id uuid NOT NULL,
  created_by text NOT NULL,
  provider text NOT NULL,
  -- The provider's own id.
  provider_id text NOT NULL,
  purpose text NOT NULL,
  -- The file as its provider describes it.
  answer jsonb NOT NULL,
  -- What the requests of an input of batches may cost at most, per model; null for other files.
  terms jsonb,
  -- The model of each request by a hash of its id, where there are several.
  places bytea,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, id),
  UNIQUE (tenant_id, provider, provider_id)
);
CREATE INDEX gateway_files_age ON gateway_files (created_at);
ALTER TABLE gateway_files ENABLE ROW LEVEL SECURITY;
CREATE POLICY gateway_files_of_tenant ON gateway_files
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));
REVOKE UPDATE ON gateway_files FROM application_manager;

-- Batches of requests, which run at a provider for hours. The states:
--   holding     its budget is being reserved; nothing was sent
--   submitting  it is being sent, or was, and the provider's answer is not known
--   running     the provider has it
--   settled     charged, by its results or, at the end of its hold, by what was held
--   released    nothing of it was charged
CREATE TABLE gateway_batches (
  tenant_id uuid NOT NULL REFERENCES tenants (id),
  id uuid NOT NULL,
  created_by text NOT NULL,
  dialect text NOT NULL,
  provider text NOT NULL,
  -- The provider's own id; null until it is known.
  provider_id text,
  state text NOT NULL CHECK (state IN ('holding', 'submitting', 'running', 'settled', 'released')),
  -- Where its requests go, and of each model its reservation, what is held, and the prices that it is charged at.
  terms jsonb NOT NULL,
  -- The model of each request by a hash of its id, where there are several.
  places bytea,
  -- The batch as its provider described it last; null until it did.
  answer jsonb,
  created_at timestamptz NOT NULL,
  held_until timestamptz NOT NULL,
  -- When a replica may take it up, which moves this ahead while it is at work on it.
  due_at timestamptz NOT NULL,
  failures integer NOT NULL DEFAULT 0,
  closed_at timestamptz,
  PRIMARY KEY (tenant_id, id),
  UNIQUE (tenant_id, provider, provider_id)
);
CREATE INDEX gateway_batches_due ON gateway_batches (due_at) WHERE closed_at IS NULL;
CREATE INDEX gateway_batches_age ON gateway_batches (closed_at) WHERE closed_at IS NOT NULL;
ALTER TABLE gateway_batches ENABLE ROW LEVEL SECURITY;
CREATE POLICY gateway_batches_of_tenant ON gateway_batches
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));
`
)
