import { script } from "../src/platform/database/migrations.ts"

export default script(`
-- What books usage asks whether a range was closed since it began.
CREATE INDEX billing_closings_closes ON billing_closings (closes);
`)
