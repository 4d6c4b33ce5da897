import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- Thresholds of a forecast that a counter may have passed, with all that decides it. The statement that moves the counter
-- writes them, and the service decides and deletes them.
CREATE TABLE budget_forecast_checks (
  tenant_id uuid NOT NULL,
  id uuid NOT NULL DEFAULT new_id(),
  counter_id uuid NOT NULL,
  percents integer[] NOT NULL,
  limit_amount bigint NOT NULL,
  spent bigint NOT NULL,
  reserved bigint NOT NULL,
  period_start timestamptz NOT NULL,
  period_end timestamptz NOT NULL,
  occurred_at timestamptz NOT NULL,
  PRIMARY KEY (id)
);
ALTER TABLE budget_forecast_checks ENABLE ROW LEVEL SECURITY;
CREATE POLICY budget_forecast_checks_of_tenant ON budget_forecast_checks
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));
REVOKE INSERT, UPDATE, DELETE ON budget_forecast_checks FROM application_manager;
`
)
