import { script } from "../src/platform/database/migrations.ts"

export default script(`
-- While a call of the gateway uses a reservation that was made before it: the charge that the call is to make, by which only
-- this call moves or returns the reservation, and what it is when it is returned.
ALTER TABLE budget_reservations ADD COLUMN transferred jsonb;
`)
