import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- Of each kind a tenant waits for one report; what it asked for beside the first one never began.
DELETE FROM security_reports r WHERE status = 'pending' AND EXISTS (
  SELECT FROM security_reports o WHERE o.status = 'pending' AND o.kind = r.kind
    AND o.tenant_id IS NOT DISTINCT FROM r.tenant_id AND o.id < r.id);
CREATE UNIQUE INDEX security_reports_pending_once ON security_reports (tenant_id, kind) NULLS NOT DISTINCT
WHERE status = 'pending';
DROP INDEX security_reports_pending;
-- When a tenant was served last.
CREATE INDEX security_reports_completed ON security_reports (tenant_id, completed_at);
`
)
