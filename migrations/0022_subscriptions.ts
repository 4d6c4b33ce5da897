import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
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
`
)
