import { Effect } from "effect"
import { type TestDatabase } from "./database.ts"
import { asSuperuser } from "./statements.ts"

/** A row of usage as tests make one; what is absent is null, or 0. */
export interface MadeUsage {
  readonly at: string
  readonly cost?: number
  readonly method?: string
  readonly agent_id?: string
  readonly model?: string
  readonly provider?: string
  readonly task_type?: string
  readonly user_id?: string
  readonly input_tokens?: number
  readonly output_tokens?: number
  readonly latency_ms?: number
  readonly status?: number
  readonly synthetic?: boolean
  readonly attempts?: ReadonlyArray<object>
  /** When it happened, as the event that reported it says. */
  readonly happened_at?: string
}

/** Adds the rows that no roll-up has yet, as the service does every second. */
export const foldAll = (database: TestDatabase) =>
  asSuperuser(database, (sql) =>
    sql<{ readonly rest: number }>`
      SELECT usage_fold(10000), (SELECT count(*)::integer FROM usage_outbox) AS rest`.pipe(
      Effect.repeat({ until: ([row]) => row?.rest === 0 })
    )
  )

/** Writes rows with their places in the outbox, as a statement that settles does, and folds them. */
export const writeUsage = (database: TestDatabase, tenantId: string, rows: ReadonlyArray<MadeUsage>) =>
  Effect.andThen(
    asSuperuser(
      database,
      (sql) => sql`
        WITH made AS (
          INSERT INTO usage_rows (tenant_id, charge_id, reservation_id, occurred_at, batch, cost, method, created_by,
            agent_id, model, provider, task_type, user_id, input_tokens, output_tokens, latency_ms, status,
            synthetic, attempts, happened_at)
          SELECT ${tenantId}::uuid, new_id(), new_id(), r.at, nextval('usage_batches'), coalesce(r.cost, 0),
            coalesce(r.method, 'provider_usage'), 'test', r.agent_id, r.model, r.provider, r.task_type, r.user_id,
            r.input_tokens, r.output_tokens, r.latency_ms, r.status, coalesce(r.synthetic, false), r.attempts, r.happened_at
          FROM json_to_recordset(${JSON.stringify(rows)}::text::json) AS r(at timestamptz, cost bigint, method text, agent_id uuid,
            model text, provider text, task_type text, user_id text, input_tokens bigint, output_tokens bigint,
            latency_ms bigint, status integer, synthetic boolean, attempts jsonb, happened_at timestamptz)
          RETURNING batch, tenant_id, occurred_at)
        INSERT INTO usage_outbox (batch, tenant_id, occurred_at) SELECT batch, tenant_id, occurred_at FROM made`
    ),
    foldAll(database)
  )
