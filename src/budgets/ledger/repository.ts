import { Context, DateTime, Effect, Layer, Schema, SchemaTransformation, String as Text } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { AgentId } from "../../identity/agents/domain.ts"
import { ApiKeyId } from "../../identity/api-keys/domain.ts"
import { ApplicationId } from "../../applications/applications/domain.ts"
import { columnsOf, compositesOf } from "../../platform/database/columns.ts"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { Instant } from "../../kernel/instant.ts"
import {
  bookFields,
  callColumns,
  callingBatch,
  closeColumns,
  closeParameters,
  type CloseRequests,
  keysOf,
  needFields,
  requestFields,
  reserveParameters,
  type ReserveRequests
} from "./batch-repository.ts"
import { ChargeId, Origin, PlanId, ReservationId, ReservationState } from "./domain.ts"

/** Amounts of one row in JSON, which a double holds. */
export const Amount = Schema.Finite.pipe(
  Schema.decodeTo(Schema.BigInt, SchemaTransformation.transform({ decode: BigInt, encode: Number }))
)
/** Sums, which no double may hold. */
export const Sum = Schema.String.pipe(
  Schema.decodeTo(Schema.BigInt, SchemaTransformation.transform({ decode: BigInt, encode: String }))
)

/** A reservation as it is stored. */
export const StoredReservation = Schema.Struct({
  tenantId: TenantId,
  id: ReservationId,
  state: ReservationState,
  origin: Origin,
  agentId: Schema.NullOr(AgentId),
  planId: Schema.NullOr(PlanId),
  applicationId: Schema.NullOr(ApplicationId),
  apiKeyId: Schema.NullOr(ApiKeyId),
  userId: Schema.NullOr(Schema.String),
  model: Schema.NullOr(Schema.String),
  provider: Schema.NullOr(Schema.String),
  taskType: Schema.NullOr(Schema.String),
  amount: Amount,
  tokens: Schema.Int,
  ttlSeconds: Schema.Int,
  expiresAt: Instant,
  createdAt: Instant,
  createdBy: Schema.String,
  metadata: Schema.NullOr(Schema.Record(Schema.String, Schema.String)),
  counterIds: Schema.Array(Uuid),
  answer: Schema.NullOr(
    Schema.Struct({
      state: Schema.Literals(["open", "held"]),
      amount: Schema.optionalKey(Amount),
      tokens: Schema.optionalKey(Schema.Int),
      ttl: Schema.optionalKey(Schema.Int),
      caps: Schema.NullOr(
        Schema.Array(Schema.Struct({ tenantId: TenantId, id: Uuid, name: Schema.String, unit: Schema.String }))
      ),
      headrooms: Schema.NullOr(Schema.Array(Sum)),
      ends: Schema.NullOr(Schema.Array(Schema.NullOr(Schema.Finite)))
    })
  ),
  decidedAt: Schema.NullOr(Instant),
  decidedBy: Schema.NullOr(Schema.String),
  decisionReason: Schema.NullOr(Schema.String),
  closedAt: Schema.NullOr(Instant),
  chargeId: Schema.NullOr(ChargeId),
  actual: Schema.NullOr(Amount),
  actualTokens: Schema.NullOr(Schema.Int),
  late: Schema.Boolean
})
export type StoredReservation = typeof StoredReservation.Type

/** A charge or a refund as it is stored. */
export const StoredEntry = Schema.Struct({
  tenantId: TenantId,
  id: ChargeId,
  reservationId: ReservationId,
  kind: Schema.Literals(["charge", "refund"]),
  chargeId: ChargeId,
  amount: Amount,
  tokens: Schema.Int,
  overrun: Amount,
  late: Schema.Boolean,
  reason: Schema.NullOr(Schema.String),
  metadata: Schema.NullOr(Schema.Record(Schema.String, Schema.String)),
  occurredAt: Instant,
  createdBy: Schema.String
})
export type StoredEntry = typeof StoredEntry.Type

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

export const ReserveVerdict = Schema.Literals([
  "open",
  "held",
  "denied",
  "no-room",
  "replay",
  "due",
  "gone",
  "plan-missing",
  "plan-suspended",
  "plan-completed",
  "plan-aborted",
  "plan-expired"
])
export type ReserveVerdict = typeof ReserveVerdict.Type

const Sums = Schema.Array(Schema.NullOr(Sum))
const Ends = Schema.NullOr(Schema.Array(Schema.NullOr(Schema.Finite)))

const ReserveOutcome = Schema.Union([
  Schema.Struct({ stale: Schema.Literal(true) }),
  /** All are open: the room that each counter had before, and when its period ends. */
  Schema.Struct({ rooms: Schema.Array(Sum), ends: Ends }),
  Schema.Struct({
    verdicts: Schema.Array(ReserveVerdict),
    headrooms: Sums,
    ends: Ends,
    /** The ends of the periods on which plans hold, by pairs; none where no plan is in play. */
    pairEnds: Ends,
    failing: Schema.Array(Schema.NullOr(Schema.Int)),
    failingLimits: Sums,
    failingSpents: Sums,
    failingReserveds: Sums,
    replays: Replays,
    approved: Schema.Array(Schema.Struct({ place: Schema.Int, reservation: Reservation }))
  })
])
export type ReserveOutcome = typeof ReserveOutcome.Type

export const CloseVerdict = Schema.Literals([
  "done",
  "same",
  "conflict",
  "missing",
  "foreign",
  "managed",
  "managed-by-plan",
  "unopened",
  "replay"
])
export type CloseVerdict = typeof CloseVerdict.Type

const CloseOutcome = Schema.Struct({
  verdicts: Schema.Array(CloseVerdict),
  replays: Replays,
  // Rows that only some callers read: decoding them took a tenth of the time of a gateway's call.
  closed: Schema.Array(Schema.Unknown)
})
export type CloseOutcome = typeof CloseOutcome.Type

const Closed = Schema.Struct({ place: Schema.Int, reservation: Reservation, charge: Schema.NullOr(Entry) })
/** A reservation that was closed, and what was charged for it. */
export const decodeClosed = Schema.decodeUnknownSync(Closed)

const ExtendOutcome = Schema.Struct({
  verdict: Schema.Literals(["done", "missing", "foreign", "managed", "unopened"]),
  reservation: Schema.optionalKey(Reservation)
})
export type ExtendOutcome = typeof ExtendOutcome.Type
const DenyOutcome = Schema.Struct({
  verdict: Schema.Literals(["done", "same", "missing", "gone"]),
  reservation: Schema.optionalKey(Reservation)
})
export type DenyOutcome = typeof DenyOutcome.Type
const RefundOutcome = Schema.Struct({
  verdict: Schema.Literals(["done", "missing", "own", "exceeds"]),
  refundable: Schema.optionalKey(Sum),
  refund: Schema.optionalKey(Entry)
})

export type RefundOutcome = typeof RefundOutcome.Type

/** A counter that is not what its entries and open reservations sum up to. */
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

/** Calls one of the ledger's functions, which takes and answers JSON. */
export const calling =
  (sql: SqlClient.SqlClient) =>
  <S extends Schema.Codec<unknown, unknown>>(name: string, Outcome: S) => {
    const find = SqlSchema.findOne({
      Request: Schema.String,
      Result: Schema.Struct({ outcome: Outcome }),
      execute: (request) => sql`SELECT ${sql.literal(name)}(${request}::text::json) AS outcome`
    })
    return Effect.fn(`LedgerStore.${name}`)((request: object) =>
      Effect.orDie(
        Effect.map(find(JSON.stringify(request)), (found) => (found as { readonly outcome: S["Type"] }).outcome)
      )
    )
  }

interface SweepRequest {
  readonly now: DateTime.Utc
  readonly tenant: TenantId | null
  readonly most: number
  readonly waiting: boolean
}

/** The statements of the ledger. Each is one function call and so a transaction of its own, unless it is part of another. */
export class LedgerStore extends Context.Service<
  LedgerStore,
  {
    reserve(batch: ReserveRequests): Effect.Effect<ReserveOutcome>
    close(batch: CloseRequests): Effect.Effect<CloseOutcome>
    /** Ends at most `most` of what is due; answers how many. `waiting`: also what others are at work on. */
    sweep(request: SweepRequest): Effect.Effect<number>
    /** The same for plans that missed their heartbeats or are over. */
    sweepPlans(request: SweepRequest): Effect.Effect<number>
    extend(request: object): Effect.Effect<ExtendOutcome>
    deny(request: object): Effect.Effect<DenyOutcome>
    refund(request: object): Effect.Effect<RefundOutcome>
    readonly drift: Effect.Effect<ReadonlyArray<Drift>>
  }
>()("app/budgets/LedgerStore") {
  static readonly layer = Layer.effect(
    LedgerStore,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const call = calling(sql)
      const sweeping = (name: string) => {
        const sweep = call(name, Schema.Struct({ swept: Schema.Int }))
        return ({ now, ...request }: SweepRequest) =>
          Effect.map(sweep({ ...request, now: DateTime.formatIso(now) }), ({ swept }) => swept)
      }
      const callBatch = callingBatch(sql)
      const reserve = callBatch("budgets_reserve", reserveParameters, ReserveOutcome)
      const close = callBatch("budgets_close", closeParameters, CloseOutcome)
      const selectDrift = SqlSchema.findAll({
        Request: Schema.Void,
        Result: Drift,
        execute: () => sql`SELECT * FROM budgets_drift()`
      })

      return LedgerStore.of({
        reserve: ({ books, entries, head, isPlain, needs, requests }) =>
          reserve({
            ...head,
            is_plain: isPlain,
            books: compositesOf(bookFields, books),
            needs: compositesOf(needFields, needs),
            requests: compositesOf(requestFields, requests),
            keys: keysOf(requests),
            entries: entries.length === 0 ? undefined : JSON.stringify(entries)
          }),
        close: ({ calls, head, requests }) =>
          close({
            ...head,
            ...columnsOf(closeColumns, requests, "ids"),
            ...columnsOf(callColumns, calls, undefined),
            keys: keysOf(requests)
          }),
        sweep: sweeping("budgets_sweep"),
        sweepPlans: sweeping("budgets_plans_sweep"),
        extend: call("budgets_extend", ExtendOutcome),
        deny: call("budgets_deny", DenyOutcome),
        refund: call("budgets_refund", RefundOutcome),
        drift: Effect.orDie(selectDrift(undefined))
      })
    })
  )
}
