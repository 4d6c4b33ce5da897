import { script } from "../src/platform/database/migrations.ts"

export default script(`
-- When what an event reports happened, by its own \`time\`; \`occurred_at\` is the moment that it is booked at.
ALTER TABLE usage_rows ADD COLUMN happened_at timestamptz;
CREATE INDEX usage_rows_moved ON usage_rows (tenant_id, occurred_at) WHERE happened_at <> occurred_at;
-- \`booked_from\`: what happened before it is booked as of now.
ALTER TYPE budget_closing ADD ATTRIBUTE happened_at timestamptz, ADD ATTRIBUTE booked_from timestamptz;
-- The rows of one statement may be of several moments, and of others than that at which they were written.
ALTER TABLE usage_outbox ADD COLUMN written_at timestamptz NOT NULL DEFAULT now(), DROP CONSTRAINT usage_outbox_pkey,
  ADD PRIMARY KEY (batch, tenant_id, occurred_at);

-- The ranges of signed bills, and of those that are being made: nothing is booked into them any more. One of all tenants has
-- no tenant, one of all agents no agent.
CREATE TABLE billing_closings (
  id uuid PRIMARY KEY,
  tenant_id uuid,
  agent_id uuid,
  opens timestamptz NOT NULL,
  closes timestamptz NOT NULL,
  begun_at timestamptz NOT NULL,
  signed_at timestamptz
);
CREATE INDEX billing_closings_of_tenant ON billing_closings (tenant_id, closes);
ALTER TABLE billing_closings ENABLE ROW LEVEL SECURITY;
CREATE POLICY billing_closings_of_tenant ON billing_closings
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));
INSERT INTO billing_closings (id, tenant_id, opens, closes, begun_at, signed_at)
SELECT s.id, s.tenant_id, (p.predicate->>'from')::timestamptz, least((p.predicate->>'to')::timestamptz, s.created_at),
  s.created_at, s.created_at
FROM billing_statements s CROSS JOIN LATERAL (
  SELECT convert_from(decode(s.envelope->>'payload', 'base64'), 'UTF8')::jsonb->'predicate' AS predicate) p;
`)
