import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- Retention finds what is old; new rows go to its end.
CREATE INDEX received_events_age ON received_events (received_at);
`
)
