import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- Provider keys that were set in plain text. The gateway's configuration refers to them and contains no key.
CREATE TABLE gateway_secrets (
  id uuid PRIMARY KEY DEFAULT new_id(),
  sealed bytea NOT NULL,
  created_at timestamptz NOT NULL,
  created_by text NOT NULL
);
REVOKE UPDATE ON gateway_secrets FROM application_manager;

CREATE DOMAIN gateway_usage_method AS text
CHECK (VALUE IN ('provider_usage', 'aborted', 'estimated', 'unanswered', 'released', 'expired'));

-- One row per gateway call that had a reservation, written when the reservation is closed. Tokens are null where they
-- are unknown. Prompts and completions are not stored here.
CREATE TABLE gateway_usage (
  tenant_id uuid NOT NULL,
  reservation_id uuid NOT NULL,
  occurred_at timestamptz NOT NULL,
  charge_id uuid,
  created_by text NOT NULL,
  agent_id uuid,
  plan_id uuid,
  application_id integer,
  api_key_id uuid,
  user_id text,
  task_type text,
  operation text,
  dialect text,
  model_asked text,
  model text,
  model_served text,
  provider text,
  input_tokens bigint,
  output_tokens bigint,
  cached_input_tokens bigint,
  cache_write_tokens bigint,
  cache_write_1h_tokens bigint,
  reasoning_tokens bigint,
  cost budget_quantity NOT NULL,
  rates jsonb,
  catalogue_version text,
  method gateway_usage_method NOT NULL,
  status integer,
  latency_ms bigint,
  upstream_latency_ms bigint,
  time_to_first_token_ms bigint,
  attempts jsonb,
  metadata jsonb,
  trace_id text,
  PRIMARY KEY (tenant_id, reservation_id)
);
CREATE INDEX gateway_usage_occurred ON gateway_usage USING brin (occurred_at);
ALTER TABLE gateway_usage ENABLE ROW LEVEL SECURITY;
CREATE POLICY gateway_usage_of_tenant ON gateway_usage
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));
REVOKE INSERT, UPDATE, DELETE ON gateway_usage FROM application_manager;

-- What closes a reservation, as budgets_close takes it, and what the row of a gateway's call has from \`operation\` on.
CREATE TYPE budget_closing AS (
  id uuid,
  tenant_id uuid,
  kind text,
  origin text,
  principal text,
  unrestricted boolean,
  amount bigint,
  tokens bigint,
  charge_id uuid,
  usage jsonb,
  metadata jsonb,
  operation text,
  dialect text,
  model_asked text,
  model_served text,
  provider text,
  input_tokens bigint,
  output_tokens bigint,
  cached_input_tokens bigint,
  cache_write_tokens bigint,
  cache_write_1h_tokens bigint,
  reasoning_tokens bigint,
  rates jsonb,
  catalogue_version text,
  method text,
  status integer,
  latency_ms bigint,
  upstream_latency_ms bigint,
  time_to_first_token_ms bigint,
  attempts jsonb,
  call_metadata jsonb,
  trace_id text
);

-- The gateway call that each Idempotency-Key belongs to. Responses are not stored.
CREATE TABLE call_keys (
  principal text NOT NULL,
  route text NOT NULL,
  key text NOT NULL,
  request_sha256 bytea NOT NULL,
  reservation_id uuid,
  created_at timestamptz NOT NULL,
  PRIMARY KEY (principal, route, key)
);
CREATE INDEX call_keys_age ON call_keys (created_at);

-- Transcripts: prompts and completions of calls, stored only if the settings enable it.
CREATE TABLE gateway_contents (
  reservation_id uuid PRIMARY KEY,
  tenant_id uuid NOT NULL REFERENCES tenants (id),
  sealed bytea NOT NULL,
  created_at timestamptz NOT NULL
);
CREATE INDEX gateway_contents_age ON gateway_contents (created_at);
ALTER TABLE gateway_contents ENABLE ROW LEVEL SECURITY;
CREATE POLICY gateway_contents_of_tenant ON gateway_contents
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));
`
)
