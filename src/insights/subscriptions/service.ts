import { Context, DateTime, Effect, Equal, Layer, Option } from "effect"
import { changesOf, unchanged } from "../../audit/log/change-entries.ts"
import { Audit } from "../../audit/log/service.ts"
import { amountOf, exhaustionOf, forecastOf, totalOf } from "../../budgets/ledger/quantity-domain.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Database, scopeOf } from "../../platform/database/database.ts"
import { Tenants } from "../../tenants/service.ts"
import { hourMillis } from "../reports/domain.ts"
import { ReportsRepository, source } from "../reports/repository.ts"
import {
  anchorOf,
  asOf,
  type StoredSubscription,
  Subscription,
  type SubscriptionCreation,
  subscriptionActions,
  type SubscriptionId,
  type SubscriptionUpdate,
  type SubscriptionUtilization,
  toSubscription
} from "./domain.ts"
import { usedOf } from "./quotas.ts"
import { SubscriptionsRepository } from "./repository.ts"

export class Subscriptions extends Context.Service<Subscriptions>()("app/insights/Subscriptions", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const database = yield* Database
    const reports = yield* ReportsRepository
    const repository = yield* SubscriptionsRepository
    const tenants = yield* Tenants

    const periodOf = Effect.fnUntraced(function* (
      terms: Pick<StoredSubscription, "anchor" | "period" | "timeZone">,
      now: DateTime.Utc
    ) {
      const found = yield* repository.periodAt(terms, now)
      return yield* Option.match(found, {
        onNone: () =>
          Effect.fail(
            new ValidationFailed({
              errors: [{ path: ["payload", "timeZone"], message: "Expected a time zone of the IANA database" }]
            })
          ),
        onSome: Effect.succeed
      })
    })

    const create = Effect.fn("Subscriptions.create")(function* (input: SubscriptionCreation) {
      const tenantId = yield* tenants.forCreation(input.tenantId)
      const now = yield* DateTime.now
      const startsAt = input.startsAt ?? now
      const endsAt = input.endsAt ?? null
      yield* requireOrder(startsAt, endsAt)
      const terms = {
        tenantId,
        provider: input.provider,
        name: input.name,
        plan: input.plan ?? null,
        price: input.priceUsd,
        quota: input.quota,
        period: input.period,
        anchor: anchorOf(input.period, input.anchor),
        timeZone: input.timeZone ?? "UTC",
        startsAt,
        endsAt,
        overage: input.overage ?? ("allow" as const),
        pending: null,
        createdAt: now,
        updatedAt: now
      }
      yield* periodOf(terms, now)
      const stored = yield* repository.insert(terms, (yield* CurrentPrincipal).name)
      return changes.created(subscriptionActions.SubscriptionCreated, toSubscription(stored, now))
    }, audit.change)

    const update = Effect.fn("Subscriptions.update")(function* (id: SubscriptionId, input: SubscriptionUpdate) {
      const now = yield* DateTime.now
      const stored = yield* repository.lock(id)
      const before = asOf(stored, now)
      const startsAt = input.startsAt ?? before.startsAt
      const endsAt = input.endsAt === undefined ? before.endsAt : input.endsAt
      yield* requireOrder(startsAt, endsAt)
      const rest = {
        provider: input.provider,
        name: input.name,
        plan: input.plan === undefined ? before.plan : input.plan,
        period: input.period,
        anchor:
          input.anchor === undefined && input.period === before.period
            ? before.anchor
            : anchorOf(input.period, input.anchor),
        timeZone: input.timeZone ?? before.timeZone,
        startsAt,
        endsAt,
        overage: input.overage ?? before.overage
      }
      const { ends } = yield* periodOf(rest, now)
      const differs = input.priceUsd !== before.price || !Equal.equals(input.quota, before.quota)
      // The quota of one period is none of another, which applies at once.
      const restarts =
        rest.period !== before.period || rest.anchor !== before.anchor || rest.timeZone !== before.timeZone
      const pending =
        input.pending === null || before.pending === null ? null : { ...before.pending, effectiveAt: ends }
      const terms =
        input.effective === "immediate" || (restarts && differs)
          ? { price: input.priceUsd, quota: input.quota, pending: null }
          : {
              price: before.price,
              quota: before.quota,
              pending: differs ? { quota: input.quota, priceUsd: input.priceUsd, effectiveAt: ends } : pending
            }
      const wanted = { ...before, ...rest, ...terms }
      const shown = toSubscription(before, now)
      if (stored === before && changes.areSame(shown, toSubscription(wanted, now))) return unchanged(shown)
      const after = { ...wanted, updatedAt: now }
      yield* repository.update(after)
      return changes.updated(subscriptionActions.SubscriptionUpdated, shown, toSubscription(after, now))
    }, audit.change)

    const remove = Effect.fn("Subscriptions.delete")(function* (id: SubscriptionId) {
      const now = yield* DateTime.now
      const before = toSubscription(asOf(yield* repository.lock(id), now), now)
      yield* repository.delete(id)
      return changes.deleted(subscriptionActions.SubscriptionDeleted, before)
    }, audit.change)

    const utilization = Effect.fn("Subscriptions.utilization")(function* (id: SubscriptionId) {
      const now = yield* DateTime.now
      return yield* database.snapshot(
        scopeOf(yield* CurrentPrincipal),
        Effect.gen(function* () {
          const { quota, ...stored } = asOf(yield* repository.get(id), now)
          const { ends, starts } = yield* Effect.orDie(periodOf(stored, now))
          const from = starts.epochMilliseconds
          const to = Math.ceil(now.epochMilliseconds / hourMillis) * hourMillis
          const days = (yield* reports.days(stored.timeZone, from, now.epochMilliseconds))
            .map(({ date, start }) => ({ date, start: start.epochMilliseconds }))
            .filter(({ start }) => start >= from && start <= now.epochMilliseconds)
          const cuts = [...days.map(({ start }) => start), to]
          // A provider counts synthetic calls as any other.
          const filter = { tenantId: stored.tenantId, provider: stored.provider, includeSynthetic: true }
          const points = yield* reports.placed(source(filter, "total", cuts), cuts)
          const byPlace = new Map(
            points.map((sums) => [
              sums.place,
              usedOf(quota.unit, { ...sums, tokens: sums.inputTokens + sums.outputTokens })
            ])
          )
          const net = [...byPlace.values()].reduce((sum, one) => sum + one, 0n)
          // A refund of what an earlier period was charged is no quota of this one.
          const used = net > 0n ? net : 0n
          const amount = amountOf(quota.unit, quota.amount)
          const elapsed = now.epochMilliseconds - from
          const span = ends.epochMilliseconds - from
          const projected = forecastOf(used, from, ends.epochMilliseconds, now.epochMilliseconds)
          const exhaustsAt = exhaustionOf(used, amount, from, now.epochMilliseconds)
          const total = (quantity: bigint) => totalOf(quota.unit, quantity)
          return {
            periodStart: starts,
            periodEnd: ends,
            quota,
            used: total(used),
            remaining: total(used < amount ? amount - used : 0n),
            percentUsed: amount === 0n ? (used > 0n ? 100 : 0) : percent(Number(used), Number(amount)),
            percentElapsed: percent(elapsed, span),
            projected: projected === undefined ? null : total(projected),
            exhaustsAt:
              exhaustsAt !== undefined && exhaustsAt < BigInt(ends.epochMilliseconds)
                ? DateTime.makeUnsafe(Number(exhaustsAt))
                : null,
            byDay: days.map(({ date }, place) => ({ date, used: total(byPlace.get(place) ?? 0n) }))
          } satisfies SubscriptionUtilization
        })
      )
    })

    return {
      list: Effect.fn("Subscriptions.list")(function* (
        tenantId: TenantId | undefined,
        page: ListRequest<SubscriptionId>
      ) {
        const now = yield* DateTime.now
        const { items, nextCursor } = yield* database.asCaller(repository.list(tenantId, page))
        return { items: items.map((one) => toSubscription(asOf(one, now), now)), nextCursor }
      }),
      get: Effect.fn("Subscriptions.get")(function* (id: SubscriptionId) {
        const now = yield* DateTime.now
        return toSubscription(asOf(yield* database.asCaller(repository.get(id)), now), now)
      }),
      create,
      update,
      delete: remove,
      utilization
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(
    Layer.provide([ReportsRepository.layer, SubscriptionsRepository.layer])
  )
}

const requireOrder = (startsAt: DateTime.Utc, endsAt: DateTime.Utc | null): Effect.Effect<void, ValidationFailed> =>
  endsAt === null || DateTime.isLessThan(startsAt, endsAt)
    ? Effect.void
    : Effect.fail(
        new ValidationFailed({ errors: [{ path: ["payload", "endsAt"], message: "Expected a moment after startsAt" }] })
      )

const percent = (part: number, whole: number): number => Math.round((10_000 * part) / whole) / 100

const changes = changesOf(Subscription, ({ id, tenantId }) => ({ entityId: id, tenantId }))
