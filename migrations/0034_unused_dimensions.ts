import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- A dimension that no row of a tenant has is without roll-ups from now on: they were those of all rows.
DELETE FROM usage_rollups r USING (
  SELECT k.tenant_id, k.dimension FROM usage_rollups k CROSS JOIN LATERAL unnest(k.keys) AS e(key)
  WHERE k.dimension > 0 GROUP BY 1, 2 HAVING bool_and(e.key = '')
) u WHERE r.tenant_id = u.tenant_id AND r.dimension = u.dimension;
`
)
