import { Effect, Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"
import { columnsOf } from "../kernel/columns.ts"

type Row = { readonly [name: string]: unknown }

/** What one statement does: the requests in the order of their places. */
interface Batch {
  readonly head: object
  readonly requests: ReadonlyArray<Row>
}
export interface ReserveRequests extends Batch {
  /** What the audit log records of them. */
  readonly entries: ReadonlyArray<object>
}
export interface CloseRequests extends Batch {
  /** What the row of a call keeps, at the place of its request. */
  readonly calls: ReadonlyArray<Row | undefined>
}

const keyColumns = ["principal", "route", "key", "request_sha256"] as const
export const reserveColumns = [
  "id",
  "tenant",
  "kind",
  "origin",
  "agent",
  "plan",
  "application",
  "api_key",
  "user_id",
  "model",
  "provider",
  "task_type",
  "amount",
  "tokens",
  "ttl",
  "hold",
  "principal",
  "metadata",
  "reason",
  "confined",
  "key",
  "caps"
]
export const closeColumns = [
  "id",
  "tenant",
  "kind",
  "origin",
  "principal",
  "unrestricted",
  "amount",
  "tokens",
  "charge_id",
  "usage",
  "metadata"
]
export const callColumns = [
  "operation",
  "dialect",
  "modelAsked",
  "modelServed",
  "provider",
  "inputTokens",
  "outputTokens",
  "cachedInputTokens",
  "cacheWriteTokens",
  "cacheWrite1hTokens",
  "reasoningTokens",
  "rates",
  "catalogueVersion",
  "method",
  "status",
  "latencyMs",
  "upstreamLatencyMs",
  "timeToFirstTokenMs",
  "attempts",
  "metadata",
  "traceId"
]

/**
 * Rows by their columns. A column that says the same in all rows says it once: most do, and PostgreSQL took longer to read
 * them than to write what they say. Only ids stand for each row, so that their number is that of the rows.
 */
export const sharedColumnsOf = (
  names: ReadonlyArray<string>,
  rows: ReadonlyArray<Row | undefined>
): { readonly [name: string]: string | undefined } =>
  Object.assign(
    {},
    ...names.map((name) => {
      const isShared = name !== "id" && rows.every((row) => isSame(row?.[name], rows[0]?.[name]))
      return columnsOf([name], isShared ? rows.slice(0, 1) : rows)
    })
  )

const isSame = (value: unknown, other: unknown): boolean =>
  value === other ||
  (typeof value === "object" && typeof other === "object" && JSON.stringify(value) === JSON.stringify(other))

/** The keys under which requests may come again, by the places of the requests. */
const keysOf = (requests: ReadonlyArray<Row>): ReadonlyArray<object> =>
  requests.flatMap((request, index) => {
    if (request.key === undefined) return []
    const { id, tenant } = request
    return [{ place: index + 1, id, tenant, ...Object.fromEntries(keyColumns.map((name) => [name, request[name]])) }]
  })

/** Calls one of the ledger's functions for a batch, which takes it by columns, and answers JSON. */
export const callingBatch =
  (sql: SqlClient.SqlClient) =>
  <S extends Schema.Codec<unknown, unknown>>(name: string, columns: ReadonlyArray<string>, Outcome: S) => {
    const find = SqlSchema.findOne({
      Request: Schema.Struct({ head: Schema.String, requests: Schema.String, beside: Schema.String }),
      Result: Schema.Struct({ outcome: Outcome }),
      execute: ({ beside, head, requests }) => sql`
            SELECT ${sql.literal(name)}(${head}::text::json, ${requests}::text::json, ${beside}::text::json) AS outcome`
    })
    return Effect.fn(`LedgerRepository.${name}`)(({ head, requests }: Batch, beside: object) =>
      Effect.orDie(
        Effect.map(
          find({
            head: JSON.stringify({ ...head, keys: keysOf(requests) }),
            requests: JSON.stringify(sharedColumnsOf(columns, requests)),
            beside: JSON.stringify(beside)
          }),
          (found) => (found as { readonly outcome: S["Type"] }).outcome
        )
      )
    )
  }
