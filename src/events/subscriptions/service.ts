import { Context, DateTime, Effect, Layer, Option } from "effect"
import { SecureRandom } from "effect/crypto"
import { changesOf } from "../../audit/log/change-entries.ts"
import { Audit } from "../../audit/log/service.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { requireUnchanged } from "../../kernel/http/precondition.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Database } from "../../platform/database/database.ts"
import { OutboundHttp } from "../../platform/outbound/outbound-http.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { Tenants } from "../../tenants/service.ts"
import {
  eventSubscriptionActions,
  EventSubscriptionNotFound,
  overlapSecondsDefault,
  redactedSecret,
  redactedUrl,
  type Target,
  TargetId
} from "../deliveries/domain.ts"
import { Deliveries } from "../deliveries/service.ts"
import { requireTargetAddress } from "../deliveries/target-address.ts"
import { TargetRepository } from "../deliveries/target-repository.ts"
import {
  EventSubscription,
  type EventSubscriptionCreation,
  type EventSubscriptionUpdate,
  toSubscription
} from "./domain.ts"

const kinds = ["subscription"] as const
const timeoutSeconds = 5
const maxBytes = 1024

export class EventSubscriptions extends Context.Service<EventSubscriptions>()("app/events/EventSubscriptions", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const database = yield* Database
    const deliveries = yield* Deliveries
    const http = yield* OutboundHttp
    const random = yield* SecureRandom.SecureRandom
    const { api, integrations } = yield* Settings
    const targets = yield* TargetRepository
    const tenants = yield* Tenants
    const allowPrivate = integrations.allowPrivateAddresses

    const found = Effect.flatMap(
      Option.match({
        onNone: () => Effect.fail(new EventSubscriptionNotFound({})),
        onSome: (target: Target) => Effect.succeed(target)
      })
    )

    /** Whether a sink agrees to receive events (CloudEvents, HTTP 1.1 Web Hooks for Event Delivery, section 4). */
    const consent = Effect.fn("EventSubscriptions.consent")(function* (sink: string) {
      const origin = new URL(api.publicUrl).hostname
      const response = yield* Effect.option(
        http.send({
          method: "OPTIONS",
          url: sink,
          headers: { "webhook-request-origin": origin, "user-agent": "application-manager" },
          timeoutSeconds,
          maxBytes,
          allowPrivate
        })
      )
      return Option.exists(response, ({ headers, status }) => {
        const allowed = headers["webhook-allowed-origin"]?.trim()
        return status >= 200 && status < 300 && (allowed === "*" || allowed?.toLowerCase() === origin.toLowerCase())
      })
    })

    const create = Effect.fn("EventSubscriptions.create")(function* (input: EventSubscriptionCreation) {
      yield* requireTargetAddress(input.sink, "sink", allowPrivate)
      const principal = yield* CurrentPrincipal
      const { secret } = input.config ?? {}
      if (secret === redactedSecret) return yield* noSecretYet
      const isForAll = principal.tenantId === undefined && input.tenantId === undefined
      const tenantId = isForAll ? null : yield* tenants.forCreation(input.tenantId)
      const status = (yield* consent(input.sink)) ? ("active" as const) : ("refused" as const)
      const now = yield* DateTime.now
      const target: Target = {
        id: TargetId.make(yield* random.uuidV7()),
        tenantId,
        kind: "subscription",
        name: "",
        ...termsOf(input),
        status,
        createdAt: now,
        createdBy: principal.name,
        updatedAt: now
      }
      const sealedSecret = secret === undefined ? null : yield* deliveries.sealSecret(target.id, secret)
      return yield* audit.change(
        Effect.as(targets.insert(target, sealedSecret), {
          ...changes.created(eventSubscriptionActions.EventSubscriptionCreated, toAudited(target)),
          value: toSubscription(target)
        })
      )
    }, Effect.tap(deliveries.wake))

    const lock = (id: TargetId) => Effect.tap(found(targets.lock(kinds, id)), requireUnchanged)

    const update = Effect.fn("EventSubscriptions.update")(function* (id: TargetId, input: EventSubscriptionUpdate) {
      yield* requireTargetAddress(input.sink, "sink", allowPrivate)
      yield* found(database.asCaller(targets.find(kinds, id)))
      // Neither is the sink asked for a change that is not made.
      yield* requireUnchanged
      const status = input.status === "disabled" ? "disabled" : (yield* consent(input.sink)) ? "active" : "refused"
      return yield* audit.change(
        Effect.gen(function* () {
          const before = yield* lock(id)
          const { secret } = input.config ?? {}
          if (secret === redactedSecret && before.config.secret === undefined) return yield* noSecretYet
          const now = yield* DateTime.now
          const after: Target = { ...before, ...termsOf(input), status, updatedAt: now }
          yield* targets.update(after)
          if (secret === undefined) yield* targets.removeSecrets(id)
          else if (secret !== redactedSecret) {
            const until = DateTime.add(now, { seconds: overlapSecondsDefault })
            yield* targets.rotateSecret(id, yield* deliveries.sealSecret(id, secret), until, now)
          }
          const { EventSubscriptionUpdated } = eventSubscriptionActions
          const { entries } = changes.updated(EventSubscriptionUpdated, toAudited(before), toAudited(after))
          return { entries, value: toSubscription(after) }
        })
      )
    }, Effect.tap(deliveries.wake))

    const remove = Effect.fn("EventSubscriptions.delete")(function* (id: TargetId) {
      const before = yield* lock(id)
      yield* targets.delete(id)
      return changes.deleted(eventSubscriptionActions.EventSubscriptionDeleted, toAudited(before))
    }, audit.change)

    return {
      list: Effect.fn("EventSubscriptions.list")(function* (
        tenantId: TenantId | undefined,
        page: ListRequest<TargetId>
      ) {
        const { items, nextCursor } = yield* database.asCaller(targets.list(kinds, tenantId, page))
        return { items: items.map(toSubscription), nextCursor }
      }),
      get: Effect.fn("EventSubscriptions.get")((id: TargetId) =>
        Effect.map(found(database.asCaller(targets.find(kinds, id))), toSubscription)
      ),
      create,
      update,
      delete: remove
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}

const termsOf = ({ config, filters, sink, types }: EventSubscriptionCreation | EventSubscriptionUpdate) => ({
  url: sink,
  eventTypes: types === undefined || types.length === 0 ? ["*"] : types,
  filters: filters ?? [],
  config: { ...config, ...(config?.secret === undefined ? {} : { secret: redactedSecret }) } as Target["config"]
})

/** A subscription as an audit entry has it. */
const toAudited = (target: Target): EventSubscription =>
  toSubscription({ ...target, url: redactedUrl(target.url, target.kind) })

const noSecretYet = Effect.suspend(() =>
  Effect.fail(
    new ValidationFailed({
      errors: [
        {
          path: ["payload", "config", "secret"],
          message: `Expected a secret: the subscription has none that ${redactedSecret} could stand for`
        }
      ]
    })
  )
)

const changes = changesOf(EventSubscription, ({ id, tenantId }) => ({ entityId: id, tenantId }))
