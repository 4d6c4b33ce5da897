import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
CREATE DOMAIN usage_method AS text CHECK (VALUE IN (
  'provider_usage', 'aborted', 'estimated', 'unanswered', 'expired', 'reported', 'released', 'refunded', 'cached'));

-- Everything that was charged or refunded, and the gateway's calls that cost nothing. Written by the statement that
-- settles, so that a row exists exactly where an entry of the ledger does. Tokens are null where they are unknown. Prompts
-- and completions are not stored here.
CREATE TABLE usage_rows (
  tenant_id uuid NOT NULL,
  reservation_id uuid,
  charge_id uuid,
  agent_id uuid,
  plan_id uuid,
  api_key_id uuid,
  occurred_at timestamptz NOT NULL,
  -- The statement that wrote the row, by which the outbox names it.
  batch bigint NOT NULL,
  -- Nano-dollars; below zero for a refund.
  cost bigint NOT NULL,
  -- What the provider's cache, or the gateway's own, saved.
  saved budget_quantity NOT NULL DEFAULT 0,
  input_tokens bigint,
  output_tokens bigint,
  cached_input_tokens bigint,
  cache_write_tokens bigint,
  cache_write_1h_tokens bigint,
  reasoning_tokens bigint,
  latency_ms bigint,
  upstream_latency_ms bigint,
  time_to_first_token_ms bigint,
  application_id integer,
  status integer,
  late boolean NOT NULL DEFAULT false,
  method usage_method NOT NULL,
  created_by text NOT NULL,
  user_id text,
  task_type text,
  operation text,
  dialect text,
  model_asked text,
  model text,
  model_served text,
  provider text,
  catalogue_version text,
  trace_id text,
  rates jsonb,
  attempts jsonb,
  metadata jsonb,
  tool_uses jsonb
) PARTITION BY RANGE (occurred_at);
CREATE INDEX usage_rows_tenant ON usage_rows (tenant_id, occurred_at);
CREATE INDEX usage_rows_time ON usage_rows USING brin (occurred_at);
ALTER TABLE usage_rows ENABLE ROW LEVEL SECURITY;
-- The setting is read once in a statement, and not for each row.
CREATE POLICY usage_rows_of_tenant ON usage_rows USING (
  (SELECT current_setting('app.tenant_id', true)) = '*'
  OR tenant_id::text = (SELECT current_setting('app.tenant_id', true)));
REVOKE INSERT, UPDATE, DELETE ON usage_rows FROM application_manager;

-- The default partition takes rows outside all months, so that no charge fails because a partition is missing.
CREATE TABLE usage_rows_default PARTITION OF usage_rows DEFAULT;
REVOKE ALL ON usage_rows_default FROM application_manager;
ALTER TABLE usage_rows_default ENABLE ROW LEVEL SECURITY;
CREATE POLICY usage_rows_of_tenant ON usage_rows_default USING (sees_tenant(tenant_id));

-- What a row counts for in sums. A cache hit or a refund is no request.
CREATE VIEW usage_facts WITH (security_invoker = true) AS
SELECT u.tenant_id, u.occurred_at, u.batch, u.agent_id, u.model, u.provider, u.task_type, u.application_id, u.plan_id,
  u.user_id, u.api_key_id, u.cost, u.saved,
  (u.method NOT IN ('refunded', 'cached'))::integer AS requests,
  (u.method IN ('unanswered', 'expired') OR (u.method NOT IN ('aborted', 'refunded', 'cached')
    AND coalesce(u.status >= 400, false)))::integer AS errors,
  coalesce(CASE WHEN u.method <> 'cached' THEN u.input_tokens END, 0) AS input_tokens,
  coalesce(CASE WHEN u.method <> 'cached' THEN u.output_tokens END, 0) AS output_tokens,
  coalesce(CASE WHEN u.method <> 'cached' THEN u.cached_input_tokens END, 0) AS cached_input_tokens,
  CASE WHEN u.method <> 'cached' THEN usage_latency_bucket(u.latency_ms) END AS bucket
FROM usage_rows u WHERE u.method <> 'released';

-- The rows that no roll-up has yet: one for each statement that wrote some, and each tenant of it.
CREATE SEQUENCE usage_batches;
CREATE TABLE usage_outbox (
  batch bigint NOT NULL,
  tenant_id uuid NOT NULL,
  occurred_at timestamptz NOT NULL,
  PRIMARY KEY (batch, tenant_id)
);
ALTER TABLE usage_outbox ENABLE ROW LEVEL SECURITY;
CREATE POLICY usage_outbox_of_tenant ON usage_outbox USING (sees_tenant(tenant_id));
REVOKE INSERT, UPDATE, DELETE ON usage_outbox FROM application_manager;

-- Sums of usage rows for each day and hour, in UTC, of each value of a dimension; of all rows for each quarter of an hour,
-- too. A row without the dimension counts under the empty key.
CREATE TABLE usage_rollups (
  tenant_id uuid NOT NULL,
  dimension smallint NOT NULL,
  -- d(ay), h(our), q(uarter)
  grain "char" NOT NULL,
  start timestamptz NOT NULL,
  key text NOT NULL,
  cost bigint NOT NULL,
  requests bigint NOT NULL,
  errors bigint NOT NULL,
  input_tokens bigint NOT NULL,
  output_tokens bigint NOT NULL,
  cached_input_tokens bigint NOT NULL,
  saved bigint NOT NULL,
  -- A histogram: each element is a bucket (the power of 1.1 that bounds it) in its upper half and a count in its lower.
  latencies bigint[],
  PRIMARY KEY (tenant_id, dimension, grain, start, key)
) WITH (fillfactor = 90);
ALTER TABLE usage_rollups ENABLE ROW LEVEL SECURITY;
CREATE POLICY usage_rollups_of_tenant ON usage_rollups USING (
  (SELECT current_setting('app.tenant_id', true)) = '*'
  OR tenant_id::text = (SELECT current_setting('app.tenant_id', true)));
REVOKE INSERT, UPDATE, DELETE ON usage_rollups FROM application_manager;

SELECT usage_make_partitions(
  coalesce((SELECT min(occurred_at) FROM budget_entries), now()),
  (extract(epoch FROM now() - coalesce((SELECT min(occurred_at) FROM budget_entries), now())) / 2592000)::integer + 4);

-- What was charged before: the calls of the gateway with their details, what was reported, and refunds.
CREATE TEMPORARY TABLE usage_before ON COMMIT DROP AS
SELECT g.tenant_id, g.reservation_id, g.charge_id, g.agent_id, g.plan_id, g.api_key_id, g.occurred_at,
  g.cost::bigint AS cost, g.input_tokens, g.output_tokens, g.cached_input_tokens, g.cache_write_tokens,
  g.cache_write_1h_tokens, g.reasoning_tokens, g.latency_ms, g.upstream_latency_ms, g.time_to_first_token_ms,
  g.application_id, g.status, false AS late, g.method::text AS method, g.created_by, g.user_id, g.task_type, g.operation,
  g.dialect, g.model_asked, g.model, g.model_served, g.provider, g.catalogue_version, g.trace_id, g.rates, g.attempts,
  g.metadata, g.tool_uses
FROM gateway_usage g;
INSERT INTO usage_before (tenant_id, reservation_id, charge_id, agent_id, plan_id, api_key_id, occurred_at, cost,
  application_id, late, method, created_by, user_id, task_type, model, provider, metadata)
SELECT e.tenant_id, e.reservation_id, e.charge_id, r.agent_id, r.plan_id, r.api_key_id, e.occurred_at, e.amount,
  r.application_id, e.late, CASE e.kind WHEN 'refund' THEN 'refunded' ELSE 'reported' END, e.created_by, r.user_id,
  r.task_type, r.model, coalesce(g.provider, r.provider), e.metadata
FROM budget_entries e JOIN budget_reservations r ON r.tenant_id = e.tenant_id AND r.id = e.reservation_id
LEFT JOIN gateway_usage g ON g.tenant_id = e.tenant_id AND g.charge_id = e.charge_id
WHERE e.kind = 'refund' OR g.charge_id IS NULL;
INSERT INTO usage_rows (tenant_id, reservation_id, charge_id, agent_id, plan_id, api_key_id, occurred_at, batch, cost,
  saved, input_tokens, output_tokens, cached_input_tokens, cache_write_tokens, cache_write_1h_tokens, reasoning_tokens,
  latency_ms, upstream_latency_ms, time_to_first_token_ms, application_id, status, late, method, created_by, user_id,
  task_type, operation, dialect, model_asked, model, model_served, provider, catalogue_version, trace_id, rates, attempts,
  metadata, tool_uses)
SELECT b.tenant_id, b.reservation_id, b.charge_id, b.agent_id, b.plan_id, b.api_key_id, b.occurred_at,
  dense_rank() OVER (ORDER BY b.occurred_at), b.cost, usage_saved(b.rates, b.cached_input_tokens), b.input_tokens,
  b.output_tokens, b.cached_input_tokens, b.cache_write_tokens, b.cache_write_1h_tokens, b.reasoning_tokens,
  b.latency_ms, b.upstream_latency_ms, b.time_to_first_token_ms, b.application_id, b.status, b.late, b.method,
  b.created_by, b.user_id, b.task_type, b.operation, b.dialect, b.model_asked, b.model, b.model_served, b.provider,
  b.catalogue_version, b.trace_id, b.rates, b.attempts, b.metadata, b.tool_uses
FROM usage_before b;
INSERT INTO usage_outbox (batch, tenant_id, occurred_at) SELECT DISTINCT batch, tenant_id, occurred_at FROM usage_rows;
SELECT setval('usage_batches', (SELECT coalesce(max(batch), 0) + 1 FROM usage_rows));
DROP TABLE usage_before;
DROP TABLE gateway_usage;
DROP DOMAIN gateway_usage_method;
`,
  ["audit_close_partition", "make_month_partitions", "usage_make_partitions", "usage_saved", "usage_latency_bucket"]
)
