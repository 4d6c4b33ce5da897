import { Context, DateTime, Effect, Layer, Schema } from "effect"
import { hash } from "node:crypto"
import { Audit } from "../../audit/log/service.ts"
import { ReconcileRequest, ReserveRequest } from "../../budgets/reservations/domain.ts"
import { ReservationService } from "../../budgets/reservations/service.ts"
import { missing } from "../../kernel/authority/capability.ts"
import { CurrentPrincipal, Forbidden } from "../../kernel/authority/principal.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { CurrentRepeatable } from "../../platform/idempotency/domain.ts"
import { faultsOf } from "../../platform/http/validation.ts"
import { type CloudEvent, ownTypePrefix, receivedActions, usageRecorded } from "./domain.ts"
import { type EventRequest, receivedEvents } from "./received-event.ts"
import { ReceivedEventsRepository } from "./repository.ts"

const { agentId, model, planId, provider, taskType, userId } = ReserveRequest.fields
const { actualUsd, usage } = ReconcileRequest.fields

/** The data of an event of usage: what was spent without the gateway. */
const UsageData = Schema.Struct({ actualUsd, usage, agentId, planId, model, provider, taskType, userId })

/** Takes the events of others into the audit log, and so into pulls, streams and deliveries. */
export class EventIngestion extends Context.Service<EventIngestion>()("app/events/EventIngestion", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const repository = yield* ReceivedEventsRepository
    const reservations = yield* ReservationService

    /** Charges usage in full. The ledger knows the event by its digest, so that a repetition charges nothing. */
    const charge = Effect.fnUntraced(function* (event: CloudEvent, digest: string) {
      const data = yield* Schema.decodeUnknownEffect(UsageData, { errors: "all" })(event.data ?? {}).pipe(
        Effect.mapError((error) => new ValidationFailed({ errors: faultsOf("data", error) }))
      )
      if ((data.actualUsd === undefined) === (data.usage === undefined)) {
        return yield* new ValidationFailed({
          errors: [{ path: ["data", "actualUsd"], message: "Expected one of actualUsd and usage" }]
        })
      }
      const { actualUsd, usage, ...dimensions } = data
      const as = (step: string) =>
        Effect.provideService(CurrentRepeatable, {
          route: `event ${step}`,
          key: digest,
          requestSha256: hash("sha256", JSON.stringify(event.data ?? null)),
          markReplayed: () => {}
        })
      const { id } = yield* as("reserve")(
        reservations.reserve({
          ...dimensions,
          ...(dimensions.model === undefined && usage !== undefined ? { model: usage.model } : {})
        })
      )
      yield* as("settle")(
        reservations.reconcile({
          reservationId: id,
          ...(actualUsd === undefined ? {} : { actualUsd }),
          ...(usage === undefined ? {} : { usage })
        })
      )
    })

    return {
      /** How many events were new and how many were known; all or none are taken. */
      publish: Effect.fn("EventIngestion.publish")(function* (request: EventRequest) {
        const events = yield* receivedEvents(request)
        const principal = yield* CurrentPrincipal
        const byDigest = new Map<string, CloudEvent>()
        for (const event of events) {
          yield* requireForeign(event)
          if (event.type === usageRecorded) {
            const lacking = missing(principal.capabilities, ["spend:write"])
            if (lacking.length > 0) return yield* new Forbidden({ missing: lacking })
          }
          const digest = hash("sha256", `${event.source}\n${event.id}`)
          if (!byDigest.has(digest)) byDigest.set(digest, event)
        }
        for (const [digest, event] of byDigest) if (event.type === usageRecorded) yield* charge(event, digest)
        const tenantId = principal.tenantId ?? null
        const accepted = yield* audit.change(
          Effect.gen(function* () {
            const fresh = yield* repository.insert(tenantId, [...byDigest.keys()], yield* DateTime.now)
            return {
              value: fresh.size,
              entries: Array.from(byDigest).flatMap(([digest, event]) =>
                fresh.has(digest)
                  ? [{ action: receivedActions.EventReceived, entityId: event.id, tenantId, after: event }]
                  : []
              )
            }
          })
        )
        return { accepted, repeated: events.length - accepted }
      })
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(ReceivedEventsRepository.layer))
}

/** Only this service speaks for itself. */
const requireForeign = ({ source, type }: CloudEvent): Effect.Effect<void, Forbidden> =>
  (type.startsWith(ownTypePrefix) && type !== usageRecorded) || /^\/(?:system|tenants)(?:\/|$)/.test(source)
    ? Effect.fail(
        new Forbidden({
          missing: [],
          detail: `The sources /system and /tenants and the types ${ownTypePrefix}* are of this service, except ${usageRecorded}.`
        })
      )
    : Effect.void
