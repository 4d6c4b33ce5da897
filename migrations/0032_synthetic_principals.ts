import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- A synthetic principal is an API key that monitors, tests or is a trap. Its row outlives it, so that usage which is settled
-- later is still known as synthetic.
ALTER TABLE api_keys
  ADD COLUMN synthetic_kind text CONSTRAINT api_keys_synthetic_kind CHECK (synthetic_kind IN ('monitor', 'test', 'canary')),
  ADD COLUMN labels jsonb NOT NULL DEFAULT '{}',
  ADD CONSTRAINT api_keys_synthetic_tenant CHECK (synthetic_kind IS NULL OR tenant_id IS NOT NULL),
  ADD CONSTRAINT api_keys_synthetic_end CHECK (synthetic_kind IS NULL OR synthetic_kind = 'canary' OR expires_at IS NOT NULL);
CREATE INDEX api_keys_synthetic ON api_keys (id) WHERE synthetic_kind IS NOT NULL;

-- What a synthetic principal registers is synthetic, too.
ALTER TABLE agents ADD COLUMN synthetic boolean NOT NULL DEFAULT false;
CREATE INDEX agents_synthetic ON agents (id) WHERE synthetic;
CREATE OR REPLACE VIEW bounded_agents WITH (security_invoker = true) AS
SELECT a.id, a.tenant_id, a.status, a.scope_ceiling, t.scope_ceiling AS template_ceiling,
  least(a.max_credential_ttl_seconds, t.max_credential_ttl_seconds) AS max_credential_ttl_seconds,
  least(a.per_turn_budget, t.per_turn_budget) AS per_turn_budget, a.allowed_task_types, a.default_task_type,
  agent_version(a.updated_at, t.updated_at) AS version, a.application_id, a.expires_at, a.synthetic, a.created_by
FROM agents a LEFT JOIN agent_templates t ON t.id = a.template_id;

CREATE VIEW synthetic_principals WITH (security_invoker = true) AS
SELECT k.id, k.public_id, k.synthetic_kind AS kind, k.name, k.tenant_id, k.application_id, k.scopes,
  k.labels, k.created_at, k.created_by,
  k.last_used_at, k.expires_at, k.revoked_at
FROM api_keys k WHERE k.synthetic_kind IS NOT NULL AND k.revoked_at IS NULL;
GRANT SELECT, UPDATE ON synthetic_principals TO application_manager;

-- Since when the configuration or the keys of a provider could not be fetched.
ALTER TABLE identity_providers ADD COLUMN keys_failing_since timestamptz;

ALTER TABLE usage_rows ADD COLUMN synthetic boolean NOT NULL DEFAULT false;
CREATE INDEX usage_rows_synthetic ON usage_rows (tenant_id, occurred_at) WHERE synthetic;

-- What a row counts for in sums, of both kinds: synthetic rows are in no roll-up. A cache hit or a refund is no request.
CREATE VIEW usage_counted WITH (security_invoker = true) AS
SELECT u.tenant_id, u.occurred_at, u.batch, u.agent_id, u.model, u.provider, u.task_type, u.application_id, u.plan_id,
  u.user_id, u.api_key_id, u.cost, u.saved,
  (u.method NOT IN ('refunded', 'cached'))::integer AS requests,
  (u.method IN ('unanswered', 'expired') OR (u.method NOT IN ('aborted', 'refunded', 'cached')
    AND coalesce(u.status >= 400, false)))::integer AS errors,
  coalesce(CASE WHEN u.method <> 'cached' THEN u.input_tokens END, 0) AS input_tokens,
  coalesce(CASE WHEN u.method <> 'cached' THEN u.output_tokens END, 0) AS output_tokens,
  coalesce(CASE WHEN u.method <> 'cached' THEN u.cached_input_tokens END, 0) AS cached_input_tokens,
  CASE WHEN u.method <> 'cached' THEN usage_latency_bucket(u.latency_ms) END AS bucket, u.synthetic
FROM usage_rows u WHERE u.method <> 'released';
CREATE OR REPLACE VIEW usage_facts WITH (security_invoker = true) AS
SELECT c.tenant_id, c.occurred_at, c.batch, c.agent_id, c.model, c.provider, c.task_type, c.application_id, c.plan_id,
  c.user_id, c.api_key_id, c.cost, c.saved, c.requests, c.errors, c.input_tokens, c.output_tokens, c.cached_input_tokens,
  c.bucket
FROM usage_counted c WHERE NOT c.synthetic;
-- The rows that a range of a report names: r has the usual ones, s the synthetic ones.
CREATE VIEW usage_sources WITH (security_invoker = true) AS
SELECT 'r' AS grain, c.* FROM usage_counted c WHERE NOT c.synthetic
UNION ALL SELECT 's', c.* FROM usage_counted c WHERE c.synthetic;
GRANT SELECT ON usage_counted, usage_sources TO application_manager;
`,
  ["agent_version", "usage_latency_bucket"]
)
