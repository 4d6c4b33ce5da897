import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- Finds the counters that are used the most. The limit is that of the cap when the counter was opened, or when it was last
-- brought in line with it; grants do not change it. Counters of rolling windows and of plans have neither.
ALTER TABLE budget_counters ADD COLUMN cap_limit bigint, ADD COLUMN use_level smallint;
-- As budget_counter_level() computes it.
UPDATE budget_counters b SET cap_limit = c.limit_amount, use_level = (
  SELECT CASE WHEN s.share >= 0.0625 THEN least(ceil(s.share * 128), 2048)
    WHEN s.share > 0 THEN 7 + ceil(ln(s.share * 16) * 4 / ln(2::double precision)) END::smallint
  FROM (SELECT CASE WHEN c.limit_amount > 0 THEN b.spent::double precision / c.limit_amount WHEN b.spent > 0 THEN 1 END
    AS share) s)
FROM budget_caps c WHERE c.tenant_id = b.tenant_id AND c.id = b.cap_id AND b.ring IS NULL AND b.period_end > now();
CREATE INDEX budget_counters_use ON budget_counters (use_level, period_end) WHERE use_level IS NOT NULL;
-- Not by its ring: an index, whatever it is of, would be written each time that one changes.
CREATE INDEX budget_counters_rolling ON budget_counters (tenant_id, cap_id) WHERE bucket_seconds IS NOT NULL;
-- When the limit of a cap was changed, until its counters are in line with it.
ALTER TABLE budget_caps ADD COLUMN limit_changed_at timestamptz;
CREATE INDEX budget_caps_changed ON budget_caps (limit_changed_at) WHERE limit_changed_at IS NOT NULL;
`
)
