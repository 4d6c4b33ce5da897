import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- When a replica last began to verify the roll-ups of usage.
CREATE TABLE usage_verification (claimed_at timestamptz NOT NULL);
INSERT INTO usage_verification (claimed_at) VALUES (now());
REVOKE INSERT, UPDATE, DELETE ON usage_verification FROM application_manager;
`
)
