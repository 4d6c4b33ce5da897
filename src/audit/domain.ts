import { Context, Schema } from "effect"
import { Model } from "effect/schema"
import { type AuditAction } from "../kernel/audit-action.ts"
import { TenantId, Uuid } from "../kernel/identifier.ts"
import { Instant, InstantFromDate } from "../kernel/instant.ts"
import { Problem } from "../kernel/problem.ts"
import { text } from "../kernel/text.ts"

export const AuditEntryId = Uuid.pipe(Schema.brand("AuditEntryId"))
export type AuditEntryId = typeof AuditEntryId.Type

export const Outcome = Schema.Literals(["success", "denied", "failed"]).annotate({ examples: ["success"] })

const Stamp = Model.Field({ select: InstantFromDate, insert: InstantFromDate, json: Instant })

/** The members of a thing before and after; secrets are never among them. */
export const Changes = Schema.Struct({
  before: Schema.NullOr(Schema.Record(Schema.String, Schema.Json)),
  after: Schema.NullOr(Schema.Record(Schema.String, Schema.Json))
}).annotate({
  identifier: "AuditChanges",
  description: "The members of the thing before and after; no secrets",
  examples: [{ before: { isActive: true }, after: { isActive: false } }]
})

/** One act: who did what to which thing, when and from where. Entries are only ever added. */
export class AuditEntry extends Model.Class<AuditEntry>("AuditEntry")({
  id: Model.GeneratedByDb(AuditEntryId),
  sequence: Model.GeneratedByDb(
    Schema.NullOr(
      Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER })))
    ).annotate({
      description: "Place in the proof of the log; null until the entry is linked"
    })
  ),
  occurredAt: Stamp,
  actionType: Schema.String.annotate({ examples: ["UserCreated"] }),
  entityType: Schema.String.annotate({ examples: ["TrialUser"] }),
  entityId: Schema.NullOr(Schema.String).annotate({ examples: ["42"] }),
  userId: Schema.String.annotate({ description: "The acting principal", examples: ["service-account"] }),
  actorType: Schema.String.annotate({ examples: ["service-account"] }),
  tenantId: Schema.NullOr(TenantId),
  applicationId: Schema.NullOr(Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 2_147_483_647 })))),
  outcome: Outcome,
  reason: Schema.NullOr(Schema.String).annotate({ description: "Why it was refused or failed", examples: [null] }),
  count: Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 1, maximum: 2_147_483_647 }))).annotate({
    description: "How many like refusals within a minute this entry stands for",
    examples: [1]
  }),
  ipAddress: Schema.NullOr(Schema.String).annotate({ examples: ["203.0.113.7"] }),
  userAgent: Schema.NullOr(Schema.String).annotate({ examples: ["curl/8.5.0"] }),
  traceId: Schema.NullOr(Schema.String).annotate({ examples: ["4bf92f3577b34da6a3ce929d0e0e4736"] }),
  changes: Model.Field({ select: Schema.NullOr(Changes) })
}) {}

/** One entry with everything that is kept of it. */
export const AuditEntryDetail = Schema.Struct({
  ...AuditEntry.json.fields,
  changes: Schema.NullOr(Changes)
}).annotate({ identifier: "AuditEntryDetail" })

/** An action that entries may record, and the kind of thing that it happens to. */
export const AuditActionView = Schema.Struct({
  actionType: Schema.String.annotate({ examples: ["UserCreated"] }),
  entityType: Schema.String.annotate({ examples: ["TrialUser"] })
}).annotate({ identifier: "AuditAction" })

/** Who made a change, when and from where, as the row of its entry says it. */
export interface AuditOrigin {
  readonly occurred_at: string
  readonly user_id: string
  readonly actor_type: string
  readonly tenant_id: string | null
  readonly ip_address: string | null
  readonly user_agent: string | null
  readonly trace_id: string | null
}

/** What the service that made a change says of it; the rest of the entry is known from the request, or is its `origin`. */
export interface AuditDraft {
  readonly action: AuditAction
  readonly entityId: string | number
  readonly tenantId?: TenantId | null | undefined
  readonly applicationId?: number | null | undefined
  readonly before?: object | undefined
  readonly after?: object | undefined
  /** Whose change it is, where one transaction makes the changes of many requests. */
  readonly origin?: AuditOrigin | undefined
}

/** A finished change: its answer, and the entries that record it (none when nothing changed). */
export interface Changed<A> {
  readonly value: A
  readonly entries: ReadonlyArray<AuditDraft>
}

/**
 * Leave to write. Every repository method that writes requires it, and only `Audit.change` gives it, which stores the
 * entries of the change in the same transaction: so no feature can write without recording.
 */
export class Change extends Context.Service<Change, { readonly occurredAt: Date }>()("app/audit/Change") {}

const FilterText = text(0, 512)

/** The list filters; dates are exclusive on both sides. */
export const AuditFilter = Schema.Struct({
  actionType: Schema.optionalKey(FilterText),
  entityType: Schema.optionalKey(FilterText),
  entityId: Schema.optionalKey(FilterText),
  userId: Schema.optionalKey(FilterText),
  tenantId: Schema.optionalKey(TenantId),
  outcome: Schema.optionalKey(Outcome),
  startDate: Schema.optionalKey(Instant),
  endDate: Schema.optionalKey(Instant)
})
export type AuditFilter = typeof AuditFilter.Type

/** The sort key of the list: newest first, by time and id. */
export const AuditCursor = Schema.Struct({ occurredAt: Instant, id: AuditEntryId })
export type AuditCursor = typeof AuditCursor.Type

export class AuditEntryNotFound extends Problem<AuditEntryNotFound>()("AuditEntryNotFound", {
  slug: "audit-entry-not-found",
  status: 404,
  meaning: "No audit entry that the caller may see has this id."
}) {}
