import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- A batch of reservations asks once whether a grant raises any of its caps; most tenants have none.
CREATE INDEX budget_grants_active ON budget_grants (tenant_id, expires_at) WHERE ended_at IS NULL;
`
)
