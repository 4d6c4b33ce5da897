import {
  Clock,
  Context,
  DateTime,
  Effect,
  Exit,
  FiberSet,
  Iterable,
  Latch,
  Layer,
  Option,
  Random,
  Redacted
} from "effect"
import { AuditFeed } from "../../audit/feed/feed.ts"
import { type AuditEntry, type Changed } from "../../audit/log/domain.ts"
import { asSystem, Audit } from "../../audit/log/service.ts"
import { type AuditAction } from "../../kernel/authority/audit-action.ts"
import { Sealing } from "../../platform/crypto/sealing.ts"
import { makeBatcher } from "../../platform/database/batcher.ts"
import { Database, statementMoment } from "../../platform/database/database.ts"
import { type OutboundFailure, OutboundHttp } from "../../platform/outbound/outbound-http.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { type CloudEvent, matchesType, toCloudEvent, typeOf } from "../cloud-events/domain.ts"
import {
  type DeliveryAttempt,
  type AttemptResult,
  eventSubscriptionActions,
  failingDays,
  hasFailedTooLong,
  integrationActions,
  passes,
  retryPauseMillis,
  type TakenDelivery,
  type Target,
  type TargetId
} from "./domain.ts"
import { DeliveryRepository, type NewDelivery, type TenantRoom } from "./repository.ts"
import { deliveryRequest } from "./request.ts"
import { type DeliverableTarget, type SealedSecrets, TargetRepository } from "./target-repository.ts"

/** How many entries are dispatched in one transaction, unless they make so many deliveries that it ends before. */
const maxDispatched = 500
const maxDeliveriesOfDispatch = 10_000
/** Nothing else runs while filters are applied to entries, so a transaction ends after so long. */
const maxFilteringMillis = 25
/** How many attempts a replica makes at once, in all and to one target. */
const maxAttempts = 64
const maxAttemptsOfTarget = 32
/** A target has fewer until it answers quickly, and all such targets together have half of what there is. */
const maxAttemptsOfUnproven = 4
const maxAttemptsOfAllUnproven = maxAttempts / 2
/** The targets of one tenant, however many hang, leave room for those of the others. */
const maxAttemptsOfTenant = (3 * maxAttempts) / 4
const maxUnprovenAttemptsOfTenant = maxAttemptsOfAllUnproven / 2
const quickMillis = 1000
/** Fewer are not taken at once: each round trip costs as much as an attempt. */
const minTaken = 16
/** A response is of interest for its status only. */
const maxResponseBytes = 16_384
const timeoutSeconds = 15
const pollWithTargets = "100 millis"
const pollWithout = "5 seconds"
/** The status by which a receiver says that it wants no more (Standard Webhooks). */
const gone = 410

interface Secrets {
  readonly secret: string | undefined
  readonly previousSecret: string | undefined
}

/** An active target as a replica keeps it, until the revision of all targets changes. */
type Active = DeliverableTarget & Secrets

/** Makes deliveries of events, and attempts them, beside the other replicas. */
export class Deliveries extends Context.Service<Deliveries>()("app/events/Deliveries", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const database = yield* Database
    const feed = yield* AuditFeed
    const http = yield* OutboundHttp
    const repository = yield* DeliveryRepository
    const sealing = yield* Sealing
    const { integrations } = yield* Settings
    const targets = yield* TargetRepository
    const wake = yield* Latch.make()
    const fork = yield* FiberSet.makeRuntime<never>()

    const open = Effect.fnUntraced(function* (id: TargetId, sealed: Uint8Array | null) {
      if (sealed === null) return undefined
      const bytes = yield* Effect.option(sealing.open(sealed, placeOf(id)))
      return Option.isSome(bytes) ? new TextDecoder().decode(Redacted.value(bytes.value)) : undefined
    })

    const openAll = (id: TargetId, { sealedPreviousSecret, sealedSecret }: SealedSecrets) =>
      Effect.all({ secret: open(id, sealedSecret), previousSecret: open(id, sealedPreviousSecret) })

    let known: { readonly revision: number; readonly active: ReadonlyMap<TargetId, Active> } = {
      revision: -1,
      active: new Map()
    }
    const activeAt = Effect.fnUntraced(function* (revision: number) {
      if (known.revision === revision) return known.active
      const stored = yield* database.read("all", targets.deliverable)
      const active = yield* Effect.forEach(stored, (target) =>
        Effect.map(openAll(target.id, target), (secrets) => [target.id, { ...target, ...secrets }] as const)
      )
      known = { revision, active: new Map(active) }
      return known.active
    })

    /** How many entries the next dispatch reads. */
    let dispatchedAtOnce = maxDispatched

    const dispatchLocked = Effect.gen(function* () {
      const locked = yield* repository.lock
      if (Option.isNone(locked)) return 0
      const { head, revision, sequence } = locked.value
      const active = yield* activeAt(revision)
      if (active.size === 0 || head <= sequence) return 0
      // What is older than all targets is passed over: without any, nothing was dispatched.
      const oldest = Iterable.reduce(active.values(), head, (least, target) => Math.min(least, target.afterSequence))
      const after = Math.max(sequence, oldest)
      const end = Math.min(head, after + dispatchedAtOnce)
      const entries = yield* feed.between(after, end)
      const byTenant = Map.groupBy(active.values(), ({ tenantId }) => tenantId)
      const begun = yield* Clock.currentTimeMillis
      const made: Array<NewDelivery> = []
      let upTo = end
      for (const entry of entries) {
        made.push(...deliveriesOf(entry, byTenant))
        const millis = (yield* Clock.currentTimeMillis) - begun
        if (made.length < maxDeliveriesOfDispatch && millis < maxFilteringMillis) continue
        upTo = entry.sequence ?? end
        break
      }
      dispatchedAtOnce = upTo < end ? upTo - after : Math.min(2 * dispatchedAtOnce, maxDispatched)
      if (made.length > 0) yield* repository.insert(made, yield* statementMoment)
      yield* repository.moveTo(upTo)
      return upTo - sequence
    })

    /** Makes deliveries of the events behind the place that was reached; of all replicas one does at a time. */
    const dispatch = Effect.gen(function* () {
      const { head, revision, sequence } = yield* repository.look
      const active = yield* activeAt(revision)
      if (active.size === 0 || head <= sequence) return 0
      return yield* database.transaction("all", Effect.andThen(repository.relaxed, dispatchLocked))
    }).pipe(
      // What is too much for one transaction would fail forever: the next one has less.
      Effect.onError(() => Effect.sync(() => void (dispatchedAtOnce = 1))),
      Effect.withSpan("Deliveries.dispatch")
    )

    /** One request to a target: the status of the response, or why there is none. */
    const send = Effect.fn("Deliveries.send")(function* (
      target: Pick<Target, "config" | "kind" | "url">,
      secrets: ReadonlyArray<string>,
      messageId: string,
      event: CloudEvent
    ) {
      const now = yield* DateTime.now
      const response = yield* http
        .send({
          ...deliveryRequest(target, secrets, messageId, event, now.epochMilliseconds),
          method: "POST",
          url: target.url,
          timeoutSeconds,
          maxBytes: maxResponseBytes,
          allowPrivate: integrations.allowPrivateAddresses
        })
        .pipe(
          Effect.match({
            onSuccess: ({ status }) => ({ status, error: errorOf(status) }),
            onFailure: ({ detail }: OutboundFailure) => ({ status: null, error: detail })
          })
        )
      return { at: now, ...response } satisfies DeliveryAttempt
    })

    const disable = Effect.fn("Deliveries.disable")((target: Target, reason: string) =>
      audit
        .change(
          Effect.gen(function* () {
            const isDisabled = yield* targets.disable(target.id, yield* DateTime.now)
            return {
              value: undefined,
              entries: isDisabled
                ? [
                    {
                      action: disabledAction(target),
                      entityId: target.id,
                      tenantId: target.tenantId,
                      before: { status: "active" },
                      after: { status: "disabled", reason }
                    }
                  ]
                : []
            } satisfies Changed<undefined>
          })
        )
        .pipe(asSystem)
    )

    const storing = yield* makeBatcher({
      maximum: 500,
      run: Effect.fnUntraced(function* (results: ReadonlyArray<AttemptResult>) {
        const moment = yield* statementMoment
        yield* database.transaction("all", Effect.andThen(repository.relaxed, repository.store(results, moment)))
        const failed = results.filter(({ isDelivered }) => !isDelivered)
        if (failed.length > 0) yield* disableHopeless(failed)
        return results
      })
    })

    /** Disables the targets that want no more, and those that have failed for days. */
    const disableHopeless = Effect.fnUntraced(function* (failed: ReadonlyArray<AttemptResult>) {
      const now = yield* DateTime.now
      const ids = [...new Set(failed.map(({ targetId }) => targetId))]
      const since = new Map(
        (yield* database.read("all", targets.failing(ids))).map(({ failingSince, id }) => [id, failingSince])
      )
      for (const id of ids) {
        const target = known.active.get(id)
        if (target === undefined) continue
        const failing = since.get(id)
        if (failed.some(({ attempt, targetId }) => targetId === id && attempt.status === gone)) {
          yield* disable(target, "The receiver answered 410 Gone")
        } else if (failing !== undefined && hasFailedTooLong(failing, now)) {
          yield* disable(target, `Every attempt of the last ${failingDays} days failed`)
        }
      }
    })

    /** The outcome of an attempt, which is stored beside the next ones. */
    const attempt = Effect.fnUntraced(function* (target: Active, { entry, id, targetId, tried }: TakenDelivery) {
      const made =
        entry === null
          ? yield* unsent("The event is no longer kept")
          : target.sealedSecret !== null && target.secret === undefined
            ? yield* unsent("The secret cannot be decrypted; rotate it")
            : yield* send(target, secretsOf(target, yield* Clock.currentTimeMillis), entry.id, toCloudEvent(entry))
      const isDelivered = made.error === null
      const retryInMillis = isDelivered || entry === null ? null : retryPauseMillis(tried + 1, yield* Random.next)
      return { id, targetId, attempt: made, isDelivered, retryInMillis } satisfies AttemptResult
    })

    const running = new Map<TargetId, number>()
    const quick = new Set<TargetId>()
    const failing = new Set<TargetId>()
    let attempts = 0
    let turn = 0

    /** Some in another order: each time another one comes first, so that all have a turn. */
    const inTurn = <A>(some: ReadonlyArray<A>): ReadonlyArray<A> => {
      const first = turn % Math.max(1, some.length)
      return [...some.slice(first), ...some.slice(0, first)]
    }

    const runningOf = (targets: ReadonlyArray<Active>): number =>
      targets.reduce((sum, { id }) => sum + (running.get(id) ?? 0), 0)

    /** How many attempts some targets may have now, tenant by tenant. */
    const roomOf = (
      isWanted: (id: TargetId) => boolean,
      maximumOf: (id: TargetId) => number,
      maximumOfTenant: number
    ): ReadonlyArray<TenantRoom> => {
      const wanted = [...known.active.values()].filter(({ id }) => isWanted(id))
      const byTenant = [...Map.groupBy(wanted, ({ tenantId }) => tenantId).values()]
      return inTurn(byTenant)
        .map((own) => ({
          free: maximumOfTenant - runningOf(own),
          targets: inTurn(own)
            .map(({ id }) => ({ id, free: maximumOf(id) - (running.get(id) ?? 0) }))
            .filter(({ free }) => free > 0)
        }))
        .filter(({ free, targets }) => free > 0 && targets.length > 0)
    }

    /** Takes deliveries that are due: those of quick targets, and then some of the others. */
    const take = Effect.gen(function* () {
      const free = maxAttempts - attempts
      turn += 1
      const moment = yield* statementMoment
      const proven = roomOf(
        (id) => quick.has(id),
        () => maxAttemptsOfTarget,
        maxAttemptsOfTenant
      )
      const unproven = roomOf(
        (id) => !quick.has(id),
        (id) => (failing.has(id) ? 1 : maxAttemptsOfUnproven),
        maxUnprovenAttemptsOfTenant
      )
      let left = maxAttemptsOfAllUnproven
      for (const [id, count] of running) if (!quick.has(id)) left -= count
      const taken = proven.length === 0 ? [] : yield* repository.take(proven, free, moment)
      const rest = Math.min(left, free - taken.length)
      return unproven.length === 0 || rest <= 0
        ? taken
        : [...taken, ...(yield* repository.take(unproven, rest, moment))]
    })

    /** Begins the attempts of what is due. */
    const begin = Effect.gen(function* () {
      if (known.active.size === 0 || maxAttempts - attempts < minTaken) return []
      const taken = yield* database.transaction("all", Effect.andThen(repository.relaxed, take))
      return taken.flatMap((delivery) => {
        const target = known.active.get(delivery.targetId)
        if (target === undefined) return []
        attempts += 1
        running.set(target.id, (running.get(target.id) ?? 0) + 1)
        const end = (exit: Exit.Exit<AttemptResult>, millis: number) => {
          attempts -= 1
          const count = (running.get(target.id) ?? 1) - 1
          if (count === 0) running.delete(target.id)
          else running.set(target.id, count)
          const isDelivered = Exit.isSuccess(exit) && exit.value.isDelivered
          if (isDelivered) failing.delete(target.id)
          else failing.add(target.id)
          if (isDelivered && millis <= quickMillis) quick.add(target.id)
          else quick.delete(target.id)
          wake.openUnsafe()
        }
        return [
          Effect.flatMap(Clock.currentTimeMillis, (begun) =>
            attempt(target, delivery).pipe(
              Effect.onExit((exit) => Effect.map(Clock.currentTimeMillis, (now) => end(exit, now - begun)))
            )
          ).pipe(Effect.flatMap(storing.submit), Effect.ignoreCause)
        ]
      })
    }).pipe(Effect.withSpan("Deliveries.begin"))

    const loop = Effect.gen(function* () {
      yield* wake.close
      const dispatched = yield* dispatch
      const begun = yield* begin
      for (const work of begun) fork(work)
      if (dispatched + begun.length > 0) return
      yield* Effect.race(wake.await, Effect.sleep(known.active.size === 0 ? pollWithout : pollWithTargets))
    }).pipe(
      Effect.catchCause((cause) =>
        Effect.andThen(
          Effect.logWarning("Events are not being delivered; trying again", cause),
          Effect.sleep("1 second")
        )
      ),
      Effect.forever
    )

    return {
      /** Runs the queue for the life of the scope. */
      run: Effect.andThen(
        repeatJob(
          "delete old event deliveries",
          "1 hour",
          Effect.flatMap(statementMoment, (moment) => database.transaction("all", repository.deleteOld(moment)))
        ),
        Effect.forkScoped(loop)
      ),
      /** Makes deliveries of what is linked and attempts all that are due, once. */
      pass: Effect.gen(function* () {
        while ((yield* dispatch) > 0);
        yield* Effect.all(yield* begin, { concurrency: "unbounded" })
      }),
      /** What waits for a replica, of all tenants. */
      backlog: Effect.flatMap(statementMoment, (moment) => database.read("all", repository.backlog(moment))),
      /** The queue looks for new targets and deliveries at once. */
      wake: Effect.sync(() => wake.openUnsafe()),
      /** The secret of a target, encrypted for it. */
      sealSecret: (id: TargetId, secret: string) =>
        sealing.seal(Redacted.make(new TextEncoder().encode(secret)), placeOf(id)),
      /** Sends an event of this service to a target, whatever its status, without the queue. */
      sendNow: Effect.fn("Deliveries.sendNow")(function* (target: Target, event: CloudEvent) {
        const sealed = yield* database.asCaller(targets.secrets(target.id))
        const secrets = yield* openAll(target.id, sealed)
        return yield* send(
          target,
          secretsOf({ ...sealed, ...secrets }, yield* Clock.currentTimeMillis),
          event.id,
          event
        )
      })
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  /** The queue that runs by itself. */
  static readonly layer = Layer.effectDiscard(Effect.flatMap(Deliveries, ({ run }) => run)).pipe(
    Layer.provideMerge(this.layerNoDeps)
  )
}

/** The secrets that sign at a moment. */
const secretsOf = (
  { previousSecret, previousSecretUntil, secret }: Secrets & Pick<SealedSecrets, "previousSecretUntil">,
  now: number
): ReadonlyArray<string> => [
  ...(secret === undefined ? [] : [secret]),
  ...(previousSecret === undefined || previousSecretUntil === null || previousSecretUntil.epochMilliseconds <= now
    ? []
    : [previousSecret])
]

const unsent = (error: string) => Effect.map(DateTime.now, (at): DeliveryAttempt => ({ at, status: null, error }))

const placeOf = (id: TargetId): string => `event-target:${id}`

const disabledAction = ({ kind }: Target): AuditAction =>
  kind === "subscription" ? eventSubscriptionActions.EventSubscriptionDisabled : integrationActions.IntegrationDisabled

const errorOf = (status: number): string | null =>
  status >= 200 && status < 300
    ? null
    : status >= 300 && status < 400
      ? `The server answered ${status}; redirects are not followed`
      : `The server answered ${status}`

/** The deliveries of an event: one to each active target of its tenant, or of all, that wants it. */
const deliveriesOf = (
  entry: AuditEntry,
  active: ReadonlyMap<Target["tenantId"], ReadonlyArray<Active>>
): ReadonlyArray<NewDelivery> => {
  const ofAll = active.get(null) ?? []
  const targets = entry.tenantId === null ? ofAll : [...ofAll, ...(active.get(entry.tenantId) ?? [])]
  const sequence = entry.sequence ?? 0
  const type = typeOf(entry)
  let event: CloudEvent | undefined
  return targets.flatMap(({ afterSequence, eventTypes, filters, id, tenantId }) =>
    sequence > afterSequence &&
    matchesType(eventTypes, type) &&
    filters.every((filter) => passes(filter, (event ??= toCloudEvent(entry))))
      ? [{ tenantId, targetId: id, entryId: entry.id, sequence, type }]
      : []
  )
}
