import { Context, DateTime, Effect, Exit, Layer } from "effect"
import { type TenantId } from "../../kernel/identifier.ts"
import { makeBatcher } from "../../platform/database/batcher.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { CallsRepository } from "./call-repository.ts"
import { type CapIndex } from "./cap-index.ts"
import { CapIndexes } from "./cap-books.ts"
import { allTenants } from "./cap-domain.ts"
import { settlementLanes, isShort, makeSettlementQueue } from "./settlement-queue.ts"
import { type ReservationId, spendActions } from "./domain.ts"
import { quantityOf } from "./quantity-domain.ts"
import {
  decodeClosed,
  type DenyOutcome,
  type Drift,
  type ExtendOutcome,
  LedgerStore,
  type RefundOutcome
} from "./repository.ts"
import {
  type CloseItem,
  type CloseResult,
  type DenyItem,
  entryOf,
  type ExtendItem,
  type RefundItem,
  type ReserveItem,
  type ReserveResult,
  slotKeys,
  slotOf
} from "./request.ts"
import { booksOf, applicableCaps, ReserveBatch } from "./reserve-batch.ts"
import { bisectOnFailure, isOverflow } from "./bisect-on-failure.ts"

const mostTogether = 200
const mostSwept = 2000

/**
 * The one place where money is kept free, spent and given back. A batch is one statement, which is its own transaction; an
 * answer leaves after its commit. Requests that arrive while a batch is under way go together in the next one, so that a
 * hot cap is locked once for many: each tenant has a lane of its own, and a lane one batch under way, so that no tenant
 * waits for another. None that somebody waits for waits for company: alone it goes at the end of its turn of the event loop,
 * and under load the commit before it is the only wait. A statement that fails is run again in halves, so that what one
 * request broke fails that request alone.
 *
 * Measured on two cores with fsync: a statement costs 0.6 ms for one reservation, most of it whatever the size of the batch;
 * in batches of 32 PostgreSQL takes 16 µs for each on one cap; 64,000 a second are swept that have expired. Over HTTP
 * (`npm run bench:ledger`; README, "Speed") this process is what is busy: so a second batch under way made nothing faster.
 */
export class Ledger extends Context.Service<
  Ledger,
  {
    /** Admits, holds or denies; decided in the order given. */
    reserveBatch(items: ReadonlyArray<ReserveItem>): Effect.Effect<ReadonlyArray<ReserveResult>>
    /** Settles and releases; each reservation stands once in a batch. */
    closeBatch(items: ReadonlyArray<CloseItem>): Effect.Effect<ReadonlyArray<CloseResult>>
    /** The same for one, together with whatever else arrives. */
    reserve(item: ReserveItem): Effect.Effect<ReserveResult>
    close(item: CloseItem): Effect.Effect<CloseResult>
    /**
     * The same for what is to be charged in any case: its caller waits for nothing, and it is tried again while the database
     * is away. Reservations that come later find it done before they are refused.
     */
    enqueueSettlement(item: CloseItem): void
    /** Waits until what was handed over before this was called is written: of one tenant, or of all. */
    flushSettlements(tenantId: TenantId | null): Effect.Effect<void>
    /** Lets an open reservation live longer, from now on. */
    extend(item: ExtendItem): Effect.Effect<ExtendOutcome>
    /** Refuses what is held. */
    deny(item: DenyItem): Effect.Effect<DenyOutcome>
    /** Gives back a part of a charge, where it was charged. */
    refund(item: RefundItem): Effect.Effect<RefundOutcome>
    /** Ends what is due, of one tenant or all; answers how many. */
    sweep(tenantId: TenantId | null): Effect.Effect<number>
    /** The same, waiting for those who are at work on it: after that nothing is refused for what is due. */
    reclaim(tenantId: TenantId | null): Effect.Effect<void>
    /** Lets calls of the gateway that still run live so much longer. */
    renew(
      calls: ReadonlyArray<{ readonly tenantId: TenantId; readonly id: ReservationId }>,
      ttlSeconds: number
    ): Effect.Effect<void>
    /** Counters that are not the fold of what was written. */
    readonly drift: Effect.Effect<ReadonlyArray<Drift>>
  }
>()("app/budgets/Ledger") {
  static readonly layerNoDeps = Layer.effect(
    Ledger,
    Effect.gen(function* () {
      const books = yield* CapIndexes
      const calls = yield* CallsRepository
      const repository = yield* LedgerStore
      const { budgets } = yield* Settings

      const sweepWaiting = (tenant: TenantId | null): Effect.Effect<void> =>
        Effect.gen(function* () {
          const now = yield* DateTime.now
          while ((yield* repository.sweepPlans({ now, tenant, most: mostSwept, waiting: true })) === mostSwept);
          while ((yield* repository.sweep({ now, tenant, most: mostSwept, waiting: true })) === mostSwept);
        })

      /** The caps in force for items that must have one, and whether an item has any. */
      const resolveCaps = Effect.fnUntraced(function* (items: ReadonlyArray<ReserveItem>) {
        const known = yield* booksOf(books.get, items)
        const lacks = (book: typeof known) => (item: ReserveItem) =>
          item.kind === "reserve" && item.plan === undefined && applicableCaps(book, item).length === 0
        if (!budgets.requireCap || !items.some(lacks(known))) return { known, isUncovered: () => false }
        // What is refused never reaches the statement, which alone knows whether the copy is old.
        yield* books.refresh([...known.keys()])
        const fresh = yield* booksOf(books.get, items)
        return { known: fresh, isUncovered: lacks(fresh) }
      })

      /** One statement; undefined for what is due, and must be swept first. */
      const decide = (known: ReadonlyMap<TenantId, CapIndex>) =>
        bisectOnFailure(
          Effect.fnUntraced(function* (
            items: ReadonlyArray<ReserveItem>
          ): Effect.fn.Return<ReadonlyArray<ReserveResult | "stale" | undefined>> {
            const batch = new ReserveBatch(items, known, yield* DateTime.now, budgets.holdSeconds)
            const outcome = yield* repository.reserve(batch.statement)
            return "stale" in outcome ? items.map(() => "stale" as const) : batch.results(outcome)
          })
        )

      const closeTogether = Effect.fn("Ledger.closeBatch")(function* (items: ReadonlyArray<CloseItem>) {
        // The gateway knows what it charged.
        const isRead = items.some(({ origin }) => origin !== "gateway")
        const outcome = yield* repository.close({
          head: {
            moment: DateTime.formatIso(yield* DateTime.now),
            keyed: items.some(({ repeatable }) => repeatable !== undefined),
            unread: !isRead
          },
          requests: items.map((item) => ({
            id: item.id,
            tenant: item.tenantId,
            kind: item.kind,
            origin: item.origin,
            unrestricted: item.unrestricted,
            amount: Number(item.amount),
            tokens: item.tokens,
            charge_id: item.kind === "settle" ? item.chargeId : null,
            usage: item.usage,
            metadata: item.metadata,
            ...slotOf(item)
          })),
          calls: items.map(({ call }) => call)
        })
        const replays = new Map(outcome.replays.map(({ place, sha256 }) => [place, sha256]))
        const closed = new Map(
          (isRead ? outcome.closed : []).flatMap((row) => {
            const { charge, place, reservation } = decodeClosed(row)
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
      const closeEach = (items: ReadonlyArray<CloseItem>) =>
        Effect.map(bisectOnFailure(closeTogether)(items), (exits) =>
          exits.map((exit) =>
            Exit.isFailure(exit) && isOverflow(exit.cause) ? Exit.succeed<CloseResult>({ verdict: "full" }) : exit
          )
        )
      const closeBatch = (items: ReadonlyArray<CloseItem>) =>
        Effect.flatMap(closeEach(items), (exits) => Effect.all(exits))

      const closing = yield* makeSettlementQueue(closeEach, mostTogether)

      const reserveEach = Effect.fn("Ledger.reserveBatch")(function* (items: ReadonlyArray<ReserveItem>) {
        const decided = new Map<ReserveItem, Exit.Exit<ReserveResult>>()
        const mayWait = new Set(items)
        for (let all = items; all.length > 0; all = all.filter((item) => !decided.has(item))) {
          const { isUncovered, known } = yield* resolveCaps(all)
          for (const item of all) if (isUncovered(item)) decided.set(item, Exit.succeed({ verdict: "uncovered" }))
          const open = all.filter((item) => !decided.has(item))
          if (open.length === 0) break
          const lanes = settlementLanes(known, open).filter((lane) => closing.isBusy(lane))
          // Who is held for an approval is written down, so that nobody may be whom an earlier charge would let through.
          const mayBeHeld = [...known.values()].some(({ asksForApproval }) => asksForApproval)
          if (mayBeHeld) yield* Effect.forEach(lanes, closing.drain, { discard: true })
          const due: Array<ReserveItem> = []
          const early: Array<ReserveItem> = []
          let isStale = false
          for (const [index, exit] of (yield* decide(known)(open)).entries()) {
            const item = open[index]
            if (item === undefined) continue
            if (Exit.isFailure(exit)) decided.set(item, Exit.failCause(exit.cause))
            else if (exit.value === undefined) due.push(item)
            else if (exit.value === "stale") isStale = true
            else if (lanes.length > 0 && isShort(exit.value) && mayWait.delete(item)) early.push(item)
            else decided.set(item, Exit.succeed(exit.value))
          }
          if (isStale) yield* books.refresh([...known.keys()])
          // What has expired takes no room: it is swept, and those who were in its way are decided once more.
          const ofAll = due.some((item) => applicableCaps(known, item).some(({ cap }) => cap.tenantId === allTenants))
          const tenants = ofAll ? [null] : [...new Set(due.map(({ tenantId }) => tenantId))]
          yield* Effect.forEach(tenants, sweepWaiting, { discard: true })
          // What an earlier charge gives back is there when it is written: nobody is refused for what is on its way.
          yield* Effect.forEach(settlementLanes(known, early), closing.drain, { discard: true })
        }
        return items.map((item) => decided.get(item) ?? Exit.succeed<ReserveResult>({ verdict: "gone" }))
      })
      const reserveBatch = (items: ReadonlyArray<ReserveItem>) =>
        Effect.flatMap(reserveEach(items), (exits) => Effect.all(exits))

      const reserving = yield* makeBatcher({
        maximum: mostTogether,
        lane: ({ tenantId }: ReserveItem) => tenantId,
        // Two who approve the same reservation follow each other.
        keys: (item) => (item.kind === "reserve" ? slotKeys(item) : [item.id, ...slotKeys(item)]),
        run: reserveEach
      })
      return Ledger.of({
        reserveBatch,
        closeBatch,
        reserve: (item) => Effect.flatten(reserving.submit(item)),
        close: (item) => Effect.flatten(closing.submit(item)),
        enqueueSettlement: closing.later,
        flushSettlements: (tenantId) => {
          const lane = tenantId ?? undefined
          return closing.isBusy(lane) ? closing.drain(lane) : Effect.void
        },
        extend: Effect.fn("Ledger.extend")(function* ({ tenantId, ttlSeconds, ...item }) {
          const now = DateTime.formatIso(yield* DateTime.now)
          return yield* repository.extend({ ...item, now, tenant: tenantId, ttl: ttlSeconds })
        }),
        deny: Effect.fn("Ledger.deny")(function* ({ audit, id, principal, reason, tenantId }) {
          const now = DateTime.formatIso(yield* DateTime.now)
          const entries = [entryOf(1, spendActions.SpendDenied, id, audit, { reason })]
          return yield* repository.deny({ now, id, tenant: tenantId, principal, reason, entries })
        }),
        refund: Effect.fn("Ledger.refund")(function* ({
          amount,
          audit,
          chargeId,
          id,
          isSystem,
          principal,
          reason,
          tenantId
        }) {
          const after = { amountUsd: quantityOf("usd", amount), reason }
          return yield* repository.refund({
            now: DateTime.formatIso(yield* DateTime.now),
            id,
            charge: chargeId,
            tenant: tenantId,
            amount: Number(amount),
            reason,
            principal,
            system: isSystem,
            entries: [entryOf(1, spendActions.SpendRefunded, chargeId, audit, after)]
          })
        }),
        sweep: Effect.fn("Ledger.sweep")(function* (tenant) {
          const request = { now: yield* DateTime.now, tenant, most: mostSwept, waiting: false }
          return (yield* repository.sweepPlans(request)) + (yield* repository.sweep(request))
        }),
        reclaim: sweepWaiting,
        renew: Effect.fn("Ledger.renew")(function* (running, ttlSeconds) {
          yield* calls.renew({
            now: DateTime.formatIso(yield* DateTime.now),
            ttl: ttlSeconds,
            calls: running.map(({ id, tenantId }) => ({ tenant: tenantId, id }))
          })
        }),
        drift: repository.drift
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provideMerge(CapIndexes.layer),
    Layer.provide(Layer.merge(LedgerStore.layer, CallsRepository.layer))
  )
}
