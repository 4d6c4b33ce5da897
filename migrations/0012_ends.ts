import { script } from "../src/platform/database/migrations.ts"

export default script(`
-- What a credential with an end, or one of an application, created ends with it and belongs to the application.
ALTER TABLE accounts
  ADD COLUMN application_id integer CONSTRAINT accounts_application REFERENCES applications (id),
  ADD COLUMN expires_at timestamptz;
CREATE INDEX accounts_application_id ON accounts (application_id) WHERE application_id IS NOT NULL;

ALTER TABLE agents
  ADD COLUMN application_id integer CONSTRAINT agents_application REFERENCES applications (id),
  ADD COLUMN expires_at timestamptz;
CREATE INDEX agents_application_id ON agents (application_id) WHERE application_id IS NOT NULL;

CREATE OR REPLACE VIEW bounded_agents WITH (security_invoker = true) AS
SELECT a.id, a.tenant_id, a.status, a.scope_ceiling, t.scope_ceiling AS template_ceiling,
  least(a.max_credential_ttl_seconds, t.max_credential_ttl_seconds) AS max_credential_ttl_seconds,
  least(a.per_turn_budget, t.per_turn_budget) AS per_turn_budget, a.allowed_task_types, a.default_task_type,
  agent_version(a.updated_at, t.updated_at) AS version, a.application_id, a.expires_at
FROM agents a LEFT JOIN agent_templates t ON t.id = a.template_id;
`)
