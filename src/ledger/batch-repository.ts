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
            requests: JSON.stringify(columnsOf(columns, requests, "id")),
            beside: JSON.stringify(beside)
          }),
          (found) => (found as { readonly outcome: S["Type"] }).outcome
        )
      )
    )
  }
