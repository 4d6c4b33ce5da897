import { script } from "../src/platform/database/migration-steps.ts"

export default script(
  `
-- Usage rows are most of what the database keeps: a method has four bytes, a latency four, and a status of HTTP two.
CREATE TYPE usage_row_method AS ENUM (
  'provider_usage', 'aborted', 'estimated', 'unanswered', 'expired', 'reported', 'released', 'refunded', 'cached');
CREATE CAST (text AS usage_row_method) WITH INOUT AS ASSIGNMENT;

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
  latency_ms integer,
  upstream_latency_ms integer,
  time_to_first_token_ms integer,
  application_id integer,
  status smallint,
  late boolean NOT NULL DEFAULT false,
  method usage_row_method NOT NULL,
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
  -- How often a call used each tool that its provider runs and bills; null where there were none.
  tool_uses jsonb,
  synthetic boolean NOT NULL DEFAULT false,
  -- When what an event reports happened, by its own \`time\`; \`occurred_at\` is the moment that it is booked at.
  happened_at timestamptz,
  -- What a call was charged by besides its rates and its tokens of text: the tier, speed and geography that the answer named,
  -- tokens of media with a price of their own, and whether the provider's own cost was charged. Null where there is none.
  price_terms jsonb,
  -- Why it failed: a code and a short message of the service's own. A provider's text is not stored, since it may repeat the
  -- prompt. Null where it did not fail.
  error jsonb
) PARTITION BY RANGE (occurred_at);
CREATE INDEX usage_rows_tenant ON usage_rows (tenant_id, occurred_at);
CREATE INDEX usage_rows_time ON usage_rows USING brin (occurred_at);
CREATE INDEX usage_rows_synthetic ON usage_rows (tenant_id, occurred_at) WHERE synthetic;
-- Few rows failed, and a list of these would read all of them.
CREATE INDEX usage_rows_failed ON usage_rows (tenant_id, occurred_at)
WHERE status >= 400 OR method IN ('unanswered', 'expired', 'released');
CREATE INDEX usage_rows_moved ON usage_rows (tenant_id, occurred_at) WHERE happened_at <> occurred_at;
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

-- What a row counts for in sums, of both kinds: synthetic rows are in no roll-up. A cache hit or a refund is no request, nor is
-- what was released; but a call that its providers failed is one, and an error.
CREATE VIEW usage_counted WITH (security_invoker = true) AS
SELECT u.tenant_id, u.occurred_at, u.batch, u.agent_id, u.model, u.provider, u.task_type, u.application_id, u.plan_id,
  u.user_id, u.api_key_id, u.cost, u.saved,
  (u.method NOT IN ('refunded', 'cached'))::integer AS requests,
  (u.method IN ('unanswered', 'expired', 'released') OR (u.method NOT IN ('aborted', 'refunded', 'cached')
    AND coalesce(u.status >= 400, false)))::integer AS errors,
  coalesce(CASE WHEN u.method <> 'cached' THEN u.input_tokens END, 0) AS input_tokens,
  coalesce(CASE WHEN u.method <> 'cached' THEN u.output_tokens END, 0) AS output_tokens,
  coalesce(CASE WHEN u.method <> 'cached' THEN u.cached_input_tokens END, 0) AS cached_input_tokens,
  CASE WHEN u.method <> 'cached' THEN usage_latency_bucket(u.latency_ms) END AS bucket, u.synthetic
FROM usage_rows u WHERE u.method <> 'released' OR u.attempts <> '[]';
CREATE VIEW usage_facts WITH (security_invoker = true) AS
SELECT c.tenant_id, c.occurred_at, c.batch, c.agent_id, c.model, c.provider, c.task_type, c.application_id, c.plan_id,
  c.user_id, c.api_key_id, c.cost, c.saved, c.requests, c.errors, c.input_tokens, c.output_tokens, c.cached_input_tokens,
  c.bucket
FROM usage_counted c WHERE NOT c.synthetic;
-- The rows that a range of a report names: r has the usual ones, s the synthetic ones.
CREATE VIEW usage_sources WITH (security_invoker = true) AS
SELECT 'r' AS grain, c.* FROM usage_counted c WHERE NOT c.synthetic
UNION ALL SELECT 's', c.* FROM usage_counted c WHERE c.synthetic;
GRANT SELECT ON usage_counted, usage_facts, usage_sources TO application_manager;

-- The rows that no roll-up has yet: one for each statement that wrote some, and each tenant of it.
CREATE SEQUENCE usage_batches;
CREATE TABLE usage_outbox (
  batch bigint NOT NULL,
  tenant_id uuid NOT NULL,
  occurred_at timestamptz NOT NULL,
  -- The rows of one statement may be of several moments, and of others than that at which they were written.
  written_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (batch, tenant_id, occurred_at)
);
ALTER TABLE usage_outbox ENABLE ROW LEVEL SECURITY;
CREATE POLICY usage_outbox_of_tenant ON usage_outbox USING (sees_tenant(tenant_id));
REVOKE INSERT, UPDATE, DELETE ON usage_outbox FROM application_manager;

-- Sums of usage rows for each day and hour, in UTC, of each value of a dimension; of all rows for each quarter of an hour,
-- too. A row is a part of a day's sums and has a cell at each position of its arrays, which PostgreSQL compresses: what
-- is new is another part, and readers add all cells of all parts. A row of usage without the dimension counts under the empty key.
CREATE TABLE usage_rollups (
  tenant_id uuid NOT NULL,
  dimension smallint NOT NULL,
  -- w(eek), d(ay), h(our), q(uarter)
  grain "char" NOT NULL,
  -- In UTC; of a week the first, counted from 1970 on, or while it is not over, the day that the part is of.
  day date NOT NULL,
  -- How often parts were merged into this one; 9 for the parts of a day or a week that is over, 8 for a day of a week that is
  -- not.
  level smallint NOT NULL,
  keys text[] NOT NULL,
  -- Which hour or quarter of the day.
  places smallint[] NOT NULL,
  cost bigint[] NOT NULL,
  requests bigint[] NOT NULL,
  errors bigint[] NOT NULL,
  input_tokens bigint[] NOT NULL,
  output_tokens bigint[] NOT NULL,
  cached_input_tokens bigint[] NOT NULL,
  saved bigint[] NOT NULL,
  -- Histograms, one after the other in the order of the cells: where that of a cell ends, and so many calls of it have a
  -- latency in the bucket (the power of 1.1 that bounds it).
  latency_ends integer[],
  latency_buckets smallint[],
  latency_calls bigint[]
);
CREATE INDEX usage_rollups_place ON usage_rollups (tenant_id, dimension, grain, day);
CREATE INDEX usage_rollups_open ON usage_rollups (level, day, tenant_id, dimension, grain) WHERE level < 9;
ALTER TABLE usage_rollups ENABLE ROW LEVEL SECURITY;
CREATE POLICY usage_rollups_of_tenant ON usage_rollups USING (
  (SELECT current_setting('app.tenant_id', true)) = '*'
  OR tenant_id::text = (SELECT current_setting('app.tenant_id', true)));
REVOKE INSERT, UPDATE, DELETE ON usage_rollups FROM application_manager;

-- The cells of all parts, each with its start; a key may have several.
CREATE VIEW usage_cells WITH (security_invoker = true) AS
SELECT r.tenant_id, r.dimension, r.grain, r.day, (r.day::timestamp AT TIME ZONE 'UTC')
    + CASE r.grain WHEN 'q' THEN interval '15 minutes' ELSE interval '1 hour' END * c.place AS start,
  c.key, c.cost, c.requests, c.errors, c.input_tokens, c.output_tokens, c.cached_input_tokens, c.saved
FROM usage_rollups r CROSS JOIN LATERAL unnest(r.keys, r.places, r.cost, r.requests, r.errors, r.input_tokens,
  r.output_tokens, r.cached_input_tokens, r.saved)
  AS c(key, place, cost, requests, errors, input_tokens, output_tokens, cached_input_tokens, saved);
GRANT SELECT ON usage_cells TO application_manager;

-- When a replica last began to verify the roll-ups of usage.
CREATE TABLE usage_verification (claimed_at timestamptz NOT NULL);
INSERT INTO usage_verification (claimed_at) VALUES (now());
REVOKE INSERT, UPDATE, DELETE ON usage_verification FROM application_manager;

SELECT usage_make_partitions(now(), 4);
`,
  ["audit_close_partition", "make_month_partitions", "usage_make_partitions", "usage_latency_bucket"]
)
