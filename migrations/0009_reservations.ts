import { script } from "../src/platform/database/migration-steps.ts"

export default script(
  `
-- What a reservation asks for, as budgets_reserve takes it. It has \`caps\` where it has an idempotency key: for its answer,
-- which is kept; and \`governing\`, the places of its own among those of the batch, where they are not all.
CREATE TYPE budget_request AS (
  id uuid,
  tenant_id uuid,
  kind text,
  origin text,
  agent_id uuid,
  plan_id uuid,
  application_id integer,
  api_key_id uuid,
  user_id text,
  model text,
  provider text,
  task_type text,
  amount bigint,
  tokens bigint,
  ttl_seconds integer,
  created_by text,
  metadata jsonb,
  reason text,
  confined boolean,
  caps jsonb,
  governing integer[]
);

-- What a batch needs of one counter; null where that is more than any counter can hold. Beside it the limit of the cap, and
-- the most that it admits without a decision: a cap that refuses nothing admits what a counter can hold.
CREATE TYPE budget_need AS (
  tenant_id uuid,
  cap_id uuid,
  counter_key text,
  need bigint,
  limit_amount bigint,
  most bigint
);

-- A counter while a batch is decided: what its cap allows, what it has with what the batch has been given so far, and how much
-- of \`reserved\` the batch adds. \`id\` is null where plans hold all that the batch needs of it. \`ends\` is the end of its period in
-- milliseconds, null where it has none. \`has_due\` says whether something is to be swept that may free it; null where that was
-- not looked up yet.
CREATE TYPE budget_counter_state AS (
  tenant_id uuid,
  cap_id uuid,
  counter_key text,
  id uuid,
  unit text,
  mode text,
  limit_amount bigint,
  spent bigint,
  reserved bigint,
  added bigint,
  ends bigint,
  has_thresholds boolean,
  has_due boolean
);

-- A counter that governs a request: its place among those of the batch. Where the request's plan holds what is needed of it,
-- \`held_until\` is the end of the period that the plan holds it in.
CREATE TYPE budget_governing AS (place integer, held_until timestamptz);

-- What is decided of a request; \`verdict\` is null until it is. \`counter_ids\` are the counters that it is counted on, those of
-- its plan first. \`headrooms\` are what the counters in \`governs\` have left after it, and \`ends\` when their periods end, null
-- where they never do: both as the answer has them, in text and in milliseconds. Where one of these counters has too little
-- left, \`lacking\` is its place among those of the batch, and \`shortage\` the counter at that moment.
CREATE TYPE budget_verdict AS (
  verdict text,
  governs budget_governing[],
  counter_ids uuid[],
  headrooms text[],
  ends bigint[],
  lacking integer,
  shortage budget_counter_state
);

-- A reservation that is closed or expires: whether it was open, and so holds what it reserved; and its charge with the actual
-- cost, which is none where \`charge_id\` is null.
CREATE TYPE budget_movement AS (
  tenant_id uuid,
  id uuid,
  holds boolean,
  charge_id uuid,
  amount bigint,
  tokens bigint
);

-- What a batch of settlements changes of one counter, whatever its unit: it frees what was reserved, and charges the rest.
CREATE TYPE budget_counter_change AS (
  counter uuid,
  freed_amount bigint,
  freed_tokens bigint,
  charged_amount bigint,
  charged_tokens bigint,
  requests bigint
);

CREATE DOMAIN budget_origin AS text CHECK (VALUE IN ('api', 'gateway', 'plan'));

CREATE TABLE budget_reservations (
  tenant_id uuid NOT NULL,
  id uuid NOT NULL,
  state budget_reservation_state NOT NULL,
  origin budget_origin NOT NULL,
  agent_id uuid,
  plan_id uuid,
  application_id integer,
  api_key_id uuid,
  user_id text,
  model text,
  provider text,
  task_type text,
  amount budget_quantity NOT NULL,
  tokens budget_quantity NOT NULL,
  ttl_seconds budget_seconds NOT NULL,
  expires_at timestamptz NOT NULL,
  created_at timestamptz NOT NULL,
  created_by text NOT NULL,
  metadata jsonb,
  counter_ids uuid[] NOT NULL,
  answer jsonb,
  decided_at timestamptz,
  decided_by text,
  decision_reason text,
  closed_at timestamptz,
  charge_id uuid,
  actual bigint,
  actual_tokens bigint,
  late boolean NOT NULL DEFAULT false,
  -- While a call of the gateway uses a reservation that was made before it: the charge that the call is to make, by which only
  -- this call moves or returns the reservation, and what it is when it is returned.
  transferred jsonb,
  -- The only duplicates here are versions of one row: to look for them costs more than they take.
  PRIMARY KEY (tenant_id, id) WITH (deduplicate_items = off),
  -- Its text is short, since PostgreSQL reads it in each statement.
  CONSTRAINT budget_reservations_charge CHECK (budget_guard_reservation(state, charge_id))
) WITH (fillfactor = 90);
CREATE INDEX budget_reservations_due ON budget_reservations (expires_at) WHERE state IN ('open', 'held');
CREATE INDEX budget_reservations_id ON budget_reservations (id) WITH (deduplicate_items = off);
CREATE INDEX budget_reservations_agent ON budget_reservations (tenant_id, agent_id, id) WHERE agent_id IS NOT NULL;
CREATE INDEX budget_reservations_plan ON budget_reservations (tenant_id, plan_id, id) WHERE plan_id IS NOT NULL;
-- The other states are rare and queried by state. A reserve and its settlement do not touch this index.
CREATE INDEX budget_reservations_aside ON budget_reservations (tenant_id, state, id)
WHERE state IN ('held', 'denied', 'expired', 'released');
ALTER TABLE budget_reservations ENABLE ROW LEVEL SECURITY;
CREATE POLICY budget_reservations_of_tenant ON budget_reservations
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));
REVOKE INSERT, UPDATE, DELETE ON budget_reservations FROM application_manager;

-- All charges and refunds; append-only. Each entry lists the counters that it changed, with the bucket of rolling ones.
CREATE TABLE budget_entries (
  tenant_id uuid NOT NULL,
  id uuid NOT NULL,
  reservation_id uuid NOT NULL,
  kind text NOT NULL CHECK (kind IN ('charge', 'refund')),
  charge_id uuid NOT NULL,
  amount bigint NOT NULL,
  tokens bigint NOT NULL,
  requests integer NOT NULL,
  overrun bigint NOT NULL DEFAULT 0,
  late boolean NOT NULL DEFAULT false,
  reason text,
  usage jsonb,
  metadata jsonb,
  occurred_at timestamptz NOT NULL,
  created_by text NOT NULL,
  counter_ids uuid[] NOT NULL,
  buckets bigint[] NOT NULL,
  PRIMARY KEY (tenant_id, id),
  CHECK ((kind = 'charge' AND amount >= 0 AND charge_id = id) OR (kind = 'refund' AND amount < 0))
);
CREATE INDEX budget_entries_charge ON budget_entries (tenant_id, charge_id) WHERE kind = 'refund';
-- System callers name a charge and no tenant.
CREATE INDEX budget_entries_id ON budget_entries (id);
ALTER TABLE budget_entries ENABLE ROW LEVEL SECURITY;
CREATE POLICY budget_entries_of_tenant ON budget_entries
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));
REVOKE INSERT, UPDATE, DELETE ON budget_entries FROM application_manager;

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
`,
  ["budget_guard_reservation"]
)
