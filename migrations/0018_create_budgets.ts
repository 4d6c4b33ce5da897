import { Effect } from "effect"
import { SqlClient } from "effect/sql"

export default Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient

  // Caps over all tenants are kept under the nil UUID, so that tenant_id leads every key.
  yield* sql`
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
      PRIMARY KEY (tenant_id, id),
      CHECK ((period = 'rolling') = (window_seconds IS NOT NULL))
    )`

  // The version of a tenant's caps: whoever decides by a copy of them finds out here that it is old.
  yield* sql`
    CREATE TABLE budget_books (
      tenant_id uuid PRIMARY KEY,
      caps_version bigint NOT NULL
    )`

  // One row for each cap, value of its scope and period. Only the keys are indexed, so that moving a counter moves no index.
  yield* sql`
    CREATE TABLE budget_counters (
      tenant_id uuid NOT NULL,
      id uuid NOT NULL,
      cap_id uuid NOT NULL,
      counter_key text NOT NULL,
      period_start timestamptz NOT NULL,
      period_end timestamptz NOT NULL,
      unit text NOT NULL,
      created_at timestamptz NOT NULL,
      spent bigint NOT NULL DEFAULT 0 CHECK (spent >= 0),
      reserved bigint NOT NULL DEFAULT 0 CHECK (reserved >= 0),
      bucket_seconds integer,
      ring_head bigint,
      ring bigint[] CHECK (0 <= ALL (ring)),
      fired integer[] NOT NULL DEFAULT '{}',
      PRIMARY KEY (tenant_id, id),
      UNIQUE (tenant_id, cap_id, counter_key, period_start),
      CHECK (period_start < period_end),
      CHECK ((bucket_seconds IS NULL) = (ring IS NULL))
    ) WITH (fillfactor = 50)`

  yield* sql`
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
      PRIMARY KEY (tenant_id, id)
    )`
  yield* sql`CREATE INDEX budget_grants_cap ON budget_grants (tenant_id, cap_id, id)`

  yield* sql`
    CREATE TABLE budget_reservations (
      tenant_id uuid NOT NULL,
      id uuid NOT NULL,
      state text NOT NULL CHECK (state IN ('held', 'open', 'denied', 'expired', 'released', 'settled')),
      origin text NOT NULL CHECK (origin IN ('api', 'gateway', 'plan')),
      agent_id uuid,
      plan_id uuid,
      application_id integer,
      api_key_id uuid,
      user_id text,
      model text,
      provider text,
      task_type text,
      amount bigint NOT NULL CHECK (amount >= 0),
      tokens bigint NOT NULL CHECK (tokens >= 0),
      ttl_seconds integer NOT NULL CHECK (ttl_seconds > 0),
      expires_at timestamptz NOT NULL,
      created_at timestamptz NOT NULL,
      created_by text NOT NULL,
      metadata jsonb,
      counter_ids uuid[] NOT NULL,
      answer jsonb,
      decided_at timestamptz,
      decided_by text,
      decision_reason text,
      closed_at timestamptz,
      charge_id uuid,
      actual bigint,
      actual_tokens bigint,
      late boolean NOT NULL DEFAULT false,
      PRIMARY KEY (tenant_id, id),
      CHECK ((state = 'settled') = (charge_id IS NOT NULL))
    ) WITH (fillfactor = 90)`
  yield* sql`
    CREATE INDEX budget_reservations_due ON budget_reservations (expires_at) WHERE state IN ('open', 'held')`
  yield* sql`CREATE INDEX budget_reservations_id ON budget_reservations (id)`
  yield* sql`CREATE INDEX budget_reservations_held ON budget_reservations (tenant_id, id) WHERE state = 'held'`
  yield* sql`CREATE INDEX budget_reservations_agent ON budget_reservations (tenant_id, agent_id, id) WHERE agent_id IS NOT NULL`

  // Everything that was ever spent, and what came back; only added to. Each names the counters that it moved, and of a
  // rolling one the bucket.
  yield* sql`
    CREATE TABLE budget_entries (
      tenant_id uuid NOT NULL,
      id uuid NOT NULL,
      reservation_id uuid NOT NULL,
      kind text NOT NULL CHECK (kind IN ('charge', 'refund')),
      charge_id uuid NOT NULL,
      amount bigint NOT NULL,
      tokens bigint NOT NULL,
      requests integer NOT NULL,
      overrun bigint NOT NULL DEFAULT 0,
      late boolean NOT NULL DEFAULT false,
      reason text,
      usage jsonb,
      metadata jsonb,
      occurred_at timestamptz NOT NULL,
      created_by text NOT NULL,
      counter_ids uuid[] NOT NULL,
      buckets bigint[] NOT NULL,
      PRIMARY KEY (tenant_id, id),
      CHECK ((kind = 'charge' AND amount >= 0 AND charge_id = id) OR (kind = 'refund' AND amount < 0))
    )`
  yield* sql`CREATE INDEX budget_entries_charge ON budget_entries (tenant_id, charge_id) WHERE kind = 'refund'`

  // A threshold that was passed, once for each counter and so for each period.
  yield* sql`
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
    )`

  const tables = ["caps", "books", "counters", "grants", "reservations", "entries", "alerts"].map(
    (name) => `budget_${name}`
  )
  for (const table of tables) {
    yield* sql`ALTER TABLE ${sql(table)} ENABLE ROW LEVEL SECURITY`
    yield* sql`
      CREATE POLICY ${sql(`${table}_of_tenant`)} ON ${sql(table)}
      USING (sees_tenant(tenant_id)) WITH CHECK (sees_tenant(tenant_id))`
  }
  // Counters, reservations and entries move by the functions of the ledger alone.
  for (const table of ["counters", "reservations", "entries", "alerts"].map((name) => `budget_${name}`)) {
    yield* sql`REVOKE INSERT, UPDATE, DELETE ON ${sql(table)} FROM application_manager`
  }
  yield* sql`REVOKE DELETE ON budget_caps, budget_grants, budget_books FROM application_manager`
})
