import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- The text of a call is shorter than that of what it checks.
ALTER TABLE budget_reservations
  DROP CONSTRAINT budget_reservations_check,
  ADD CONSTRAINT budget_reservations_charge CHECK (budget_guard_reservation(state, charge_id));
`,
  ["budget_guard_reservation"]
)
