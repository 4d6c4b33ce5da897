import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- Episodes of cost that were improbable and worth money, and what the rules found; amounts in nano-dollars.
CREATE TABLE anomalies (
  tenant_id uuid NOT NULL,
  id uuid NOT NULL DEFAULT new_id() PRIMARY KEY,
  dimension text NOT NULL CHECK (dimension IN ('agent', 'model', 'task-type', 'plan', 'cap')),
  key text NOT NULL,
  kind text NOT NULL CHECK (kind IN ('spike', 'level-shift', 'loop', 'burn-rate', 'new')),
  starts_at timestamptz NOT NULL,
  ends_at timestamptz NOT NULL,
  detected_at timestamptz NOT NULL,
  expected bigint NOT NULL,
  actual bigint NOT NULL,
  score double precision NOT NULL,
  contributors jsonb NOT NULL,
  status text NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'acknowledged', 'dismissed')),
  reason text
);
CREATE INDEX anomalies_tenant ON anomalies (tenant_id, id);
CREATE INDEX anomalies_key ON anomalies (tenant_id, dimension, key, ends_at);
ALTER TABLE anomalies ENABLE ROW LEVEL SECURITY;
CREATE POLICY anomalies_of_tenant ON anomalies USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));
REVOKE DELETE ON anomalies FROM application_manager;

-- Up to which hour anomalies were looked for; who locks its only row looks.
CREATE TABLE anomaly_progress (through timestamptz NOT NULL);
INSERT INTO anomaly_progress (through) VALUES ('-infinity');
REVOKE INSERT, DELETE ON anomaly_progress FROM application_manager;
`
)
