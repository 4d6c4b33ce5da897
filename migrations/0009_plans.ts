import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- A plan has a counter of its own, under the plan's id, for what its calls have spent and reserved. It reserves its
-- remaining budget on the counters in counter_ids (with their caps and keys): a call shifts budget between the plan and
-- itself there, so the sum stays the same.
CREATE TABLE budget_plans (
  tenant_id uuid NOT NULL,
  id uuid NOT NULL,
  agent_id uuid NOT NULL,
  application_id integer,
  task_type text,
  name text,
  status text NOT NULL CHECK (status IN ('active', 'suspended', 'completed', 'aborted', 'expired')),
  budget bigint NOT NULL CHECK (budget >= 0),
  heartbeat_seconds integer NOT NULL CHECK (heartbeat_seconds > 0),
  heartbeat_by timestamptz NOT NULL,
  expires_at timestamptz,
  dead_at timestamptz NOT NULL,
  metadata jsonb,
  created_at timestamptz NOT NULL,
  created_by text NOT NULL,
  ended_at timestamptz,
  counter_ids uuid[] NOT NULL,
  held_caps uuid[] NOT NULL,
  held_keys text[] NOT NULL,
  PRIMARY KEY (tenant_id, id),
  CHECK ((status IN ('active', 'suspended')) = (ended_at IS NULL)),
  CHECK (cardinality(counter_ids) = cardinality(held_caps) AND cardinality(counter_ids) = cardinality(held_keys))
) WITH (fillfactor = 80);
CREATE INDEX budget_plans_agent ON budget_plans (tenant_id, agent_id, id);
CREATE INDEX budget_plans_id ON budget_plans (id);
CREATE INDEX budget_plans_dead ON budget_plans (dead_at) WHERE status IN ('active', 'suspended');
CREATE INDEX budget_plans_silent ON budget_plans (heartbeat_by) WHERE status = 'active';
ALTER TABLE budget_plans ENABLE ROW LEVEL SECURITY;
CREATE POLICY budget_plans_of_tenant ON budget_plans
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));
REVOKE INSERT, UPDATE, DELETE ON budget_plans FROM application_manager;
`
)
