import { script } from "../src/platform/database/migration-steps.ts"

export default script(
  `
-- Which capability a key or an agent last used and when, kept for as long as rules look back.
CREATE TABLE capability_uses (
  principal text NOT NULL,
  capability text NOT NULL,
  tenant_id uuid,
  last_used_at timestamptz NOT NULL,
  PRIMARY KEY (principal, capability)
) WITH (fillfactor = 80);
ALTER TABLE capability_uses ENABLE ROW LEVEL SECURITY;
CREATE POLICY capability_uses_of_tenant ON capability_uses
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));

-- A report without a tenant is of the whole installation.
CREATE TABLE security_reports (
  id uuid PRIMARY KEY DEFAULT new_id(),
  tenant_id uuid CONSTRAINT security_reports_tenant REFERENCES tenants (id),
  kind text NOT NULL CHECK (kind IN ('posture', 'keys', 'agents', 'access')),
  status text NOT NULL CHECK (status IN ('pending', 'completed')),
  created_at timestamptz NOT NULL,
  created_by text NOT NULL,
  completed_at timestamptz,
  checked integer NOT NULL DEFAULT 0,
  CHECK ((status = 'completed') = (completed_at IS NOT NULL))
);
CREATE INDEX security_reports_of_tenant_id ON security_reports (tenant_id, id);
-- Of each kind a tenant waits for one report.
CREATE UNIQUE INDEX security_reports_pending_once ON security_reports (tenant_id, kind) NULLS NOT DISTINCT
WHERE status = 'pending';
-- When a tenant was served last.
CREATE INDEX security_reports_completed ON security_reports (tenant_id, completed_at);
ALTER TABLE security_reports ENABLE ROW LEVEL SECURITY;
CREATE POLICY security_reports_of_tenant ON security_reports
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));

CREATE TABLE security_findings (
  id uuid PRIMARY KEY DEFAULT new_id(),
  report_id uuid NOT NULL REFERENCES security_reports (id) ON DELETE CASCADE,
  tenant_id uuid,
  rule text NOT NULL,
  severity text NOT NULL CHECK (severity IN ('low', 'medium', 'high', 'critical')),
  resource_kind text NOT NULL,
  resource_id text NOT NULL,
  resource_name text,
  -- The tenant of the resource: a report of the installation has those of all.
  resource_tenant_id uuid,
  evidence text NOT NULL
);
CREATE INDEX security_findings_report ON security_findings (report_id, id);
ALTER TABLE security_findings ENABLE ROW LEVEL SECURITY;
CREATE POLICY security_findings_of_tenant ON security_findings
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));

-- What was decided about a finding holds for its rule and resource in every report, until it ends.
CREATE TABLE security_decisions (
  tenant_id uuid,
  rule text NOT NULL,
  resource_kind text NOT NULL,
  resource_id text NOT NULL,
  status text NOT NULL CHECK (status IN ('acknowledged', 'suppressed')),
  until timestamptz,
  reason text NOT NULL,
  CONSTRAINT security_decisions_of_resource UNIQUE NULLS NOT DISTINCT (tenant_id, rule, resource_kind, resource_id)
);
ALTER TABLE security_decisions ENABLE ROW LEVEL SECURITY;
CREATE POLICY security_decisions_of_tenant ON security_decisions
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));
`
)
