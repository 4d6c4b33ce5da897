import { script } from "../src/platform/database/migration-steps.ts"

export default script(
  `
-- Files of any purpose, and of each vendor's API.
ALTER TABLE gateway_files
  ADD COLUMN dialect text NOT NULL DEFAULT 'openai',
  -- When the provider removes it by itself; null if it stays until it is deleted.
  ADD COLUMN expires_at timestamptz;
ALTER TABLE gateway_files ALTER COLUMN dialect DROP DEFAULT;
-- Until now all of them had the requests of batches, and were listed for 30 days.
UPDATE gateway_files SET expires_at = created_at + interval '30 days';
DROP INDEX gateway_files_age;
CREATE INDEX gateway_files_end ON gateway_files (expires_at) WHERE expires_at IS NOT NULL;
`
)
