import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- A plan's counter has no end and stays when the plan has ended: what reads the counters of caps would read more of them from
-- plan to plan.
DROP INDEX budget_counters_current;
CREATE INDEX budget_counters_current ON budget_counters (period_end) WHERE id <> cap_id;
`
)
