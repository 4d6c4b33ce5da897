import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- Those of a tenant are counted before it gets another one, while every dispatch waits.
CREATE INDEX event_targets_of_tenant_id ON event_targets (tenant_id, id);
`
)
