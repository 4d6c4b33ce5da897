import { Effect } from "effect"
import { SqlClient } from "effect/sql"

/** The one agent of the hierarchy of four. */
export const benchAgent = "00000000-0000-7000-8000-00000000a9e7"

const tenant = (name: string) => `md5('${name}')::uuid`

/**
 * The tables of a ledger with row locks, as such a one has them: the same facts as the service keeps and the indexes that
 * its statements need. A key, an agent and the caps for each kind of load; the rows of this month are there already, so
 * that no request has to make them.
 */
export const forUpdateTables = Effect.gen(function* () {
  const sql = yield* SqlClient.SqlClient
  yield* sql`SET ROLE NONE`
  const statements = `
    CREATE TABLE IF NOT EXISTS naive_keys (
      sha256 text PRIMARY KEY, tenant_id uuid NOT NULL, name text NOT NULL, scopes text[] NOT NULL, revoked_at timestamptz);
    CREATE TABLE IF NOT EXISTS naive_agents (tenant_id uuid NOT NULL, id uuid PRIMARY KEY);
    CREATE TABLE IF NOT EXISTS naive_idempotency_keys (
      principal text NOT NULL, key text NOT NULL, request_sha256 text NOT NULL, reservation_id uuid NOT NULL,
      created_at timestamptz NOT NULL, PRIMARY KEY (principal, key));
    CREATE TABLE IF NOT EXISTS naive_caps (
      tenant_id uuid NOT NULL, id uuid NOT NULL DEFAULT uuidv7(), name text NOT NULL, per_agent boolean NOT NULL,
      task_type text NOT NULL, model text NOT NULL, limit_amount bigint NOT NULL, thresholds integer[] NOT NULL,
      PRIMARY KEY (tenant_id, id));
    CREATE INDEX IF NOT EXISTS naive_caps_scope ON naive_caps (tenant_id, task_type, model);
    CREATE TABLE IF NOT EXISTS naive_grants (
      tenant_id uuid NOT NULL, cap_id uuid NOT NULL, amount bigint NOT NULL, expires_at timestamptz);
    CREATE INDEX IF NOT EXISTS naive_grants_cap ON naive_grants (tenant_id, cap_id);
    CREATE TABLE IF NOT EXISTS naive_periods (
      tenant_id uuid NOT NULL, id uuid NOT NULL DEFAULT uuidv7(), cap_id uuid NOT NULL, agent_id text NOT NULL,
      period_start timestamptz NOT NULL, period_end timestamptz NOT NULL, spent bigint NOT NULL DEFAULT 0,
      reserved bigint NOT NULL DEFAULT 0, PRIMARY KEY (tenant_id, id),
      UNIQUE (tenant_id, cap_id, agent_id, period_start)) WITH (fillfactor = 50);
    CREATE TABLE IF NOT EXISTS naive_alerts (
      tenant_id uuid NOT NULL, period_id uuid NOT NULL, percent integer NOT NULL, occurred_at timestamptz NOT NULL,
      PRIMARY KEY (tenant_id, period_id, percent));
    CREATE TABLE IF NOT EXISTS naive_reservations (
      tenant_id uuid NOT NULL, id uuid NOT NULL, state text NOT NULL, agent_id uuid, model text, task_type text,
      amount bigint NOT NULL, tokens bigint NOT NULL, ttl_seconds integer NOT NULL, expires_at timestamptz NOT NULL,
      created_at timestamptz NOT NULL, created_by text NOT NULL, period_ids uuid[] NOT NULL, PRIMARY KEY (tenant_id, id));
    CREATE INDEX IF NOT EXISTS naive_reservations_due ON naive_reservations (expires_at) WHERE state = 'open';
    CREATE INDEX IF NOT EXISTS naive_reservations_agent ON naive_reservations (tenant_id, agent_id, id)
      WHERE agent_id IS NOT NULL;
    INSERT INTO naive_keys
      SELECT encode(sha256(k::bytea), 'hex'), md5(k)::uuid, 'api-key:' || k, '{spend:*}'
      FROM unnest(ARRAY['one', 'four', 'many']) k ON CONFLICT DO NOTHING;
    INSERT INTO naive_agents SELECT ${tenant("four")}, '${benchAgent}' ON CONFLICT DO NOTHING;
    INSERT INTO naive_caps (tenant_id, name, per_agent, task_type, model, limit_amount, thresholds)
      SELECT * FROM (
        VALUES (${tenant("one")}, 'tenant', false, '', ''),
          (${tenant("four")}, 'tenant', false, '', ''), (${tenant("four")}, 'each agent', true, '', ''),
          (${tenant("four")}, 'task', false, 'bench', ''), (${tenant("four")}, 'model', false, '', 'bench')
        UNION ALL SELECT ${tenant("many")}, 'task ' || n, false, 'task-' || n, '' FROM generate_series(0, 1999) n) c,
        (VALUES (1000000000000000, '{}'::integer[])) l
      WHERE NOT EXISTS (SELECT FROM naive_caps);
    INSERT INTO naive_periods (tenant_id, cap_id, agent_id, period_start, period_end)
      SELECT tenant_id, id, CASE WHEN per_agent THEN '${benchAgent}' ELSE '' END,
        date_trunc('month', now(), 'UTC'), date_trunc('month', now(), 'UTC') + interval '1 month'
      FROM naive_caps ON CONFLICT DO NOTHING;
    ANALYZE naive_caps, naive_periods;
    GRANT SELECT, INSERT, UPDATE ON naive_keys, naive_agents, naive_idempotency_keys, naive_caps, naive_grants, naive_periods,
      naive_alerts, naive_reservations TO application_manager`
  for (const statement of statements.split(";\n")) yield* sql.unsafe(statement)
})
