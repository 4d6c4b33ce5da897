import { Context, DateTime, Effect, Layer, Schema } from "effect"
import { hash } from "node:crypto"
import { Audit, auditOrigin } from "../../audit/log/service.ts"
import { CounterFull } from "../../budgets/ledger/domain.ts"
import { type ReportedEvent } from "../../budgets/ledger/protocol-domain.ts"
import { Ledger } from "../../budgets/ledger/service.ts"
import { SpentUsage } from "../../budgets/reservations/domain.ts"
import { ReservationService } from "../../budgets/reservations/service.ts"
import { missing } from "../../kernel/authority/capability.ts"
import { CurrentPrincipal, Forbidden } from "../../kernel/authority/principal.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { Instant } from "../../kernel/instant.ts"
import { type Fault } from "../../kernel/problems/problem.ts"
import { PayloadTooLarge } from "../../kernel/problems/problems.ts"
import { Database, scopeOf, statementMoment } from "../../platform/database/database.ts"
import { faultsOf } from "../../platform/http/validation.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { makeTurns } from "../../platform/runtime/turns.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { type CloudEvent, receivedActions, usageRecorded } from "./domain.ts"
import { requireForeign } from "./foreign-event.ts"
import { type EventRequest, type GivenEvent, invalidEvents, maxFaults, receivedEvents } from "./received-event.ts"
import { ReceivedEventsRepository } from "./repository.ts"

/** The counters of the ledger are locked for as long as a batch is charged. */
const maxUsages = 500

/** An event with what it is taken once by. */
interface DigestedEvent extends GivenEvent {
  readonly digest: string
}

/** Takes the events of others into the audit log, and so into pulls, streams and deliveries. */
export class EventIngestion extends Context.Service<EventIngestion>()("app/events/EventIngestion", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const database = yield* Database
    const ledger = yield* Ledger
    const repository = yield* ReceivedEventsRepository
    const reservations = yield* ReservationService
    const settings = yield* Settings
    const { retentionDays } = settings.audit
    const atOnce = Math.max(1, Math.floor(settings.database.maxConnections / 4))
    const inTurn = yield* makeTurns({ atOnce, ofOne: 1 })

    /** Forgets which events came, as retention forgets the events. */
    const forget = Effect.gen(function* () {
      if (retentionDays === 0) return
      const moment = yield* statementMoment
      while (yield* database.transaction("all", repository.forget(retentionDays, moment)));
    })
    yield* repeatJob("forget old received events", "1 hour", forget)

    const take = (tenantId: TenantId | null, events: ReadonlyArray<DigestedEvent>) =>
      audit.change(
        Effect.gen(function* () {
          const digests = events.map(({ digest }) => digest)
          const fresh = yield* repository.insert(tenantId, digests, yield* DateTime.now)
          return {
            value: fresh.size,
            entries: events.flatMap(({ digest, event }) =>
              fresh.has(digest)
                ? [{ action: receivedActions.EventReceived, entityId: event.id, tenantId, after: event }]
                : []
            )
          }
        })
      )

    /**
     * Charges what events report and takes all in one statement. What was taken before is not looked at again: its agent or
     * its model may be gone.
     */
    const takeAndCharge = Effect.fnUntraced(function* (
      tenantId: TenantId | null,
      events: ReadonlyArray<DigestedEvent>,
      usages: ReadonlyMap<CloudEvent, SpentUsage>
    ) {
      const known = yield* database.asCaller(
        repository.known(
          tenantId,
          events.map(({ digest }) => digest)
        )
      )
      const fresh = events.filter(({ digest }) => !known.has(digest))
      const spent = []
      const others = []
      for (const one of fresh) {
        const usage = usages.get(one.event)
        if (usage === undefined) others.push(reportOf(one))
        else spent.push({ ...reportOf(one), item: yield* reservations.spent(usage, timeOf(one.event)) })
      }
      const taken = yield* ledger.record({ tenantId, audit: yield* auditOrigin, spent, others })
      return taken === "full" ? yield* new CounterFull({}) : taken
    })

    return {
      forget,
      /** How many events were new and how many were known; all or none are taken. */
      publish: Effect.fn("EventIngestion.publish")(function* (request: EventRequest) {
        const events = yield* receivedEvents(request)
        const principal = yield* CurrentPrincipal
        const { capabilities, tenantId = null } = principal
        const byDigest = new Map<string, DigestedEvent>()
        const usages = new Map<CloudEvent, SpentUsage>()
        const faults: Array<Fault> = []
        for (const given of events) {
          const { event, path } = given
          yield* requireForeign(event, settings.api.publicUrl)
          const digest = hash("sha256", `${event.source}\n${event.id}`)
          if (byDigest.has(digest)) continue
          byDigest.set(digest, { ...given, digest })
          if (event.type !== usageRecorded || faults.length >= maxFaults) continue
          const lacking = missing(capabilities, ["spend:write"])
          if (lacking.length > 0) return yield* new Forbidden({ missing: lacking })
          yield* Effect.match(decodeUsage(event.data ?? {}), {
            onSuccess: (usage) => void usages.set(event, usage),
            onFailure: (error) =>
              void faults.push(
                ...faultsOf("data", error).map(({ message, path: within }) => ({ message, path: [...path, ...within] }))
              )
          })
        }
        if (faults.length > 0) return yield* invalidEvents(faults)
        if (usages.size > maxUsages) {
          return yield* new PayloadTooLarge({ detail: `A batch may have ${maxUsages} events of usage at most.` })
        }
        const distinct = [...byDigest.values()]
        const taken = usages.size === 0 ? take(tenantId, distinct) : takeAndCharge(tenantId, distinct, usages)
        // One event is a change like any other; batches at once would fill the audit log faster than it is linked.
        const accepted = yield* distinct.length === 1 ? taken : inTurn(scopeOf(principal), taken)
        return { accepted, repeated: events.length - accepted }
      })
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(ReceivedEventsRepository.layer))
}

const decodeUsage = Schema.decodeUnknownEffect(SpentUsage, { errors: "all" })

const decodeTime = Schema.decodeUnknownSync(Instant)
/** When what an event is about happened, by its sender. */
const timeOf = ({ time }: CloudEvent) => (time === undefined ? undefined : decodeTime(time))

const reportOf = ({ digest, event }: DigestedEvent): ReportedEvent => ({
  digest,
  action: receivedActions.EventReceived,
  id: event.id,
  after: event
})
