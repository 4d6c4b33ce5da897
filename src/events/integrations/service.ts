import { Context, DateTime, Effect, Layer, Option } from "effect"
import { SecureRandom } from "effect/crypto"
import { changesOf, unchanged } from "../../audit/log/change-entries.ts"
import { type Changed } from "../../audit/log/domain.ts"
import { Audit } from "../../audit/log/service.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { requireUnchanged } from "../../kernel/http/precondition.ts"
import { patched } from "../../kernel/http/server-set.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { Database, statementMoment } from "../../platform/database/database.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { Tenants } from "../../tenants/service.ts"
import { type CloudEvent, matchesType, ownTypes, ownTypePrefix, sourceOf } from "../cloud-events/domain.ts"
import {
  type DeliveryId,
  DeliveryNotFound,
  type DeliveryStatus,
  integrationActions,
  IntegrationNotFound,
  overlapSecondsDefault,
  redactedUrl,
  type Target,
  TargetId
} from "../deliveries/domain.ts"
import { DeliveryRepository } from "../deliveries/repository.ts"
import { Deliveries } from "../deliveries/service.ts"
import { newSecret } from "../deliveries/signing.ts"
import { requireTargetAddress } from "../deliveries/target-address.ts"
import { TargetRepository } from "../deliveries/target-repository.ts"
import {
  type CreatedIntegration,
  Integration,
  type IntegrationCreation,
  integrationKinds,
  type IntegrationPatch,
  type SecretRotation,
  type TestResult,
  toIntegration
} from "./domain.ts"

export class Integrations extends Context.Service<Integrations>()("app/events/Integrations", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const database = yield* Database
    const deliveries = yield* Deliveries
    const queue = yield* DeliveryRepository
    const random = yield* SecureRandom.SecureRandom
    const { integrations } = yield* Settings
    const targets = yield* TargetRepository
    const tenants = yield* Tenants

    const found = Effect.flatMap(
      Option.match({
        onNone: () => Effect.fail(new IntegrationNotFound({})),
        onSome: (target: Target) => Effect.succeed(target)
      })
    )
    const find = (id: TargetId) => found(database.asCaller(targets.find(integrationKinds, id)))
    const lock = (id: TargetId) => Effect.tap(found(targets.lock(integrationKinds, id)), requireUnchanged)
    const hold = (id: TargetId) => found(targets.hold(integrationKinds, id))
    const create = Effect.fn("Integrations.create")(
      function* (input: IntegrationCreation) {
        yield* requireTargetAddress(input.url, "url", integrations.allowPrivateAddresses)
        const principal = yield* CurrentPrincipal
        const isForAll = principal.tenantId === undefined && input.tenantId === undefined
        const tenantId = isForAll ? null : yield* tenants.forCreation(input.tenantId)
        const now = yield* DateTime.now
        const target: Target = {
          id: TargetId.make(yield* random.uuidV7()),
          tenantId,
          kind: input.kind,
          name: input.name,
          url: input.url,
          eventTypes: input.eventTypes,
          filters: [],
          config: {},
          status: "active",
          createdAt: now,
          createdBy: principal.name,
          updatedAt: now
        }
        const secret = yield* newSecret(random)
        yield* targets.insert(target, yield* deliveries.sealSecret(target.id, secret))
        const { entries } = changes.created(integrationActions.IntegrationCreated, toAudited(target))
        return { entries, value: { ...toIntegration(target), secret } satisfies CreatedIntegration }
      },
      audit.change,
      Effect.tap(deliveries.wake)
    )

    const update = Effect.fn("Integrations.update")(
      function* (id: TargetId, patch: IntegrationPatch) {
        if (patch.url !== undefined) {
          yield* requireTargetAddress(patch.url, "url", integrations.allowPrivateAddresses)
        }
        const before = yield* lock(id)
        const wanted = patched(before, patch, ["name", "url", "eventTypes", "status"])
        if (wanted === before) return unchanged(toIntegration(before))
        const after = { ...wanted, updatedAt: yield* DateTime.now }
        yield* targets.update(after)
        const { entries } = changes.updated(integrationActions.IntegrationUpdated, toAudited(before), toAudited(after))
        return { entries, value: toIntegration(after) }
      },
      audit.change,
      Effect.tap(deliveries.wake)
    )

    const remove = Effect.fn("Integrations.delete")(function* (id: TargetId) {
      const before = yield* lock(id)
      yield* targets.delete(id)
      return changes.deleted(integrationActions.IntegrationDeleted, toAudited(before))
    }, audit.change)

    const rotateSecret = Effect.fn("Integrations.rotateSecret")(function* (
      id: TargetId,
      { overlapSeconds = overlapSecondsDefault }: SecretRotation
    ) {
      const target = yield* lock(id)
      const secret = yield* newSecret(random)
      const now = yield* DateTime.now
      const until = DateTime.add(now, { seconds: overlapSeconds })
      yield* targets.rotateSecret(id, yield* deliveries.sealSecret(id, secret), until, now)
      return acted("IntegrationSecretRotated", target, { secret }, { overlapSeconds })
    }, audit.change)

    const test = Effect.fn("Integrations.test")(function* (id: TargetId) {
      const target = yield* find(id)
      const principal = yield* CurrentPrincipal
      const event: CloudEvent = {
        specversion: "1.0",
        id: yield* random.uuidV7(),
        source: sourceOf(target.tenantId),
        type: `${ownTypePrefix}integration.tested`,
        subject: `integration/${id}`,
        time: DateTime.formatIso(yield* DateTime.now),
        datacontenttype: "application/json",
        data: { actionType: "IntegrationTested", outcome: "success", changes: null, synthetic: false },
        ...(target.tenantId === null ? {} : { tenantid: target.tenantId }),
        authid: principal.name
      }
      const attempt = yield* deliveries.sendNow(target, event)
      const result: TestResult = { ...attempt, delivered: attempt.error === null }
      return yield* audit.change(
        Effect.succeed(acted("IntegrationTested", target, result, { status: result.status, error: result.error }))
      )
    })

    const retry = Effect.fn("Integrations.retry")(
      function* (id: TargetId, deliveryId: DeliveryId) {
        const target = yield* hold(id)
        const delivery = yield* queue.retry(id, deliveryId, yield* statementMoment)
        if (Option.isNone(delivery)) return yield* new DeliveryNotFound({})
        return acted("IntegrationDeliveryRetried", target, delivery.value, { deliveryId })
      },
      audit.change,
      Effect.tap(deliveries.wake)
    )

    const replay = Effect.fn("Integrations.replay")(
      function* (id: TargetId, since: DateTime.Utc) {
        const target = yield* hold(id)
        const own = ownTypes().filter(({ type }) => matchesType(target.eventTypes, type))
        const made = yield* queue.replay(target, since, own, target.eventTypes, yield* statementMoment)
        return acted(
          "IntegrationReplayed",
          target,
          { deliveries: made },
          {
            since: DateTime.formatIso(since),
            deliveries: made
          }
        )
      },
      audit.change,
      Effect.tap(deliveries.wake)
    )

    return {
      list: Effect.fn("Integrations.list")(function* (tenantId: TenantId | undefined, page: ListRequest<TargetId>) {
        const { items, nextCursor } = yield* database.asCaller(targets.list(integrationKinds, tenantId, page))
        return { items: items.map(toIntegration), nextCursor }
      }),
      get: Effect.fn("Integrations.get")((id: TargetId) => Effect.map(find(id), toIntegration)),
      create,
      update,
      delete: remove,
      test,
      rotateSecret,
      deliveries: Effect.fn("Integrations.deliveries")(function* (
        id: TargetId,
        status: typeof DeliveryStatus.Type | undefined,
        before: DeliveryId | undefined,
        limit: number
      ) {
        yield* find(id)
        return yield* database.asCaller(queue.list(id, status, before, limit))
      }),
      retry,
      replay
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}

/** An integration as an audit entry has it. */
const toAudited = (target: Target): Integration =>
  toIntegration({ ...target, url: redactedUrl(target.url, target.kind) })

const acted = <A>(action: keyof typeof integrationActions, { id, tenantId }: Target, value: A, after?: object) =>
  ({
    value,
    entries: [{ action: integrationActions[action], entityId: id, tenantId, ...(after && { after }) }]
  }) satisfies Changed<A>

const changes = changesOf(Integration, ({ id, tenantId }) => ({ entityId: id, tenantId }))
