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
  /** What the audit log records of them. */
  readonly entries: ReadonlyArray<object>
}
export interface CloseRequests extends Batch {
  /** What the row of a call keeps, at the place of its request. */
  readonly calls: ReadonlyArray<Row | undefined>
}

export const reserveColumns = {
  ids: "id",
  tenants: "tenant",
  kinds: "kind",
  origins: "origin",
  agents: "agent",
  plans: "plan",
  applications: "application",
  api_keys: "api_key",
  user_ids: "user_id",
  models: "model",
  providers: "provider",
  task_types: "task_type",
  amounts: "amount",
  tokens: "tokens",
  ttls: "ttl",
  principals: "principal",
  metadatas: "metadata",
  reasons: "reason",
  confineds: "confined",
  repeated: "key",
  caps: "caps"
}
export const reserveParameters = [
  "moment",
  "hold_seconds",
  "keyed",
  "has_plans",
  "has_approvals",
  "is_alike",
  "book_tenants",
  "book_versions",
  "counter_tenants",
  "counter_caps",
  "counter_keys",
  "needs",
  "pair_requests",
  "pair_counters",
  "first_pairs",
  "last_pairs",
  ...Object.keys(reserveColumns),
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
    const { id, tenant } = request
    return [{ place: index + 1, id, tenant, ...Object.fromEntries(keyColumns.map((name) => [name, request[name]])) }]
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
