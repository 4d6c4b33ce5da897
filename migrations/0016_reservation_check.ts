import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
DROP TRIGGER budget_reservations_guard_insert ON budget_reservations;
DROP TRIGGER budget_reservations_guard_update ON budget_reservations;
ALTER TABLE budget_reservations
  ADD CONSTRAINT budget_reservations_charge CHECK (budget_guard_reservation(state, charge_id));
`,
  ["budget_guard_reservation"]
)
