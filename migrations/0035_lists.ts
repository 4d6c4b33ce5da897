import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- Searches find a part of a text by the trigrams that it has.
CREATE EXTENSION IF NOT EXISTS pg_trgm;

-- Row-level security is checked before any function that is not leakproof, as lower() is: what a list of a tenant's rows is
-- sorted by is a column.
ALTER TABLE api_keys
  ADD COLUMN lower_name text NOT NULL GENERATED ALWAYS AS (lower(name)) STORED,
  ADD COLUMN search_text text NOT NULL GENERATED ALWAYS AS (lower(name || ' amk_' || public_id)) STORED;
CREATE INDEX api_keys_search ON api_keys USING gin (search_text gin_trgm_ops);
CREATE INDEX api_keys_created ON api_keys (created_at, id);
CREATE INDEX api_keys_tenant_created ON api_keys (tenant_id, created_at, id);
CREATE INDEX api_keys_name ON api_keys (lower_name, id);
CREATE INDEX api_keys_tenant_name ON api_keys (tenant_id, lower_name, id);
CREATE INDEX api_keys_used ON api_keys (coalesce(last_used_at, 'epoch'), id);
CREATE INDEX api_keys_tenant_used ON api_keys (tenant_id, coalesce(last_used_at, 'epoch'), id);

ALTER TABLE agents
  ADD COLUMN lower_name text NOT NULL GENERATED ALWAYS AS (lower(name)) STORED,
  ADD COLUMN search_text text NOT NULL GENERATED ALWAYS AS (lower(name || ' ' || coalesce(owner_user_id, ''))) STORED;
CREATE INDEX agents_search ON agents USING gin (search_text gin_trgm_ops);
CREATE INDEX agents_created ON agents (created_at, id);
CREATE INDEX agents_tenant_created ON agents (tenant_id, created_at, id);
CREATE INDEX agents_status_created ON agents (status, created_at, id);
CREATE INDEX agents_lower_name ON agents (lower_name, id);
CREATE INDEX agents_tenant_name ON agents (tenant_id, lower_name, id);
CREATE INDEX agents_seen ON agents (coalesce(last_seen_at, 'epoch'), id);
CREATE INDEX agents_tenant_seen ON agents (tenant_id, coalesce(last_seen_at, 'epoch'), id);

ALTER TABLE accounts
  ADD COLUMN lower_name text NOT NULL GENERATED ALWAYS AS (lower(name)) STORED,
  ADD COLUMN search_text text NOT NULL GENERATED ALWAYS AS (lower(name || ' ' || email)) STORED;
CREATE INDEX accounts_search ON accounts USING gin (search_text gin_trgm_ops);
CREATE INDEX accounts_created ON accounts (created_at, id);
CREATE INDEX accounts_tenant_created ON accounts (tenant_id, created_at, id);
CREATE INDEX accounts_name ON accounts (lower_name, id);
CREATE INDEX accounts_tenant_name ON accounts (tenant_id, lower_name, id);
CREATE INDEX accounts_signed_in ON accounts (coalesce(last_sign_in_at, 'epoch'), id);
CREATE INDEX accounts_tenant_signed_in ON accounts (tenant_id, coalesce(last_sign_in_at, 'epoch'), id);

ALTER TABLE trial_users ADD COLUMN search_text text NOT NULL
  GENERATED ALWAYS AS (lower(first_name || ' ' || last_name || ' ' || email || ' ' || coalesce(organization, ''))) STORED;
CREATE INDEX trial_users_search ON trial_users USING gin (search_text gin_trgm_ops);
DROP INDEX trial_users_created;
CREATE INDEX trial_users_created ON trial_users (created_at, id);
CREATE INDEX trial_users_last_name ON trial_users (lower(last_name), id);
CREATE INDEX trial_users_trial_end ON trial_users (trial_end_date, id);

ALTER TABLE tenants ADD COLUMN search_text text NOT NULL GENERATED ALWAYS AS (lower(name || ' ' || slug)) STORED;
CREATE INDEX tenants_search ON tenants USING gin (search_text gin_trgm_ops);
CREATE INDEX tenants_created ON tenants (created_at, id);
CREATE INDEX tenants_name ON tenants (lower(name), id);

ALTER TABLE applications ADD COLUMN search_text text NOT NULL GENERATED ALWAYS AS (lower(name || ' ' || slug)) STORED;
CREATE INDEX applications_search ON applications USING gin (search_text gin_trgm_ops);
DROP INDEX applications_created;
CREATE INDEX applications_created ON applications (created_at, id);
CREATE INDEX applications_name ON applications (lower(name), id);
`
)
