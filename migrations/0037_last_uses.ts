import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- Row-level security takes coalesce() for leaking, and so would only compare it once it has read the row.
DROP INDEX api_keys_used, api_keys_tenant_used;
CREATE INDEX api_keys_used ON api_keys ((CASE WHEN last_used_at IS NULL THEN 'epoch' ELSE last_used_at END), id);
CREATE INDEX api_keys_tenant_used ON api_keys (tenant_id, (CASE WHEN last_used_at IS NULL THEN 'epoch' ELSE last_used_at END), id);
DROP INDEX agents_seen, agents_tenant_seen;
CREATE INDEX agents_seen ON agents ((CASE WHEN last_seen_at IS NULL THEN 'epoch' ELSE last_seen_at END), id);
CREATE INDEX agents_tenant_seen ON agents (tenant_id, (CASE WHEN last_seen_at IS NULL THEN 'epoch' ELSE last_seen_at END), id);
DROP INDEX accounts_signed_in, accounts_tenant_signed_in;
CREATE INDEX accounts_signed_in ON accounts ((CASE WHEN last_sign_in_at IS NULL THEN 'epoch' ELSE last_sign_in_at END), id);
CREATE INDEX accounts_tenant_signed_in ON accounts (tenant_id, (CASE WHEN last_sign_in_at IS NULL THEN 'epoch' ELSE last_sign_in_at END), id);
`
)
