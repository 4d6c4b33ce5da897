import { script } from "../src/platform/database/migration-steps.ts"

export default script(
  `
-- Providers that are asked what they billed, and how that went. Who has claimed one reads its bill; the number of the attempt
-- keeps a reader that was paused from writing after another one.
CREATE TABLE provider_bill_readings (
  provider text PRIMARY KEY,
  attempt bigint NOT NULL DEFAULT 0,
  claimed_until timestamptz NOT NULL DEFAULT '-infinity',
  due_at timestamptz NOT NULL DEFAULT '-infinity',
  read_at timestamptz,
  failed_at timestamptz,
  failure text,
  failure_detail text
);

-- The days (UTC) that were read, and when they were last.
CREATE TABLE provider_bill_days (
  provider text NOT NULL,
  day date NOT NULL,
  read_at timestamptz NOT NULL,
  PRIMARY KEY (provider, day)
);

-- What a provider says of a day, and beside it what was charged for its calls, as of the same reading. Texts are empty where there
-- is none; amounts in nano-dollars, quantities in tokens, requests or uses.
CREATE TABLE provider_bill_lines (
  provider text NOT NULL,
  day date NOT NULL,
  source text NOT NULL CHECK (source IN ('provider', 'gateway')),
  project_id text NOT NULL,
  key_id text NOT NULL,
  model text NOT NULL,
  tier text NOT NULL,
  meter text NOT NULL,
  item text NOT NULL,
  cost bigint NOT NULL,
  list_cost bigint,
  quantity bigint,
  PRIMARY KEY (provider, day, source, model, tier, meter, project_id, key_id, item)
);

-- What bills do not explain is of the installation, which is no tenant.
ALTER TABLE anomalies ALTER COLUMN tenant_id DROP NOT NULL;
ALTER TABLE anomalies DROP CONSTRAINT anomalies_dimension_check;
ALTER TABLE anomalies ADD CONSTRAINT anomalies_dimension_check
  CHECK (dimension IN ('agent', 'model', 'task-type', 'plan', 'cap', 'provider')) NOT VALID;
ALTER TABLE anomalies DROP CONSTRAINT anomalies_kind_check;
ALTER TABLE anomalies ADD CONSTRAINT anomalies_kind_check
  CHECK (kind IN ('spike', 'level-shift', 'loop', 'burn-rate', 'new', 'bill')) NOT VALID;
`
)
