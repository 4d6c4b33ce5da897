import { script } from "../src/platform/database/migrations.ts"

export default script(`
-- Turns of conversations of the Responses API, encrypted, for the turns that refer to them. Deleted when they expire.
CREATE TABLE gateway_responses (
  tenant_id uuid NOT NULL REFERENCES tenants (id),
  id uuid NOT NULL,
  previous_id uuid,
  created_by text NOT NULL,
  sealed bytea NOT NULL,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX gateway_responses_age ON gateway_responses (created_at);
ALTER TABLE gateway_responses ENABLE ROW LEVEL SECURITY;
CREATE POLICY gateway_responses_of_tenant ON gateway_responses
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));
REVOKE UPDATE ON gateway_responses FROM application_manager;
`)
