import { script } from "../src/platform/database/migration-steps.ts"

export default script(
  `
-- Caps over all tenants are kept under the nil UUID, so that tenant_id leads every key.
CREATE TABLE budget_caps (
  tenant_id uuid NOT NULL,
  id uuid NOT NULL DEFAULT new_id(),
  name text NOT NULL,
  scope jsonb NOT NULL,
  unit text NOT NULL CHECK (unit IN ('usd', 'tokens', 'requests')),
  limit_amount bigint NOT NULL CHECK (limit_amount >= 0),
  period text NOT NULL CHECK (
    period IN ('minute', 'hour', 'day', 'week', 'month', 'quarter', 'year', 'total', 'rolling')),
  window_seconds integer CHECK (window_seconds > 0),
  time_zone text NOT NULL,
  anchor integer,
  mode text NOT NULL CHECK (mode IN ('hard', 'soft', 'approval')),
  alert_thresholds jsonb NOT NULL,
  status text NOT NULL CHECK (status IN ('active', 'paused')),
  version integer NOT NULL CHECK (version > 0),
  created_at timestamptz NOT NULL,
  created_by text NOT NULL,
  updated_at timestamptz NOT NULL,
  deleted_at timestamptz,
  -- When the limit was changed, until the counters are in line with it.
  limit_changed_at timestamptz,
  PRIMARY KEY (tenant_id, id),
  CHECK ((period = 'rolling') = (window_seconds IS NOT NULL))
);
-- System callers identify a cap by its id alone, without a tenant.
CREATE INDEX budget_caps_id ON budget_caps (id);
CREATE INDEX budget_caps_changed ON budget_caps (limit_changed_at) WHERE limit_changed_at IS NOT NULL;
ALTER TABLE budget_caps ENABLE ROW LEVEL SECURITY;
CREATE POLICY budget_caps_of_tenant ON budget_caps
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));
REVOKE DELETE ON budget_caps FROM application_manager;

-- The revision of a tenant's caps. A replica compares it with the revision of its cached caps to detect a stale cache.
CREATE TABLE budget_books (
  tenant_id uuid PRIMARY KEY,
  caps_version bigint NOT NULL
);
ALTER TABLE budget_books ENABLE ROW LEVEL SECURITY;
CREATE POLICY budget_books_of_tenant ON budget_books
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));
REVOKE DELETE ON budget_books FROM application_manager;

-- PostgreSQL reads the checks of a table from their text in each statement, and those of a type once in a session. Reading
-- them took a quarter of the time of a reservation, so the tables that every call writes have checks of types, and triggers
-- with a list of columns, which cost nothing where none of them is written.
CREATE DOMAIN budget_quantity AS bigint CHECK (VALUE >= 0);
CREATE DOMAIN budget_seconds AS integer CHECK (VALUE > 0);
CREATE DOMAIN budget_ring AS bigint[] CHECK (0 <= ALL (VALUE));
CREATE DOMAIN budget_reservation_state AS text
CHECK (VALUE IN ('held', 'open', 'denied', 'expired', 'released', 'settled'));

-- The thresholds that a counter has passed in its period.
CREATE TYPE budget_threshold AS (measure text, percent integer);

-- One row for each cap, value of its scope and period. Only the keys are indexed, so that moving a counter moves no index.
CREATE TABLE budget_counters (
  tenant_id uuid NOT NULL,
  id uuid NOT NULL,
  cap_id uuid NOT NULL,
  counter_key text NOT NULL,
  period_start timestamptz NOT NULL,
  period_end timestamptz NOT NULL,
  unit text NOT NULL,
  created_at timestamptz NOT NULL,
  spent budget_quantity NOT NULL DEFAULT 0,
  reserved budget_quantity NOT NULL DEFAULT 0,
  bucket_seconds integer,
  ring_head bigint,
  ring budget_ring,
  passed budget_threshold[] NOT NULL DEFAULT '{}',
  -- The limit of the cap when the counter was opened, or when it was last brought in line with it; grants do not change it.
  -- Counters of rolling windows and of plans have neither it nor a level.
  cap_limit bigint,
  use_level smallint,
  PRIMARY KEY (tenant_id, id),
  UNIQUE (tenant_id, cap_id, counter_key, period_start)
) WITH (fillfactor = 50);
CREATE INDEX budget_counters_id ON budget_counters (id);
-- A statement that only raises \`reserved\` either names \`spent\` too, or returns the sum of both, which cannot overflow unseen.
CREATE TRIGGER budget_counters_guard
AFTER INSERT OR UPDATE OF period_start, period_end, bucket_seconds, ring, spent ON budget_counters
FOR EACH ROW EXECUTE FUNCTION budget_guard_counter();
-- Finds the current counters of a cap among all past ones.
CREATE INDEX budget_counters_running ON budget_counters (tenant_id, cap_id, period_end);
-- The counters that count now, apart from those of periods that are over. A plan's counter has no end and stays when the plan
-- has ended: what reads the counters of caps would read more of them from plan to plan.
CREATE INDEX budget_counters_current ON budget_counters (period_end) WHERE id <> cap_id;
-- Finds the counters that are used the most.
CREATE INDEX budget_counters_use ON budget_counters (use_level, period_end) WHERE use_level IS NOT NULL;
-- Not by its ring: an index, whatever it is of, would be written each time that one changes.
CREATE INDEX budget_counters_rolling ON budget_counters (tenant_id, cap_id) WHERE bucket_seconds IS NOT NULL;
ALTER TABLE budget_counters ENABLE ROW LEVEL SECURITY;
CREATE POLICY budget_counters_of_tenant ON budget_counters
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));
REVOKE INSERT, UPDATE, DELETE ON budget_counters FROM application_manager;

CREATE TABLE budget_grants (
  tenant_id uuid NOT NULL,
  id uuid NOT NULL DEFAULT new_id(),
  cap_id uuid NOT NULL,
  counter_key text,
  amount bigint NOT NULL CHECK (amount > 0),
  reason text NOT NULL,
  expires_at timestamptz,
  created_at timestamptz NOT NULL,
  created_by text NOT NULL,
  ended_at timestamptz,
  reservation_id uuid,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX budget_grants_cap ON budget_grants (tenant_id, cap_id, id);
CREATE INDEX budget_grants_reservation ON budget_grants (reservation_id) WHERE reservation_id IS NOT NULL;
-- A batch of reservations asks once whether a grant raises any of its caps; most tenants have none.
CREATE INDEX budget_grants_active ON budget_grants (tenant_id, expires_at) WHERE ended_at IS NULL;
ALTER TABLE budget_grants ENABLE ROW LEVEL SECURITY;
CREATE POLICY budget_grants_of_tenant ON budget_grants
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));
REVOKE DELETE ON budget_grants FROM application_manager;

-- A threshold that was passed, once for each counter and so for each period.
CREATE TABLE budget_alerts (
  tenant_id uuid NOT NULL,
  id uuid NOT NULL DEFAULT new_id(),
  cap_id uuid NOT NULL,
  counter_id uuid NOT NULL,
  measure text NOT NULL CHECK (measure IN ('spent', 'committed', 'forecast')),
  percent integer NOT NULL,
  limit_amount bigint NOT NULL,
  spent bigint NOT NULL,
  reserved bigint NOT NULL,
  occurred_at timestamptz NOT NULL,
  PRIMARY KEY (tenant_id, id)
);
CREATE INDEX budget_alerts_cap ON budget_alerts (tenant_id, cap_id, id);
CREATE INDEX budget_alerts_id ON budget_alerts (id);
ALTER TABLE budget_alerts ENABLE ROW LEVEL SECURITY;
CREATE POLICY budget_alerts_of_tenant ON budget_alerts
USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id));
REVOKE INSERT, UPDATE, DELETE ON budget_alerts FROM application_manager;

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
`,
  ["budget_guard_counter"]
)
