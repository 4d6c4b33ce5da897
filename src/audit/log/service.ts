import { Clock, Context, DateTime, Effect, Layer } from "effect"
import { type AuditAction } from "../../kernel/authority/audit-action.ts"
import { CurrentPrincipal, system } from "../../kernel/authority/principal.ts"
import { type Slice, slice } from "../../kernel/http/page.ts"
import { CurrentPrecondition } from "../../kernel/http/precondition.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { Database, scopeOf } from "../../platform/database/database.ts"
import { onReplica, ReadReplica } from "../../platform/database/read-replica.ts"
import { CurrentRequest } from "../../platform/http/request.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import {
  type AuditCursor,
  type AuditDraft,
  AuditEntryNotFound,
  Change,
  type AuditEntry,
  type AuditEntryDetail,
  type AuditEntryId,
  type AuditSearch,
  type AuditOrigin,
  type Changed
} from "./domain.ts"
import { makeRefusals } from "./refusals.ts"
import { AuditRepository, type AuditRow } from "./repository.ts"

/** Something that was refused: what, to whom is known from the request, and why. */
export interface Refusal {
  readonly action: AuditAction
  readonly target: string | null
  readonly reason: string
  /** The reason without what differs in refusals that are counted together; the reason itself when absent, and not stored. */
  readonly alike?: string
  /** Distinguishes it from similar refusals when they are counted; not stored. */
  readonly countedBy?: string
  /** Whose log it belongs in, where that is not the caller's tenant. */
  readonly tenantId?: TenantId | null | undefined
  /** Whether it is recorded beyond the rate limit of the caller's network, too. */
  readonly isAlarm?: boolean
  /** What was asked for, and what stood against it; of refusals that are counted together, that of the first. */
  readonly after?: object | undefined
}

export class Audit extends Context.Service<
  Audit,
  {
    /** Runs a change in one transaction together with the entries that record it: both are stored, or neither. */
    change<A, E, R>(work: Effect.Effect<Changed<A>, E, R>): Effect.Effect<A, E, Exclude<R, Change>>
    /** Records a refusal; like ones within a minute are counted, not written one by one. */
    refused(refusal: Refusal): Effect.Effect<void>
    list(
      filter: AuditSearch,
      after: AuditCursor | undefined,
      limit: number
    ): Effect.Effect<Slice<AuditEntry, AuditCursor>>
    get(id: AuditEntryId): Effect.Effect<AuditEntryDetail, AuditEntryNotFound>
  }
>()("app/audit/Audit") {
  static readonly layerNoDeps = Layer.effect(
    Audit,
    Effect.gen(function* () {
      const database = yield* Database
      const fromReplica = onReplica(yield* ReadReplica, "audit-list")
      const repository = yield* AuditRepository

      const write = (rows: ReadonlyArray<AuditRow>) => database.transaction("all", repository.insert(rows))
      const refusals = yield* makeRefusals(write)

      const change = <A, E, R>(work: Effect.Effect<Changed<A>, E, R>): Effect.Effect<A, E, Exclude<R, Change>> =>
        Effect.gen(function* () {
          const principal = yield* CurrentPrincipal
          const precondition = yield* CurrentPrecondition
          const now = yield* DateTime.now
          return yield* database.transaction(
            scopeOf(principal),
            Effect.gen(function* () {
              const { value, entries } = yield* Effect.provideService(work, Change, {
                occurredAt: DateTime.toDateUtc(now)
              })
              if (precondition !== undefined && !precondition.isEvaluated) {
                return yield* Effect.die(new Error("The change has not evaluated the precondition of its request"))
              }
              yield* repository.insert(yield* rowsOf(entries))
              return value
            })
          )
        })

      const refused = Effect.fn("Audit.refused")(function* (refusal: Refusal) {
        const origin = yield* auditOrigin
        const row = {
          ...origin,
          action_type: refusal.action.actionType,
          entity_type: refusal.action.entityType,
          entity_id: refusal.target,
          tenant_id: refusal.tenantId ?? origin.tenant_id,
          application_id: null,
          outcome: "denied" as const,
          reason: refusal.reason,
          count: 1,
          changes: refusal.after === undefined ? null : { before: null, after: refusal.after }
        }
        yield* refusals.add(row, refusal.countedBy, refusal.alike)
      })

      const list = Effect.fn("Audit.list")(function* (
        filter: AuditSearch,
        after: AuditCursor | undefined,
        limit: number
      ) {
        const principal = yield* CurrentPrincipal
        const rows = yield* fromReplica(database.read(scopeOf(principal), repository.list(filter, after, limit + 1)))
        return slice(rows, limit, (row): AuditCursor => ({ occurredAt: row.occurredAt, id: row.id }))
      })

      const get = Effect.fn("Audit.get")(function* (id: AuditEntryId) {
        const principal = yield* CurrentPrincipal
        const found = yield* database.read(scopeOf(principal), repository.find(id))
        return yield* Effect.fromOption(found).pipe(Effect.mapError(() => new AuditEntryNotFound({})))
      })

      // Partitions are created ahead of their entries, by any replica; creating them again does nothing.
      const makeMonths = repository.makePartitions(4)
      yield* Effect.ignoreCause(makeMonths)
      yield* repeatJob("make the months of the audit log", "1 hour", makeMonths)

      return Audit.of({ change, refused, list, get })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(AuditRepository.layer))
}

/** Who makes the change in hand, and from where: for entries that are written with those of other requests. */
export const auditOrigin: Effect.Effect<AuditOrigin> = Effect.withFiber((fiber) =>
  Effect.succeed(auditOriginIn(fiber.context))
)

/** The same from a given context. */
export const auditOriginIn = (context: Context.Context<never>): AuditOrigin => {
  const principal = Context.get(context, CurrentPrincipal)
  const request = Context.get(context, CurrentRequest)
  const now = Context.get(context, Clock.Clock).currentTimeMillisUnsafe()
  return {
    occurred_at: DateTime.formatIso(DateTime.makeUnsafe(now)),
    user_id: principal.name,
    actor_type: principal.synthetic === true ? "synthetic" : principal.kind,
    tenant_id: principal.tenantId ?? null,
    ip_address: request?.ipAddress ?? null,
    user_agent: request?.userAgent?.slice(0, 512) ?? null,
    trace_id: request?.traceId ?? null
  }
}

/** The rows of entries, with what is known of the principal and the request at work. */
export const rowsOf = (drafts: ReadonlyArray<AuditDraft>): Effect.Effect<ReadonlyArray<AuditRow>> =>
  Effect.map(auditOrigin, (origin) => drafts.map((draft) => rowOf(draft, draft.origin ?? origin)))

const rowOf = (draft: AuditDraft, origin: AuditOrigin): AuditRow => ({
  ...origin,
  action_type: draft.action.actionType,
  entity_type: draft.action.entityType,
  entity_id: String(draft.entityId),
  tenant_id: draft.tenantId === undefined ? origin.tenant_id : draft.tenantId,
  application_id: draft.applicationId ?? null,
  outcome: "success",
  reason: null,
  count: 1,
  changes:
    draft.before === undefined && draft.after === undefined
      ? null
      : { before: draft.before ?? null, after: draft.after ?? null }
})

/** Runs background work as the service itself. */
export const asSystem = Effect.provideService(CurrentPrincipal, system)
