import { script } from "../src/platform/database/migration-steps.ts"

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

-- What closes a reservation, as budgets_close takes it, and what the row of a gateway's call has from \`operation\` on. What
-- happened before \`booked_from\` is booked as of now.
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
  trace_id text,
  tool_uses jsonb,
  happened_at timestamptz,
  booked_from timestamptz,
  price_terms jsonb,
  error jsonb
);

-- What is decided of a \`budget_closing\`. Of what is done, \`is_after_plan\` says that the plan had ended before, so that the
-- charge is late, and \`is_returned\` that the reservation stays open, as it was before the call that took it over.
CREATE TYPE budget_closing_verdict AS (verdict text, is_after_plan boolean, is_returned boolean);

-- The gateway call that each Idempotency-Key belongs to. Responses are not stored.
CREATE TABLE call_keys (
  principal text NOT NULL,
  route text NOT NULL,
  key text NOT NULL,
  request_sha256 bytea NOT NULL,
  reservation_id uuid,
  created_at timestamptz NOT NULL,
  -- The claim that a call has on its key, by which it frees the key only while it is the call's own.
  claim uuid,
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

-- Turns of conversations of the Responses API, encrypted, for the turns that refer to them. Deleted when they expire.
CREATE TABLE gateway_responses (
  tenant_id uuid NOT NULL REFERENCES tenants (id),
  id uuid NOT NULL,
  previous_id uuid,
  created_by text NOT NULL,
  sealed bytea NOT NULL,
  created_at timestamptz NOT NULL,
  -- How much is read is decided before it is read, and what a tenant stores is summed up without reading it.
  bytes integer NOT NULL GENERATED ALWAYS AS (octet_length(sealed)) STORED,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX gateway_responses_age ON gateway_responses (created_at);
CREATE INDEX gateway_responses_bytes ON gateway_responses (tenant_id) INCLUDE (bytes);
ALTER TABLE gateway_responses ENABLE ROW LEVEL SECURITY;
CREATE POLICY gateway_responses_of_tenant ON gateway_responses
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));
REVOKE UPDATE ON gateway_responses FROM application_manager;
`
)
