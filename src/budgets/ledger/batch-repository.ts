import { Effect, Schema } from "effect"
import { type SqlClient, SqlSchema } from "effect/sql"

type Row = { readonly [name: string]: unknown }

/** What a parameter of a function is in PostgreSQL's text, or a flag; null, when undefined. */
type Parameters = { readonly [name: string]: string | boolean | undefined }

/** What one statement does: what is said once, and the requests in the order of their places. */
interface Batch {
  readonly head: Parameters
  readonly requests: ReadonlyArray<Row>
}
export interface ReserveRequests extends Batch {
  /** Whether room is all that they ask for. */
  readonly isPlain: boolean
  /** The versions of the caps that they were laid out by. */
  readonly books: ReadonlyArray<Row>
  /** What all of them need of each counter. */
  readonly needs: ReadonlyArray<Row>
  /** What the audit log records of them. */
  readonly entries: ReadonlyArray<object>
}
export interface CloseRequests extends Batch {
  /** What the row of a call keeps, at the place of its request. */
  readonly calls: ReadonlyArray<Row | undefined>
}

/** The fields of `budget_request`, in their order. */
export const requestFields = [
  "id",
  "tenant_id",
  "kind",
  "origin",
  "agent_id",
  "plan_id",
  "application_id",
  "api_key_id",
  "user_id",
  "model",
  "provider",
  "task_type",
  "amount",
  "tokens",
  "ttl_seconds",
  "principal",
  "metadata",
  "reason",
  "confined",
  "caps",
  "governing"
] as const
/** The fields of `budget_need`, in their order. */
export const needFields = ["tenant_id", "cap_id", "counter_key", "need", "limit_amount", "most"] as const
/** The fields of `budget_books`, in their order. */
export const bookFields = ["tenant_id", "caps_version"] as const
export const reserveParameters = [
  "moment",
  "hold_seconds",
  "is_plain",
  "has_thresholds",
  "books",
  "needs",
  "requests",
  "keys",
  "entries"
]
export const closeColumns = {
  ids: "id",
  tenants: "tenant",
  kinds: "kind",
  origins: "origin",
  principals: "principal",
  unrestricteds: "unrestricted",
  amounts: "amount",
  token_counts: "tokens",
  charge_ids: "charge_id",
  usages: "usage",
  metadatas: "metadata"
}
export const callColumns = {
  operations: "operation",
  dialects: "dialect",
  models_asked: "modelAsked",
  models_served: "modelServed",
  call_providers: "provider",
  inputs: "inputTokens",
  outputs: "outputTokens",
  cached_inputs: "cachedInputTokens",
  cache_writes: "cacheWriteTokens",
  cache_writes_1h: "cacheWrite1hTokens",
  reasonings: "reasoningTokens",
  call_rates: "rates",
  catalogues: "catalogueVersion",
  methods: "method",
  statuses: "status",
  latencies: "latencyMs",
  upstream_latencies: "upstreamLatencyMs",
  first_tokens: "timeToFirstTokenMs",
  call_attempts: "attempts",
  call_metadatas: "metadata",
  traces: "traceId"
}
export const closeParameters = [
  "moment",
  "keyed",
  "unread",
  ...Object.keys(closeColumns),
  ...Object.keys(callColumns),
  "keys"
]

const keyColumns = ["principal", "route", "key", "request_sha256"] as const

/** The keys under which requests may come again, by the places of the requests. */
export const keysOf = (requests: ReadonlyArray<Row>): string | undefined => {
  const keys = requests.flatMap((request, index) => {
    if (request.key === undefined) return []
    return [
      { place: index + 1, id: request.id, ...Object.fromEntries(keyColumns.map((name) => [name, request[name]])) }
    ]
  })
  return keys.length === 0 ? undefined : JSON.stringify(keys)
}

/** Calls one of the ledger's functions for a batch, which takes it by columns of their own types, and answers JSON. */
export const callingBatch =
  (sql: SqlClient.SqlClient) =>
  <S extends Schema.Codec<unknown, unknown>>(name: string, parameters: ReadonlyArray<string>, Outcome: S) => {
    const taken = parameters.map((parameter, index) => `${parameter} => $${index + 1}`)
    const statement = `SELECT ${name}(${taken.join(", ")}) AS outcome`
    const find = SqlSchema.findOne({
      Request: Schema.Any,
      Result: Schema.Struct({ outcome: Outcome }),
      execute: (given: Parameters) =>
        sql.unsafe(
          statement,
          parameters.map((parameter) => given[parameter] ?? null)
        )
    })
    return Effect.fn(`LedgerStore.${name}`)((given: Parameters) =>
      Effect.orDie(Effect.map(find(given), (found) => (found as { readonly outcome: S["Type"] }).outcome))
    )
  }
