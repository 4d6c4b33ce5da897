import { index, script } from "../src/platform/database/migration-steps.ts"

export default [
  script(
    `
-- Files of any purpose, and of each vendor's API.
ALTER TABLE gateway_files
  ADD COLUMN dialect text NOT NULL DEFAULT 'openai',
  -- When its provider removes it by itself; null if it stays until it is deleted.
  ADD COLUMN expires_at timestamptz;
`
  ),
  index("gateway_files_end", "gateway_files", "(expires_at) WHERE expires_at IS NOT NULL")
]
