import { Context, Schema } from "effect"
import { Model } from "effect/schema"
import { type AuditAction, auditActions } from "../../kernel/authority/audit-action.ts"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { Instant, InstantFromDate } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { name, text } from "../../kernel/text.ts"

export const AuditEntryId = Uuid.pipe(Schema.brand("AuditEntryId"))
export type AuditEntryId = typeof AuditEntryId.Type

export const Outcome = Schema.Literals(["success", "denied", "failed"]).annotate({ examples: ["success"] })

const Stamp = Model.Field({ select: InstantFromDate, insert: InstantFromDate, json: Instant })

/** The members of an entity before and after a change, without secrets. */
export const Changes = Schema.Struct({
  before: Schema.NullOr(Schema.Record(Schema.String, Schema.Json)),
  after: Schema.NullOr(Schema.Record(Schema.String, Schema.Json))
}).annotate({
  identifier: "AuditChanges",
  description:
    "The members of the thing before and after; `after` of a refused spend is what was asked, and what was left; no secrets",
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
    description: "How many identical refusals within a minute this entry counts",
    examples: [1]
  }),
  ipAddress: Schema.NullOr(Schema.String).annotate({ examples: ["203.0.113.7"] }),
  userAgent: Schema.NullOr(Schema.String).annotate({ examples: ["curl/8.5.0"] }),
  traceId: Schema.NullOr(Schema.String).annotate({ examples: ["4bf92f3577b34da6a3ce929d0e0e4736"] }),
  changes: Model.Field({ select: Schema.NullOr(Changes) })
}) {}

/** SHA-256 in hex. */
export const LinkHash = Schema.String.pipe(Schema.check(Schema.isPattern(/^[0-9a-f]{64}$/u))).annotate({
  component: "LinkHash",
  description: "SHA-256 in hex",
  examples: ["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]
})

const Hash = Schema.NullOr(LinkHash).annotate({
  description: "Of the entry at its place, and with it of all before; null until the entry is linked"
})

/** One entry with everything that is kept of it. */
export const AuditEntryDetail = Schema.Struct({
  ...AuditEntry.json.fields,
  changes: Schema.NullOr(Changes),
  hash: Hash
}).annotate({ identifier: "AuditEntryDetail" })
export type AuditEntryDetail = typeof AuditEntryDetail.Type

/** The same as the database has it. */
export const StoredEntryDetail = Schema.Struct({ ...AuditEntry.fields, hash: Hash })

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
  /** The author of the change, if one transaction makes the changes of several requests. */
  readonly origin?: AuditOrigin | undefined
}

/** A finished change: its answer, and the entries that record it (none when nothing changed). */
export interface Changed<A> {
  readonly value: A
  readonly entries: ReadonlyArray<AuditDraft>
}

/**
 * Permission to write. Every repository method that writes requires it, and only `Audit.change` provides it, which
 * stores the audit entries in the same transaction. So no feature can write without an audit entry.
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

/** The list filters with a search. */
export const AuditSearch = Schema.Struct({
  ...AuditFilter.fields,
  search: Schema.optionalKey(
    name(200, {
      description:
        "A part of the action type, or of the name of an account, an agent or an API key that acted or that it was done to (the first 20 of each), without regard to case; or the whole id of an entry, of a thing, of an actor or of a trace",
      examples: ["suspended"]
    })
  )
})
export type AuditSearch = typeof AuditSearch.Type

/** The sort key of the list: newest first, by time and id. */
export const AuditCursor = Schema.Struct({ occurredAt: Instant, id: AuditEntryId })
export type AuditCursor = typeof AuditCursor.Type

export class AuditEntryNotFound extends Problem<AuditEntryNotFound>()("AuditEntryNotFound", {
  slug: "audit-entry-not-found",
  status: 404,
  meaning: "No audit entry that the caller may see has this id."
}) {}

export const checkpointActions = auditActions("AuditCheckpoint", ["AuditCheckpointSigned"])

/** The topic of the notifications that the chain has grown, with its newest sequence. */
export const chainGrowth = "audit-chain"

/** How many links a checkpoint may be behind the head. */
export const checkpointEvery = 1000

/** The header `typ` of a signed checkpoint. */
export const checkpointType = "application-manager-audit-checkpoint"

export const Sequence = Schema.Int.pipe(
  Schema.check(Schema.isBetween({ minimum: 1, maximum: Number.MAX_SAFE_INTEGER }))
).annotate({ description: "Place in the proof of the log", examples: [42] })

/** The signed payload of a checkpoint: the newest link of the chain at `signedAt`, and its hash. */
export const CheckpointStatement = Schema.Struct({ sequence: Sequence, hash: LinkHash, signedAt: Instant })
export type CheckpointStatement = typeof CheckpointStatement.Type

/** The `kid` of the key that signed. */
export const KeyId = Schema.String.annotate({
  description: "`kid` of the key, as in /.well-known/attestation-keys.json",
  examples: ["kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"]
})

/** A signed position of the chain: any later change of an entry up to it contradicts the signature. */
export const AuditCheckpoint = Schema.Struct({
  ...CheckpointStatement.fields,
  keyId: KeyId,
  jws: Schema.String.annotate({
    description: "Compact JWS (EdDSA) of sequence, hash and signedAt",
    examples: ["eyJhbGciOiJFZERTQSJ9.eyJzZXF1ZW5jZSI6NDJ9.c2lnbmF0dXJl"]
  })
}).annotate({ identifier: "AuditCheckpoint" })
export type AuditCheckpoint = typeof AuditCheckpoint.Type

/** The kinds of faults that verification reports. */
export const ProofProblem = Schema.Literals(["changed", "missing", "inserted", "swapped", "bad-signature"]).annotate({
  identifier: "AuditProofProblem",
  description:
    "`changed`: the entry or its link is not what was linked. `missing`: it is gone. `inserted`: it did not come through the service. `swapped`: it is in another entry's place. `bad-signature`: a checkpoint that no key of ours signed."
})
export type ProofProblem = typeof ProofProblem.Type

/** One fault of the log, with its position. */
export const ProofFault = Schema.Struct({
  sequence: Schema.NullOr(Sequence),
  entryId: Schema.NullOr(AuditEntryId),
  problem: ProofProblem,
  detail: Schema.String.annotate({ examples: ["The entry is not what was linked"] })
}).annotate({ identifier: "AuditProofFault" })
export type ProofFault = typeof ProofFault.Type

/** What a verification found. */
export const Verification = Schema.Struct({
  ok: Schema.Boolean,
  checked: Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }))).annotate({
    description: "How many links were checked"
  }),
  firstBad: Schema.NullOr(ProofFault),
  head: Schema.Struct({
    sequence: Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }))),
    hash: LinkHash
  }).annotate({ description: "The newest link; keep it elsewhere to prove later that nothing was cut off" }),
  checkpoint: Schema.NullOr(Schema.Struct({ ...CheckpointStatement.fields, keyId: KeyId })).annotate({
    description: "The newest signed checkpoint among the links checked"
  })
}).annotate({ identifier: "AuditVerification" })
export type Verification = typeof Verification.Type

export const retirementActions = auditActions("AuditMonth", ["AuditMonthRetired"])

/** The header `typ` of a signed retirement. */
export const retirementType = "application-manager-audit-retirement"

/** A dropped range of sequences, from `first` to `last`, with the hash before the first and the hash of the last. */
export const RetiredRun = Schema.Struct({ first: Sequence, last: Sequence, previousHash: LinkHash, hash: LinkHash })
export type RetiredRun = typeof RetiredRun.Type

/** The signed payload of a retirement: the ranges of sequences that were dropped with a month. */
export const RetirementStatement = Schema.Struct({
  month: Schema.String.annotate({ examples: ["2026-01"] }),
  runs: Schema.Array(RetiredRun),
  retiredAt: Instant
})

/** The header `typ` of a signed export. */
export const exportType = "application-manager-audit-export"

/**
 * The signed payload at the end of an export, which proves that its lines are complete. `digest` is the SHA-256, in
 * hex, of the `hash` members of the lines in their order; `head` is the newest link at that time.
 */
export const ExportStatement = Schema.Struct({
  lines: Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: Number.MAX_SAFE_INTEGER }))),
  digest: LinkHash,
  head: Schema.Struct({ sequence: Schema.Int, hash: LinkHash }),
  exportedAt: Instant
})
export type ExportStatement = typeof ExportStatement.Type
