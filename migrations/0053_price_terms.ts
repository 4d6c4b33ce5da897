import { script } from "../src/platform/database/migrations.ts"

export default script(`
-- What a call was charged by besides its rates and its tokens of text: the tier, speed and geography that the answer named,
-- tokens of media with a price of their own, and whether the provider's own cost was charged. Null where there is none.
ALTER TABLE usage_rows ADD COLUMN price_terms jsonb;
ALTER TYPE budget_closing ADD ATTRIBUTE price_terms jsonb;
`)
