import { script } from "../src/platform/database/migrations.ts"

export default script(`
-- How often a call used each tool that its provider runs and bills; null where there were none.
ALTER TABLE gateway_usage ADD COLUMN tool_uses jsonb;
ALTER TYPE budget_closing ADD ATTRIBUTE tool_uses jsonb;
`)
