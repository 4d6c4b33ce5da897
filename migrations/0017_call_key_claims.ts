import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- The claim that a call has on its key, by which it frees the key only while it is the call's own.
ALTER TABLE call_keys ADD COLUMN claim uuid;
`
)
