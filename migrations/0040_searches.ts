import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- A search finds the entries of a trace. What BRIN keeps of so many rows together is written when they are all there, so that
-- a new entry writes nothing to it.
CREATE INDEX audit_entries_trace ON audit_entries USING brin (trace_id text_bloom_ops) WITH (autosummarize = on);

-- The counters that count now, apart from those of periods that are over.
CREATE INDEX budget_counters_current ON budget_counters (period_end);
`
)
