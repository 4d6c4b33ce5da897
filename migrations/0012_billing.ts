import { script } from "../src/platform/database/migration-steps.ts"

export default script(
  `
-- Signed statements about billing reports; one about all tenants has none.
CREATE TABLE billing_statements (
  id uuid PRIMARY KEY,
  tenant_id uuid,
  envelope jsonb NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE billing_statements ENABLE ROW LEVEL SECURITY;
CREATE POLICY billing_statements_of_tenant ON billing_statements
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));
REVOKE UPDATE, DELETE ON billing_statements FROM application_manager;

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
-- What books usage asks whether a range was closed since it began.
CREATE INDEX billing_closings_closes ON billing_closings (closes);
ALTER TABLE billing_closings ENABLE ROW LEVEL SECURITY;
CREATE POLICY billing_closings_of_tenant ON billing_closings
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));

-- What tenants have bought of providers ahead: a quota for each period, and a change of it that waits for the next one.
CREATE TABLE subscriptions (
  tenant_id uuid NOT NULL REFERENCES tenants (id),
  id uuid NOT NULL DEFAULT new_id(),
  provider text NOT NULL,
  name text NOT NULL,
  plan text,
  price bigint NOT NULL CHECK (price >= 0),
  quota jsonb NOT NULL,
  period text NOT NULL CHECK (period IN ('day', 'week', 'month', 'quarter', 'year')),
  anchor integer,
  time_zone text NOT NULL,
  starts_at timestamptz NOT NULL,
  ends_at timestamptz,
  overage text NOT NULL CHECK (overage IN ('allow', 'deny')),
  pending jsonb,
  created_at timestamptz NOT NULL,
  created_by text NOT NULL,
  updated_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, id),
  CHECK (ends_at > starts_at)
);
CREATE UNIQUE INDEX subscriptions_id ON subscriptions (id);
ALTER TABLE subscriptions ENABLE ROW LEVEL SECURITY;
CREATE POLICY subscriptions_of_tenant ON subscriptions
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));

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
