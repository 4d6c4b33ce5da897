import { Context, Effect, Layer, Schedule } from "effect"
import { Audit } from "../../audit/log/service.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { type Slice, slice } from "../../kernel/http/page.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Database } from "../../platform/database/database.ts"
import { Notifications } from "../../platform/database/notifications.ts"
import { type ModelTarget } from "../configuration/gateway-snapshot.ts"
import { type Operation } from "../formats/domain.ts"
import {
  type BrokenBound,
  brokenBoundActions,
  type BrokenBoundId,
  type BrokenBoundNotFound,
  type BrokenBoundPatch,
  type BrokenBoundStatus
} from "./domain.ts"
import { BrokenBoundsRepository, type StoredBrokenBound } from "./repository.ts"

/** The topic that the ledger notifies, too (`gateway_break_bounds`). */
const topic = "gateway_broken_bounds"
const resyncEvery = "15 seconds"

const keyOf = (provider: string, model: string, operation: string): string => `${provider} ${operation} ${model}`

/**
 * Targets whose charge exceeded what was held for it under a hard cap. The ledger notes them with the charge; each replica
 * keeps a copy of those that are not acknowledged, which calls consult.
 */
export class BrokenBounds extends Context.Service<
  BrokenBounds,
  {
    /** Whether a target refuses calls of a kind under hard caps. */
    isOver(target: Pick<ModelTarget, "model" | "provider">, operation: Operation): boolean
    /** Those of a provider that are not acknowledged. */
    overAt(provider: string): ReadonlyArray<BrokenBound>
    list(
      status: BrokenBoundStatus | undefined,
      after: BrokenBoundId | undefined,
      limit: number
    ): Effect.Effect<Slice<BrokenBound, BrokenBoundId>>
    get(id: BrokenBoundId): Effect.Effect<BrokenBound, BrokenBoundNotFound>
    update(
      id: BrokenBoundId,
      patch: BrokenBoundPatch
    ): Effect.Effect<BrokenBound, BrokenBoundNotFound | ValidationFailed>
  }
>()("app/gateway/BrokenBounds") {
  static readonly layerNoDeps = Layer.effect(
    BrokenBounds,
    Effect.gen(function* () {
      const audit = yield* Audit
      const database = yield* Database
      const notifications = yield* Notifications
      const repository = yield* BrokenBoundsRepository
      let over: ReadonlyMap<string, BrokenBound> = new Map()

      const take = Effect.map(database.read("all", repository.over), (rows) => {
        over = new Map(rows.map((row) => [keyOf(row.provider, row.model, row.operation), toBrokenBound(row)]))
      })
      const resync = Effect.catchCause(take, (cause) =>
        Effect.logWarning("Could not read which targets charged more than was held", cause)
      )

      const update = Effect.fn("BrokenBounds.update")(
        function* (id: BrokenBoundId, patch: BrokenBoundPatch) {
          const before = yield* repository.lock(id)
          const { reason = null, status = statusOf(before) } = patch
          if (status === statusOf(before)) return { value: toBrokenBound(before), entries: [] }
          if (status === "over") {
            const message = "Expected `acknowledged`: only a charge makes it `over` again"
            return yield* new ValidationFailed({ errors: [{ path: ["payload", "status"], message }] })
          }
          if (reason === null) {
            const errors = [{ path: ["payload", "reason"], message: "Expected the reason for another status" }]
            return yield* new ValidationFailed({ errors })
          }
          const after = yield* repository.acknowledge(id, (yield* CurrentPrincipal).name, reason)
          yield* notifications.notify(topic, "acknowledged")
          const action = brokenBoundActions.GatewayTargetBoundAcknowledged
          const entry = { action, entityId: id, before: shown(before), after: shown(after) }
          return { value: toBrokenBound(after), entries: [entry] }
        },
        audit.change,
        Effect.tap(resync)
      )

      yield* take
      yield* notifications.subscribe(topic, { onMessage: () => resync, onGap: resync })
      yield* resync.pipe(Effect.repeat(Schedule.spaced(resyncEvery)), Effect.forkScoped)

      return BrokenBounds.of({
        isOver: ({ model, provider }, operation) => over.size > 0 && over.has(keyOf(provider.id, model, operation)),
        overAt: (provider) => [...over.values()].filter((bound) => bound.provider === provider),
        list: Effect.fn("BrokenBounds.list")(function* (status, after, limit) {
          const rows = yield* database.asCaller(repository.list(status, after, limit + 1))
          return slice(rows.map(toBrokenBound), limit, ({ id }) => id)
        }),
        get: Effect.fn("BrokenBounds.get")(function* (id: BrokenBoundId) {
          return toBrokenBound(yield* database.asCaller(repository.get(id)))
        }),
        update
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(BrokenBoundsRepository.layer))
}

const statusOf = ({ acknowledgedAt }: StoredBrokenBound): BrokenBoundStatus =>
  acknowledgedAt === null ? "over" : "acknowledged"

const numberOf = (count: bigint | null): number | null => (count === null ? null : Number(count))

const toBrokenBound = (row: StoredBrokenBound): BrokenBound => {
  const { charged, chargedTokens, reserved, reservedTokens, ...rest } = row
  return {
    ...rest,
    status: statusOf(row),
    reservedUsd: reserved,
    chargedUsd: charged,
    reservedTokens: numberOf(reservedTokens),
    chargedTokens: numberOf(chargedTokens)
  }
}

/** What the audit log keeps of it. */
const shown = (row: StoredBrokenBound) => {
  const { acknowledgedAt: _, acknowledgedBy, model, operation, provider, reason, times } = row
  return { provider, model, operation, status: statusOf(row), times, acknowledgedBy, reason }
}
