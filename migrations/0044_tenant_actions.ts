import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- A search for an action reads those of the caller's tenant alone, however many others have.
CREATE INDEX audit_entries_tenant_action ON audit_entries (tenant_id, action_type, occurred_at DESC, id DESC);
`
)
