import { script } from "../src/platform/database/migrations.ts"

export default script(
  `
-- Signed statements about billing reports; one about all tenants has none.
CREATE TABLE billing_statements (
  id uuid PRIMARY KEY,
  tenant_id uuid,
  envelope jsonb NOT NULL,
  created_at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE billing_statements ENABLE ROW LEVEL SECURITY;
CREATE POLICY billing_statements_of_tenant ON billing_statements
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));
REVOKE UPDATE, DELETE ON billing_statements FROM application_manager;
`
)
