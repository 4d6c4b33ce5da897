import {
  type Cause,
  Context,
  DateTime,
  Effect,
  Layer,
  Option,
  Predicate,
  Schema,
  SchemaTransformation,
  String as Text
} from "effect"
import { SqlClient, SqlError, SqlSchema, type Statement } from "effect/sql"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { instantAt } from "../../kernel/instant.ts"
import { withSpan } from "../../kernel/with-span.ts"
import { type CompositeFields, type CompositeRow, compositesOf } from "../../platform/database/composites.ts"
import { type Moment, momentText } from "../../platform/database/database.ts"
import {
  Amount,
  CallPlan,
  CapId,
  type ChargeId,
  Origin,
  PlanId,
  type PlanStatus,
  type ReservationId,
  ReservationState,
  spendActions,
  StoredCap,
  StoredEntry,
  StoredReservation,
  Sum
} from "./domain.ts"
import {
  type ApplicableCap,
  auditEntryOf,
  type AvailableBudget,
  type CapsRevisions,
  type CloseItem,
  type CloseResult,
  type DenyItem,
  type ExtendItem,
  type RefundItem,
  type Requester,
  type ReservationRest,
  type ReserveItem,
  type ReserveResult,
  slotColumns,
  type SpendingReport,
  type TransferItem,
  type TransferResult
} from "./protocol-domain.ts"
import { quantityOf, type Unit } from "./quantity-domain.ts"

/** Parameters of a function, each as PostgreSQL's text or as a flag; undefined is NULL. */
type Parameters = { readonly [name: string]: string | boolean | undefined }

const reserveParameters = [
  "moment",
  "hold_seconds",
  "has_thresholds",
  "tenants",
  "revision",
  "needs",
  "requests",
  "keys",
  "entries",
  "counters"
]
const settlePartParameters = ["moment", "requests", "rest", "rest_charge"]
const closeParameters = ["moment", "unread", "requests", "keys"]
const transferParameters = ["moment", "tenants", "revision", "needs", "requests", "charge", "moves"]
const recordParameters = ["moment", "tenants", "revision", "needs", "requests", "closings", "claims", "entries"]

/** The idempotency keys of a batch, each with the place of its request. */
const keysOf = (items: ReadonlyArray<Requester & { readonly id: string }>): string | undefined => {
  const keys = items.flatMap((item, index) =>
    item.repeatable === undefined ? [] : [{ place: index + 1, id: item.id, ...slotColumns(item) }]
  )
  return keys.length === 0 ? undefined : JSON.stringify(keys)
}

const names = new Map<string, string>()
const camel = (name: string): string => {
  let known = names.get(name)
  if (known === undefined) names.set(name, (known = Text.snakeToCamel(name)))
  return known
}

/** A row that PostgreSQL wrote as JSON. */
const row = <S extends Schema.Top>(schema: S) =>
  Schema.Record(Schema.String, Schema.Unknown).pipe(
    Schema.decodeTo(
      schema,
      SchemaTransformation.transform({
        decode: (members: Readonly<Record<string, unknown>>) =>
          Object.fromEntries(Object.entries(members).map(([name, value]) => [camel(name), value])) as S["Encoded"],
        encode: (members) => members as Readonly<Record<string, unknown>>
      })
    )
  )

const Reservation = row(StoredReservation)
const Entry = row(StoredEntry)
const Replays = Schema.Array(Schema.Struct({ place: Schema.Int, sha256: Schema.String, reservation: Reservation }))
/** When the period of a counter ends; null where it never does. */
const Ends = Schema.NullOr(Schema.Finite)

const AllOpen = Schema.Struct({
  /** The moment of the decision. */
  at: Schema.Finite,
  /** What each counter of the batch had left before it, and when its period ends. */
  headrooms: Schema.Array(Sum),
  ends: Schema.NullOr(Schema.Array(Ends))
})
const Decided = Schema.Struct({
  at: Schema.Finite,
  decisions: Schema.Array(
    Schema.Struct({
      verdict: Schema.Literals([
        "open",
        "held",
        "denied",
        "no-room",
        "replay",
        "due",
        "gone",
        "changed",
        "plan-missing",
        "plan-suspended",
        "plan-completed",
        "plan-aborted",
        "plan-expired"
      ]),
      /** What each of its caps has left, and when the period ends; none where it was decided without its counters. */
      headrooms: Schema.Array(Schema.NullOr(Sum)),
      ends: Schema.Array(Ends),
      /** The counter that has too little left, by its place among those of the batch. */
      shortage: Schema.NullOr(Schema.Struct({ place: Schema.Int, limit: Sum, spent: Sum, reserved: Sum }))
    })
  ),
  replays: Replays,
  approved: Schema.Array(Schema.Struct({ place: Schema.Int, reservation: Reservation })),
  /** Those of the batch, in the order of its needs; null where it has idempotency keys, approvals or plans. */
  counters: Schema.NullOr(Schema.Array(Schema.String))
})
const ReserveOutcome = Schema.Union([Schema.Struct({ stale: Schema.Literal(true) }), AllOpen, Decided])

const closeVerdicts = [
  "done",
  "same",
  "conflict",
  "missing",
  "foreign",
  "managed",
  "managed-by-plan",
  "unopened"
] as const

const CloseOutcome = Schema.Struct({
  verdicts: Schema.Array(Schema.Literals([...closeVerdicts, "replay"])),
  replays: Replays,
  // Most callers do not read these rows, and decoding them took a tenth of the time of a gateway call.
  closed: Schema.Array(Schema.Unknown)
})
const SettlePartOutcome = Schema.Struct({ rest: Schema.NullOr(Schema.Struct({ amount: Amount, tokens: Schema.Int })) })
/** The places of the events that are new. */
const RecordOutcome = Schema.Union([
  Schema.Struct({ stale: Schema.Literal(true) }),
  Schema.Struct({ fresh: Schema.Array(Schema.Int) })
])

const decodeClosed = Schema.decodeUnknownSync(
  Schema.Struct({ place: Schema.Int, reservation: Reservation, charge: Schema.NullOr(Entry) })
)

/** The fingerprint of the first request under the key, of a verdict `replay`. */
const sha256 = Schema.optionalKey(Schema.String)

const ReleaseOutcome = Schema.Struct({ verdict: Schema.Literals([...closeVerdicts, "changed"]) })

const ExtendOutcome = Schema.Struct({
  verdict: Schema.Literals(["done", "replay", "missing", "foreign", "managed", "unopened", "changed"]),
  sha256,
  reservation: Schema.optionalKey(Reservation)
})
export type ExtendOutcome = typeof ExtendOutcome.Type

const DenyOutcome = Schema.Struct({
  verdict: Schema.Literals(["done", "same", "replay", "missing", "gone", "changed"]),
  sha256,
  reservation: Schema.optionalKey(Reservation)
})
export type DenyOutcome = typeof DenyOutcome.Type

const RefundOutcome = Schema.Struct({
  verdict: Schema.Literals(["done", "replay", "missing", "own", "exceeds"]),
  sha256,
  refundable: Schema.optionalKey(Sum),
  refund: Schema.optionalKey(Entry)
})
export type RefundOutcome = typeof RefundOutcome.Type

const TransferOutcome = Schema.Struct({
  verdict: Schema.Literals([
    "open",
    "stale",
    "missing",
    "foreign",
    "managed",
    "held",
    "unopened",
    "other-plan",
    "too-small",
    "denied",
    "plan-suspended",
    "plan-completed",
    "plan-aborted",
    "plan-expired"
  ]),
  origin: Schema.optionalKey(Schema.NullOr(Origin)),
  state: Schema.optionalKey(Schema.NullOr(ReservationState)),
  /** What it holds, and what the caps in money leave beside it. */
  amount: Schema.optionalKey(Amount),
  tokens: Schema.optionalKey(Schema.Int),
  room: Schema.optionalKey(Schema.NullOr(Sum)),
  /** The counter that has too little left, by its place among those of the call. */
  place: Schema.optionalKey(Schema.Int),
  limit: Schema.optionalKey(Sum),
  spent: Schema.optionalKey(Sum),
  reserved: Schema.optionalKey(Sum)
})

/** Thresholds of a forecast that a counter may have passed, as it was then. Times are in milliseconds since 1970. */
const ForecastCheck = row(
  Schema.Struct({
    id: Uuid,
    percents: Schema.Array(Schema.Int),
    limitAmount: Sum,
    spent: Sum,
    periodStart: Schema.Finite,
    periodEnd: Schema.Finite,
    occurredAt: Schema.Finite
  })
)

/** A counter that differs from the sum of its entries and open reservations. */
const Drift = Schema.Struct({
  tenantId: TenantId,
  capId: Uuid,
  counterId: Uuid,
  counterKey: Schema.String,
  spent: Schema.BigInt,
  spentFold: Schema.String,
  reserved: Schema.BigInt,
  reservedFold: Schema.String
})
export type Drift = typeof Drift.Type

type PlanVerdict = `plan-${Exclude<PlanStatus, "active">}`
const inactivePlan = (verdict: PlanVerdict) =>
  ({ verdict: "plan-inactive", planStatus: verdict.slice("plan-".length) as Exclude<PlanStatus, "active"> }) as const

/** How much a reservation takes of a cap. */
const needOf = ({ unit }: ApplicableCap["cap"], { amount, tokens }: Pick<ReserveItem, "amount" | "tokens">): bigint =>
  unit === "usd" ? amount : unit === "tokens" ? BigInt(tokens) : 1n

const requestedBy = (amount: bigint, tokens: number): Readonly<Record<Unit, bigint>> => ({
  usd: amount,
  tokens: BigInt(tokens),
  requests: 1n
})

/** The plan as the first cap of its call: its counter has its id. */
const planCap = ({ plan, tenantId }: ReserveItem): ReadonlyArray<ApplicableCap> =>
  plan === undefined
    ? []
    : [{ isPlan: true, cap: { ...likeCap, tenantId, id: CapId.make(plan.id), name: plan.name ?? "" }, counterKey: "" }]
const likeCap = {
  unit: "usd",
  mode: "hard",
  status: "active",
  limitAmount: 0n,
  alertThresholds: [],
  period: "total",
  windowSeconds: null
} as const

/** Reservations that are decided together, each with the caps that apply to it. */
export interface ReserveBatch {
  readonly requests: ReadonlyArray<{ readonly item: ReserveItem; readonly caps: ReadonlyArray<ApplicableCap> }>
  readonly revisions: CapsRevisions
  readonly now: Moment
  /** How long what needs an approval is held. */
  readonly holdSeconds: number
}

/** A counter of a batch, with what all requests need of it. */
interface NeededCounter extends ApplicableCap {
  readonly place: number
  need: bigint
}

/** A request of a batch with its caps, and the places of their counters. */
interface PlacedRequest {
  readonly item: ReserveItem
  readonly caps: ReadonlyArray<ApplicableCap>
  readonly counters: ReadonlyArray<number>
}

/** Of how many counters the ids are remembered. */
const maxKnownCounters = 20_000

/** The ids of counters by their names: a counter stays the current one of its cap for its period, so it is looked up once. */
const makeKnownCounters = () => {
  const ids = new Map<string, string>()
  return {
    /** Those of all names as PostgreSQL's text; undefined where one is unknown. */
    idsOf: (names: ReadonlyArray<string>): string | undefined => {
      const found = names.map((name) => ids.get(name))
      return found.includes(undefined) ? undefined : `{${found.join()}}`
    },
    learn: (names: ReadonlyArray<string>, counters: ReadonlyArray<string>) => {
      if (ids.size + counters.length > maxKnownCounters) ids.clear()
      for (const [index, id] of counters.entries()) ids.set(names[index] ?? "", id)
    },
    forget: (names: ReadonlyArray<string>) => {
      for (const name of names) ids.delete(name)
    }
  }
}

/** The most that a counter can hold. */
const maxCounted = 9_223_372_036_854_775_807n

/** Lays a batch out as the arguments of its function: every counter once, and the requests in their order. */
const layOut = ({ holdSeconds, now, requests, revisions }: ReserveBatch) => {
  const counters = new Map<string, NeededCounter>()
  // Whether it may take from known counters without a decision; rolling windows are read when they are locked.
  let isPlain = true
  let isKeyed = false
  let hasApprovals = false
  const placed = requests.map(({ caps: applicable, item }): PlacedRequest => {
    isKeyed ||= item.repeatable !== undefined
    hasApprovals ||= item.kind !== "reserve"
    isPlain &&= item.kind === "reserve" && item.plan === undefined && item.repeatable === undefined
    const caps = item.plan === undefined ? applicable : [...planCap(item), ...applicable]
    const own = caps.map(({ cap, counterKey }) => {
      const name = `${cap.id}${counterKey}`
      let counter = counters.get(name)
      if (counter === undefined) counters.set(name, (counter = { place: counters.size + 1, cap, counterKey, need: 0n }))
      counter.need += needOf(cap, item)
      return counter.place
    })
    return { item, caps, counters: own }
  })
  const needed = [...counters.values()]
  isPlain &&= needed.every(({ cap, need }) => need <= maxCounted && cap.period !== "rolling")
  const parameters: Parameters = {
    moment: momentText(now),
    hold_seconds: `${holdSeconds}`,
    has_thresholds: needed.some(({ cap }) => cap.alertThresholds.length > 0),
    tenants: `{${Array.from(revisions, ([tenantId]) => tenantId).join()}}`,
    revision: `${Array.from(revisions, ([, revision]) => revision).reduce((sum, one) => sum + one, 0n)}`,
    needs: needsText(needed.map(needRow)),
    requests: requestsText(placed.map((request) => requestRow(request, needed.length))),
    keys: isKeyed ? keysOf(requests.map(({ item }) => item)) : undefined,
    entries: hasApprovals ? JSON.stringify(approvalEntries(requests)) : undefined
  }
  /** The names of its counters, where it may take from known ones. */
  const names = isPlain ? [...counters.keys()] : undefined
  return { parameters, placed, names }
}

/** The fields of each composite type that the functions of the ledger take, as the database has them. */
export const composites = {
  budget_need: {
    tenant_id: "uuid",
    cap_id: "uuid",
    counter_key: "text",
    need: "bigint",
    limit_amount: "bigint",
    most: "bigint"
  },
  budget_request: {
    id: "uuid",
    tenant_id: "uuid",
    kind: "text",
    origin: "text",
    agent_id: "uuid",
    plan_id: "uuid",
    application_id: "integer",
    api_key_id: "uuid",
    user_id: "text",
    model: "text",
    provider: "text",
    task_type: "text",
    amount: "bigint",
    tokens: "bigint",
    ttl_seconds: "integer",
    created_by: "text",
    metadata: "jsonb",
    reason: "text",
    confined: "boolean",
    caps: "jsonb",
    governing: "integer[]"
  },
  budget_closing: {
    id: "uuid",
    tenant_id: "uuid",
    kind: "text",
    origin: "text",
    principal: "text",
    unrestricted: "boolean",
    amount: "bigint",
    tokens: "bigint",
    charge_id: "uuid",
    usage: "jsonb",
    metadata: "jsonb",
    operation: "text",
    dialect: "text",
    model_asked: "text",
    model_served: "text",
    provider: "text",
    input_tokens: "bigint",
    output_tokens: "bigint",
    cached_input_tokens: "bigint",
    cache_write_tokens: "bigint",
    cache_write_1h_tokens: "bigint",
    reasoning_tokens: "bigint",
    rates: "jsonb",
    catalogue_version: "text",
    method: "text",
    status: "integer",
    latency_ms: "bigint",
    upstream_latency_ms: "bigint",
    time_to_first_token_ms: "bigint",
    attempts: "jsonb",
    call_metadata: "jsonb",
    trace_id: "text",
    tool_uses: "jsonb",
    happened_at: "timestamp with time zone",
    booked_from: "timestamp with time zone",
    price_terms: "jsonb",
    error: "jsonb"
  }
} as const satisfies Readonly<Record<string, CompositeFields>>
type Composite<Name extends keyof typeof composites> = CompositeRow<(typeof composites)[Name]>

const needsText = compositesOf(composites.budget_need)
const requestsText = compositesOf(composites.budget_request)
const closingsText = compositesOf(composites.budget_closing)

const needRow = ({ cap, counterKey, need }: NeededCounter): Composite<"budget_need"> => ({
  tenant_id: cap.tenantId,
  cap_id: cap.id,
  counter_key: counterKey,
  need: need > maxCounted ? undefined : need,
  limit_amount: cap.limitAmount,
  most: cap.mode === "soft" || cap.status !== "active" ? maxCounted : cap.limitAmount
})

const requestRow = ({ caps, counters, item }: PlacedRequest, counterCount: number): Composite<"budget_request"> => ({
  id: item.id,
  tenant_id: item.tenantId,
  kind: item.kind === "reserve" && item.mayWait === false ? "try" : item.kind,
  origin: item.origin,
  agent_id: item.dimensions.agentId,
  plan_id: item.plan?.id,
  application_id: item.dimensions.applicationId,
  api_key_id: item.dimensions.apiKeyId,
  user_id: item.dimensions.userId,
  model: item.dimensions.model,
  provider: item.dimensions.provider,
  task_type: item.dimensions.taskType,
  amount: item.amount,
  tokens: item.tokens,
  ttl_seconds: item.ttlSeconds,
  created_by: item.principal,
  metadata: item.metadata,
  reason: item.reason,
  confined: item.kind === "reserve" ? undefined : item.confined,
  // A repetition is answered with the caps that applied to the first request.
  caps:
    item.repeatable === undefined
      ? undefined
      : caps.map(({ cap }) => ({ tenantId: cap.tenantId, id: cap.id, name: cap.name, unit: cap.unit })),
  // Its own places where they are not all of the batch, in order.
  governing:
    counters.length === counterCount && counters.every((place, at) => place === at + 1)
      ? undefined
      : `{${counters.join()}}`
})

const closingRow = (item: CloseItem): Composite<"budget_closing"> => {
  const { call, happened } = item
  const tokens = call?.usage
  return {
    id: item.id,
    tenant_id: item.tenantId,
    kind: item.kind,
    origin: item.origin,
    principal: item.principal,
    unrestricted: item.canActForOthers,
    amount: item.amount,
    tokens: item.tokens,
    charge_id: item.kind === "release" ? undefined : item.chargeId,
    usage: item.usage,
    metadata: item.metadata,
    // From here on, what a call of the gateway adds.
    operation: call?.operation,
    dialect: call?.dialect,
    model_asked: call?.modelAsked,
    model_served: call?.modelServed,
    provider: call?.provider,
    input_tokens: tokens?.inputTokens,
    output_tokens: tokens?.outputTokens,
    cached_input_tokens: tokens?.cachedInputTokens,
    cache_write_tokens: tokens?.cacheWriteTokens,
    cache_write_1h_tokens: tokens?.cacheWrite1hTokens,
    reasoning_tokens: tokens?.reasoningTokens,
    rates: call?.rates,
    catalogue_version: call?.catalogueVersion,
    method: call?.method,
    status: call?.status,
    latency_ms: call?.latencyMs,
    upstream_latency_ms: call?.upstreamLatencyMs,
    time_to_first_token_ms: call?.timeToFirstTokenMs,
    attempts: call?.attempts,
    call_metadata: call?.metadata,
    trace_id: call?.traceId,
    tool_uses: tokens?.toolUses,
    happened_at: happened && DateTime.formatIso(happened.at),
    booked_from: happened && DateTime.formatIso(happened.bookedFrom),
    price_terms: call?.priceTerms,
    error: call?.error
  }
}

/** Reservations are a record of their own; an approval of one is an audit entry. */
const approvalEntries = (requests: ReserveBatch["requests"]) =>
  requests.flatMap(({ item }, index) =>
    item.kind === "reserve"
      ? []
      : [
          {
            ...auditEntryOf(index + 1, spendActions.SpendApproved, item.id, item.audit, {
              ...item.dimensions,
              amountUsd: quantityOf("usd", item.amount),
              tokens: item.tokens,
              ...(item.reason === undefined ? {} : { reason: item.reason })
            }),
            seen: item.seen
          }
        ]
  )

/** All have room, one after the other. */
const readAllOpen = (
  placed: ReadonlyArray<PlacedRequest>,
  { at: millis, ends, headrooms }: typeof AllOpen.Type
): ReadonlyArray<ReserveResult> => {
  const at = instantAt(millis)
  const left = [...headrooms]
  return placed.map(({ caps, counters, item }) => ({
    verdict: "open",
    at,
    available: caps.map((one, index): AvailableBudget => {
      const counter = (counters[index] ?? 0) - 1
      const room = (left[counter] ?? 0n) - needOf(one.cap, item)
      left[counter] = room
      return { ...one, headroom: room > 0n ? room : 0n, resetsAt: ends?.[counter] ?? null }
    })
  }))
}

/** The result of each request; "due" where expired reservations must be swept first. */
const readDecided = (
  placed: ReadonlyArray<PlacedRequest>,
  outcome: typeof Decided.Type
): ReadonlyArray<ReserveResult | "due"> => {
  const at = instantAt(outcome.at)
  const replays = new Map(outcome.replays.map((replay) => [replay.place, replay]))
  const approved = new Map(outcome.approved.map(({ place, reservation }) => [place, reservation]))
  return placed.map(({ caps, counters, item }, index): ReserveResult | "due" => {
    const decision = outcome.decisions[index]
    if (decision === undefined) return { verdict: "gone" }
    const { ends, headrooms, shortage, verdict } = decision
    const available = caps.map((one, place): AvailableBudget => ({
      ...one,
      headroom: headrooms[place] ?? 0n,
      resetsAt: ends[place] ?? null
    }))
    switch (verdict) {
      case "open": {
        const reservation = approved.get(index + 1)
        return item.kind === "reserve" || reservation === undefined
          ? { verdict, at, available }
          : { verdict: "approved", reservation }
      }
      case "held":
        return { verdict, at, available }
      case "denied":
      case "no-room": {
        const budget = shortage === null ? undefined : available[counters.indexOf(shortage.place)]
        if (shortage === null || budget === undefined) return { verdict: "gone" }
        const { limit, reserved, spent } = shortage
        const requested = requestedBy(item.amount, item.tokens)
        return { verdict, insufficient: { budget, limit, spent, reserved, requested }, available }
      }
      case "replay": {
        const replay = replays.get(index + 1)
        return replay === undefined ? { verdict: "gone" } : { verdict, ...replay }
      }
      case "gone":
      case "changed":
      case "plan-missing":
        return { verdict }
      case "plan-suspended":
      case "plan-completed":
      case "plan-aborted":
      case "plan-expired":
        return inactivePlan(verdict)
      case "due":
        return verdict
    }
  })
}

const readTransfer = (
  { amount, reserved, tokens }: TransferItem,
  caps: ReadonlyArray<ApplicableCap>,
  outcome: typeof TransferOutcome.Type
): TransferResult | "stale" => {
  const { verdict } = outcome
  switch (verdict) {
    case "stale":
      return verdict
    case "open":
      return {
        verdict,
        amount: outcome.amount ?? amount,
        tokens: outcome.tokens ?? tokens,
        remainingNanoUsd: outcome.room ?? null
      }
    case "denied": {
      const found = caps[(outcome.place ?? 0) - 1]
      if (found === undefined) return { verdict: "missing" }
      const budget = { ...found, headroom: 0n, resetsAt: null }
      const { limit = 0n, reserved: committed = 0n, spent = 0n } = outcome
      const requested = requestedBy(reserved, tokens)
      return { verdict, insufficient: { budget, limit, spent, reserved: committed, requested }, available: [budget] }
    }
    case "foreign":
      return { verdict: "other-caller" }
    case "managed":
      return { verdict, origin: outcome.origin ?? "gateway" }
    case "held":
    case "unopened":
      return { verdict: "unopened", state: outcome.state ?? "expired" }
    case "too-small":
      return { verdict, amount }
    case "missing":
    case "other-plan":
      return { verdict }
    case "plan-suspended":
    case "plan-completed":
    case "plan-aborted":
    case "plan-expired":
      return inactivePlan(verdict)
  }
}

/** The SQLSTATE with which the database refused a statement; undefined where it did not, or did not answer. */
export const sqlStateOf = (cause: Cause.Cause<unknown>): string | undefined => {
  for (const reason of cause.reasons) {
    const error = reason._tag === "Die" ? reason.defect : undefined
    if (!SqlError.isSqlError(error)) continue
    const { cause: origin } = error.reason
    if (Predicate.hasProperty(origin, "code") && typeof origin.code === "string") return origin.code
  }
  return undefined
}

/** Whether a number exceeded what its column holds. */
export const isOverflow = (cause: Cause.Cause<unknown>): boolean => sqlStateOf(cause) === "22003"

interface SweepRequest {
  readonly now: Moment
  readonly tenant: TenantId | null
  readonly most: number
  /** Whether to wait for rows that others are at work on. */
  readonly waiting: boolean
}

const capColumns =
  "tenant_id, id, name, scope, unit, limit_amount, period, window_seconds, time_zone, anchor, mode, alert_thresholds, status, version, created_at, updated_at"

/**
 * The functions of the ledger in the database. Each is one statement and so a transaction of its own, unless it is called
 * within another.
 */
export class LedgerStore extends Context.Service<LedgerStore>()("app/budgets/LedgerStore", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient

    const jsonCall = <S extends Schema.Codec<unknown, unknown>>(
      name: string,
      Outcome: S,
      outcomeOf: (request: string) => Statement.Fragment
    ) => {
      const find = SqlSchema.findOne({
        Request: Schema.String,
        Result: Schema.Struct({ outcome: Outcome }),
        execute: (request) => sql`SELECT ${outcomeOf(request)} AS outcome`
      })
      return Effect.fn(`LedgerStore.${name}`)((request: object) =>
        Effect.orDie(
          Effect.map(find(JSON.stringify(request)), (found) => (found as { readonly outcome: S["Type"] }).outcome)
        )
      )
    }

    /** A function that takes and answers JSON. */
    const jsonFunction = <S extends Schema.Codec<unknown, unknown>>(name: string, Outcome: S) =>
      jsonCall(name, Outcome, (request) => sql`${sql.literal(name)}(${request}::text::json)`)

    /** A change that takes and answers JSON, made once for each idempotency key. */
    const onceFunction = <S extends Schema.Codec<unknown, unknown>>(change: string, Outcome: S) =>
      jsonCall(change, Outcome, (request) => sql`budgets_once(${change}, ${request}::text::json)`)

    /** A function that takes a batch by columns of their own types, and answers JSON. */
    const batchFunction = <S extends Schema.Codec<unknown, unknown>>(
      name: string,
      parameters: ReadonlyArray<string>,
      Outcome: S
    ) => {
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
      return withSpan(`LedgerStore.${name}`, (given: Parameters) =>
        Effect.orDie(Effect.map(find(given), (found) => (found as { readonly outcome: S["Type"] }).outcome))
      )
    }

    const sweepFunction = (name: string) => {
      const sweep = jsonFunction(name, Schema.Struct({ swept: Schema.Int }))
      return ({ now, ...request }: SweepRequest) =>
        Effect.map(sweep({ ...request, now: momentText(now) }), ({ swept }) => swept)
    }

    const reserve = batchFunction("budgets_reserve", reserveParameters, ReserveOutcome)
    const known = makeKnownCounters()
    const close = batchFunction("budgets_close", closeParameters, CloseOutcome)
    const settlePart = batchFunction("budgets_settle_part", settlePartParameters, SettlePartOutcome)
    const record = batchFunction("budgets_record", recordParameters, RecordOutcome)
    const release = onceFunction("release", ReleaseOutcome)
    const extend = onceFunction("extend", ExtendOutcome)
    const deny = onceFunction("deny", DenyOutcome)
    const refund = onceFunction("refund", RefundOutcome)
    const transfer = batchFunction("budgets_adopt", transferParameters, TransferOutcome)
    const renew = jsonFunction("budgets_renew", Schema.Struct({ renewed: Schema.Int }))
    const forecastChecks = jsonFunction("budgets_forecast_checks", Schema.Array(ForecastCheck))
    const forecastAlerts = jsonFunction("budgets_forecast_alerts", Schema.Struct({ alerts: Schema.Int }))
    const selectDrift = SqlSchema.findAll({
      Request: Schema.Void,
      Result: Drift,
      execute: () => sql`SELECT * FROM budgets_drift()`
    })
    const selectRevision = SqlSchema.findOneOption({
      Request: TenantId,
      Result: Schema.Struct({ revision: Schema.BigInt }),
      execute: (tenantId) => sql`SELECT caps_version AS revision FROM budget_books WHERE tenant_id = ${tenantId}`
    })
    const selectCaps = SqlSchema.findAll({
      Request: TenantId,
      Result: StoredCap,
      execute: (tenantId) => sql`
        SELECT ${sql.literal(capColumns)} FROM budget_caps WHERE tenant_id = ${tenantId} AND deleted_at IS NULL
        ORDER BY id`
    })
    const selectPlan = SqlSchema.findOneOption({
      Request: PlanId,
      Result: CallPlan,
      execute: (id) => sql`SELECT tenant_id, id, agent_id, task_type, name FROM budget_plans WHERE id = ${id}`
    })

    const selectReplay = SqlSchema.findOne({
      Request: Schema.String,
      Result: Schema.Struct({ replays: Replays }),
      execute: (slots) => sql`SELECT budget_replays(${slots}::json, '{1}') AS replays`
    })

    return {
      /** Decides a batch in the order given; "stale" where caps have changed since they were found. */
      reserve: (batch: ReserveBatch): Effect.Effect<ReadonlyArray<ReserveResult | "due"> | "stale"> => {
        const { names, parameters, placed } = layOut(batch)
        const read = (outcome: typeof ReserveOutcome.Type) => {
          if ("stale" in outcome) return "stale"
          if ("headrooms" in outcome) return readAllOpen(placed, outcome)
          if (names !== undefined) {
            // Where there is too little, the next batch looks before it takes.
            const isAllOpen = outcome.decisions.every(({ verdict }) => verdict === "open")
            if (isAllOpen) known.learn(names, outcome.counters ?? [])
            else known.forget(names)
          }
          return readDecided(placed, outcome)
        }
        const decided = Effect.suspend(() => Effect.map(reserve(parameters), read))
        const counters = names && known.idsOf(names)
        if (names === undefined || counters === undefined) return decided
        return reserve({ ...parameters, counters }).pipe(
          // What no counter can hold is not counted under a soft cap, which the decision sees to.
          Effect.catchCause((cause) =>
            isOverflow(cause) ? Effect.succeed({ stale: true } as const) : Effect.failCause(cause)
          ),
          Effect.flatMap((outcome) => {
            if (!("stale" in outcome)) return Effect.succeed(read(outcome))
            known.forget(names)
            return decided
          })
        )
      },

      /** Settles and releases; a reservation is only once in a batch. */
      close: (items: ReadonlyArray<CloseItem>, now: Moment): Effect.Effect<ReadonlyArray<CloseResult>> => {
        // The gateway knows what it charged.
        const isRead = items.some(({ origin }) => origin !== "gateway")
        const parameters: Parameters = {
          moment: momentText(now),
          unread: !isRead,
          requests: closingsText(items.map(closingRow)),
          keys: keysOf(items)
        }
        return Effect.map(close(parameters), (outcome) => {
          const replays = new Map(outcome.replays.map(({ place, sha256 }) => [place, sha256]))
          const closed = new Map(
            (isRead ? outcome.closed : []).flatMap((one) => {
              const { charge, place, reservation } = decodeClosed(one)
              return charge === null ? [] : [[place, { charge, reservation }] as const]
            })
          )
          return outcome.verdicts.map((verdict, index): CloseResult => {
            if (verdict === "replay") {
              return { verdict, sha256: replays.get(index + 1) ?? "", closed: closed.get(index + 1) }
            }
            return verdict === "done" || verdict === "same" ? { verdict, closed: closed.get(index + 1) } : { verdict }
          })
        })
      },

      /** How many of the events are new, after their charges; "stale" where caps have changed since they were found. */
      record: (
        { audit, others, spent, tenantId }: SpendingReport,
        capsOf: (item: ReserveItem) => ReadonlyArray<ApplicableCap>,
        revisions: CapsRevisions,
        now: Moment
      ): Effect.Effect<number | "stale"> => {
        const requests = spent.map(({ item: { reservation } }) => ({ item: reservation, caps: capsOf(reservation) }))
        const { parameters } = layOut({ requests, revisions, now, holdSeconds: 0 })
        const events = [...spent, ...others]
        return Effect.map(
          record({
            ...parameters,
            closings: closingsText(spent.map(({ item }) => closingRow(item.settlement))),
            claims: JSON.stringify(
              events.map(({ digest }, index) => ({ place: index + 1, tenant_id: tenantId, digest }))
            ),
            entries: JSON.stringify(
              events.map(({ action, after, id }, index) => auditEntryOf(index + 1, action, id, audit, after))
            )
          }),
          (outcome) => ("stale" in outcome ? "stale" : outcome.fresh.length)
        )
      },

      /** Settles a reservation for an attempt, and makes another one, with the charge `restChargeId`, of what that leaves. */
      settlePart: (
        item: CloseItem,
        rest: ReservationId,
        restChargeId: ChargeId,
        now: Moment
      ): Effect.Effect<ReservationRest | undefined> =>
        Effect.map(
          settlePart({
            moment: momentText(now),
            requests: closingsText([closingRow(item)]),
            rest,
            rest_charge: restChargeId
          }),
          (outcome) => outcome.rest ?? undefined
        ),

      /** Releases a reservation that has the version that the caller has seen. */
      releaseSeen: (item: CloseItem, now: Moment): Effect.Effect<CloseResult> =>
        Effect.map(
          release({
            ...slotColumns(item),
            now: momentText(now),
            id: item.id,
            tenant_id: item.tenantId,
            kind: item.kind,
            origin: item.origin,
            unrestricted: item.canActForOthers,
            amount: 0
          }),
          ({ verdict }) => (verdict === "done" || verdict === "same" ? { verdict, closed: undefined } : { verdict })
        ),

      extend: (item: ExtendItem, now: Moment) => {
        const { canActForOthers, id, origin, tenantId, ttlSeconds } = item
        return extend({
          ...slotColumns(item),
          id,
          origin,
          now: momentText(now),
          tenant: tenantId,
          unrestricted: canActForOthers,
          ttl: ttlSeconds
        })
      },

      deny: (item: DenyItem, now: Moment) => {
        const { audit, id, reason, tenantId } = item
        return deny({
          ...slotColumns(item),
          now: momentText(now),
          id,
          tenant: tenantId,
          reason,
          entries: [auditEntryOf(1, spendActions.SpendDenied, id, audit, { reason })]
        })
      },

      refund: (item: RefundItem, now: Moment) => {
        const { amount, audit, chargeId, id, isSystem, reason, tenantId } = item
        const after = { amountUsd: quantityOf("usd", amount), reason }
        return refund({
          ...slotColumns(item),
          now: momentText(now),
          id,
          charge: chargeId,
          tenant: tenantId,
          amount: Number(amount),
          reason,
          system: isSystem,
          entries: [auditEntryOf(1, spendActions.SpendRefunded, chargeId, audit, after)]
        })
      },

      /** Makes a prepared reservation that of a gateway call; "stale" where caps have changed since they were found. */
      transfer: (
        item: TransferItem,
        caps: ReadonlyArray<ApplicableCap>,
        revisions: CapsRevisions,
        now: Moment
      ): Effect.Effect<TransferResult | "stale"> => {
        const request = { item: { ...item, kind: "reserve", origin: "gateway" }, caps } as const
        const { parameters, placed } = layOut({ requests: [request], revisions, now, holdSeconds: 0 })
        return Effect.map(transfer({ ...parameters, charge: item.chargeId, moves: item.moves }), (outcome) =>
          readTransfer(item, placed[0]?.caps ?? [], outcome)
        )
      },

      /** Extends the time of gateway calls that still run. */
      renew: (
        calls: ReadonlyArray<{ readonly tenantId: TenantId; readonly id: ReservationId }>,
        ttlSeconds: number,
        now: Moment
      ) =>
        renew({
          now: momentText(now),
          ttl: ttlSeconds,
          calls: calls.map(({ id, tenantId }) => ({ tenant: tenantId, id }))
        }),

      /** Ends at most `most` reservations that are due; answers how many. */
      sweep: sweepFunction("budgets_sweep"),

      /** The same for plans that missed their heartbeats or have ended. */
      sweepPlans: sweepFunction("budgets_plans_sweep"),

      /** At most `most` forecasts that no replica has decided yet. */
      forecastChecks: (most: number) => forecastChecks({ most }),

      /** Records what each of the checks has passed, and ends it. */
      endForecastChecks: (
        checks: ReadonlyArray<{ readonly id: string; readonly percents: ReadonlyArray<number> }>,
        now: Moment
      ) =>
        forecastAlerts({
          now: momentText(now),
          checks: checks.map(({ id, percents }) => ({ id, percents: `{${percents.join()}}` }))
        }),

      drift: Effect.orDie(selectDrift(undefined)),

      /** The caps of a tenant, with the revision that the list of them has. */
      capsOf: Effect.fn("LedgerStore.capsOf")(function* (tenantId: TenantId) {
        // The revision is read first: caps that are newer than it only make the copy look old.
        const revision = yield* Effect.orDie(selectRevision(tenantId))
        const caps = yield* Effect.orDie(selectCaps(tenantId))
        return { revision: Option.match(revision, { onNone: () => 0n, onSome: (one) => one.revision }), caps }
      }),

      /** The answer to the first reserve under a key; undefined where there was none. */
      replayOf: Effect.fn("LedgerStore.replayOf")(function* (by: Requester) {
        const { replays } = yield* Effect.orDie(selectReplay(JSON.stringify([{ place: 1, ...slotColumns(by) }])))
        return replays[0]
      }),

      planOf: Effect.fn("LedgerStore.planOf")((id: PlanId) => Effect.orDie(selectPlan(id)))
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
