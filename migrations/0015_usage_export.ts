import { script } from "../src/platform/database/migration-steps.ts"

export default script(
  `
-- The export of usage to object storage: one row where there is one, and none else.
CREATE TABLE usage_export (
  is_only boolean PRIMARY KEY DEFAULT true CHECK (is_only),
  started_at timestamptz NOT NULL DEFAULT now(),
  -- Rows of batches up to this one that were folded before the start come into the queue by the hour, from \`history_from\` on,
  -- which is null once all have.
  first_batch bigint NOT NULL,
  history_from timestamptz,
  -- What the storage has.
  files bigint NOT NULL DEFAULT 0,
  rows bigint NOT NULL DEFAULT 0,
  cost_nano_usd numeric NOT NULL DEFAULT 0,
  -- Uploads that failed since the last one that did not, and why the last did.
  failures integer NOT NULL DEFAULT 0,
  failure text,
  retry_at timestamptz NOT NULL DEFAULT '-infinity'
);

-- Rows that no file has yet, named as in the outbox, which they have left: so all of them are committed.
CREATE TABLE usage_export_queue (
  batch bigint NOT NULL,
  tenant_id uuid NOT NULL,
  occurred_at timestamptz NOT NULL,
  queued_at timestamptz NOT NULL DEFAULT now(),
  is_history boolean NOT NULL DEFAULT false,
  PRIMARY KEY (batch, tenant_id, occurred_at)
);
ALTER TABLE usage_export_queue ENABLE ROW LEVEL SECURITY;
CREATE POLICY usage_export_queue_of_tenant ON usage_export_queue
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));

-- Files that are not uploaded yet. What a file has is decided with its row and never changes.
CREATE TABLE usage_export_files (
  number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  -- In which all of its rows are, and by which it is named.
  hour timestamptz NOT NULL,
  batches bigint[] NOT NULL,
  tenants uuid[] NOT NULL,
  moments timestamptz[] NOT NULL,
  -- How many rows each of these names.
  counts integer[] NOT NULL,
  -- Of the content: two files with one number, as after a restore of the database, have two names.
  digest text NOT NULL,
  rows bigint NOT NULL,
  cost_nano_usd numeric NOT NULL,
  queued_at timestamptz NOT NULL,
  claimed_until timestamptz NOT NULL DEFAULT '-infinity'
);

-- Whatever takes rows from the outbox has them in the roll-ups, and so leaves them to the export.
CREATE TRIGGER usage_outbox_exported AFTER DELETE ON usage_outbox REFERENCING OLD TABLE AS left_rows
FOR EACH STATEMENT EXECUTE FUNCTION usage_export_queue_rows();
`,
  ["usage_export_queue_rows"]
)
