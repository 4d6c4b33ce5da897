import { script } from "../src/platform/database/migrations.ts"

export default script(`
-- Unique within a tenant, so that no tenant learns of another's accounts.
DROP INDEX accounts_email;
CREATE UNIQUE INDEX accounts_email ON accounts (tenant_id, lower(email)) NULLS NOT DISTINCT;
CREATE INDEX accounts_sign_in ON accounts (lower(email), id);
`)
