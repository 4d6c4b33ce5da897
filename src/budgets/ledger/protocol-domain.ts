import { type DateTime } from "effect"
import { type AuditOrigin } from "../../audit/log/domain.ts"
import { type AuditAction } from "../../kernel/authority/audit-action.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { type RepeatableRequest } from "../../platform/idempotency/domain.ts"
import {
  type CallPlan,
  ChargeId,
  type Origin,
  type PlanStatus,
  type ReservationId,
  type ReservationState,
  type StoredCap,
  type StoredEntry,
  type StoredReservation
} from "./domain.ts"
import { type Unit } from "./quantity-domain.ts"

/** The values of a reservation that scopes of caps name. */
export interface Dimensions {
  readonly agentId?: string | undefined
  readonly model?: string | undefined
  readonly provider?: string | undefined
  readonly taskType?: string | undefined
  readonly applicationId?: number | undefined
  readonly apiKeyId?: string | undefined
  readonly userId?: string | undefined
}

/** What a reservation counts for: the tenant, the values that scopes of caps name, and the plan that it draws on. */
export interface BudgetSubject {
  readonly tenantId: TenantId
  readonly dimensions: Dimensions
  readonly plan?: Pick<CallPlan, "id" | "name"> | undefined
}

/** The principal that makes a request, and the key under which the request may be repeated. */
export interface Requester {
  readonly principal: string
  readonly repeatable?: RepeatableRequest | undefined
  /** The version that the row must have that is changed: the verdict is "changed" where it has another one. */
  readonly seen?: string | undefined
}

/** A cap that applies to a reservation, and the key of the counter that it counts on. The plan of a call is one too. */
export interface ApplicableCap {
  readonly cap: Pick<
    StoredCap,
    | "tenantId"
    | "id"
    | "name"
    | "unit"
    | "mode"
    | "status"
    | "limitAmount"
    | "alertThresholds"
    | "period"
    | "windowSeconds"
  >
  readonly counterKey: string
  readonly isPlan?: true
}

/** An applicable cap with what is left of it. */
export interface AvailableBudget extends ApplicableCap {
  readonly headroom: bigint
  readonly resetsAt: number | null
}

/** The first cap that has too little left, and how much was requested. */
export interface InsufficientBudget {
  readonly budget: AvailableBudget
  readonly limit: bigint
  readonly spent: bigint
  readonly reserved: bigint
  readonly requested: Readonly<Record<Unit, bigint>>
}

/** A reservation to be made, or a held one to be approved. Approvals are recorded in the audit log. */
export type ReserveItem = BudgetSubject &
  Requester & {
    readonly id: ReservationId
    readonly origin: Origin
    readonly amount: bigint
    readonly tokens: number
    readonly ttlSeconds: number
    readonly metadata?: Readonly<Record<string, string>> | undefined
    readonly reason?: string | undefined
  } & (
    | {
        readonly kind: "reserve"
        /** Whether it is held where a cap asks for an approval, or else denied; it is held unless given. */
        readonly mayWait?: boolean
      }
    | {
        readonly kind: "approve" | "override"
        readonly audit: AuditOrigin
        /** Whether an override may raise only the tenant's own caps, and none over all tenants. */
        readonly confined?: boolean | undefined
      }
  )

/** One member for each verdict, so that a switch narrows. */
type Verdict<V extends string> = V extends string ? { readonly verdict: V } : never

export interface Denied {
  readonly insufficient: InsufficientBudget
  readonly available: ReadonlyArray<AvailableBudget>
}

export type ReserveResult =
  | { readonly verdict: "open" | "held"; readonly at: DateTime.Utc; readonly available: ReadonlyArray<AvailableBudget> }
  | { readonly verdict: "approved"; readonly reservation: StoredReservation }
  | (Verdict<"denied" | "no-room"> & Denied)
  | Verdict<"uncovered" | "gone" | "changed" | "plan-missing">
  | { readonly verdict: "plan-inactive"; readonly planStatus: Exclude<PlanStatus, "active"> }
  | { readonly verdict: "replay"; readonly sha256: string; readonly reservation: StoredReservation }

/** A reservation to be settled or released, or to be returned by the call that took it over. */
export interface CloseItem extends Requester {
  readonly kind: "settle" | "release" | "return"
  readonly id: ReservationId
  /** The tenant that it must belong to; null: any tenant. */
  readonly tenantId: TenantId | null
  readonly origin: Origin
  /** Whether it may be another principal's. */
  readonly canActForOthers: boolean
  readonly amount: bigint
  readonly tokens?: number | undefined
  /** The charge of a settlement; of a return, the one that the call would have made. */
  readonly chargeId: ChargeId
  readonly usage?: object | undefined
  readonly metadata?: Readonly<Record<string, string>> | undefined
  readonly call?: CallDetails | undefined
  /** When it was spent, where that is known, and the earliest moment that it may be booked at. */
  readonly happened?: { readonly at: DateTime.Utc; readonly bookedFrom: DateTime.Utc } | undefined
}

/** The rest of a gateway call's usage row; it never contains prompts or completions. */
export interface CallDetails {
  readonly method: string
  readonly operation?: string
  readonly dialect?: string
  readonly modelAsked?: string
  readonly modelServed?: string | undefined
  readonly provider?: string | undefined
  /** An unknown usage is omitted. */
  readonly usage?: CallUsage | undefined
  /** What the charge was made by besides the rates and the tokens of text. */
  readonly priceTerms?: PriceTerms | undefined
  /** The rates as JSON. */
  readonly rates?: string | null
  readonly catalogueVersion?: string
  readonly status?: number | null
  readonly latencyMs?: number
  readonly upstreamLatencyMs?: number
  readonly timeToFirstTokenMs?: number | null
  readonly attempts?: ReadonlyArray<object>
  readonly error?: CallError | undefined
  readonly metadata?: Readonly<Record<string, string>> | undefined
  readonly traceId?: string | undefined
}

/** Why a gateway call failed, in the gateway's own words: a provider's text may repeat the prompt. */
export interface CallError {
  readonly code: string
  readonly message: string
}

/** What decided the price of a gateway call besides its rates and the tokens of text. */
export interface PriceTerms {
  /** What the answer named of its service, where that is not the usual one. */
  readonly tier?: string | undefined
  readonly speed?: string | undefined
  readonly geo?: string | undefined
  /** Whether some of it has no price, so that the dearest known one was charged. */
  readonly isUnpriced?: boolean
  /** Tokens with a price of their own within those of text, by their class. */
  readonly tokens?: Readonly<Record<string, number>>
  /** What was billed by other units than tokens. */
  readonly units?: ReadonlyArray<UnitTerms>
  /** Where the time of a GPU is charged: the time of the call at its provider, and how many calls run on one at once. */
  readonly gpu?: { readonly upstreamMs: number; readonly slots: number }
  /** Whether more was charged than was held for it under a hard cap. */
  readonly hold?: "over"
  /** Of a provider that is to report its cost: whether it did, and the charge is that. */
  readonly cost?: "reported" | "unreported"
  /** The parts of the tokens that other models read and wrote, and what these cost. */
  readonly models?: ReadonlyArray<OtherModelTerms>
}

/** Units of one kind, with their price and what they cost in US dollars. */
export interface UnitTerms {
  readonly unit: string
  readonly quantity: number
  readonly usdPerUnit: number
  readonly costUsd: number
}

/** What another model than the one that was asked for read and wrote, and what that cost in US dollars. */
export interface OtherModelTerms extends CallUsage {
  readonly model: string
  readonly costUsd: number
}

/** The tokens that a gateway call used. */
export interface CallUsage {
  readonly inputTokens: number
  readonly outputTokens: number
  readonly cachedInputTokens: number
  readonly cacheWriteTokens: number
  readonly cacheWrite1hTokens: number
  readonly reasoningTokens: number
  readonly toolUses?: object | undefined
}

/** Releases a reservation that may or may not have been made. */
export const releaseOf = ({
  id,
  origin,
  principal,
  tenantId
}: Pick<ReserveItem, "id" | "origin" | "principal" | "tenantId">): CloseItem => ({
  principal,
  kind: "release",
  id,
  tenantId,
  origin,
  canActForOthers: true,
  amount: 0n,
  chargeId: ChargeId.make(id),
  ...(origin === "gateway" ? { call: { method: "released" } } : {})
})

/** A settled reservation with its charge. */
export interface ClosedReservation {
  readonly reservation: StoredReservation
  readonly charge: StoredEntry
}

export type CloseResult =
  | { readonly verdict: "done" | "same"; readonly closed: ClosedReservation | undefined }
  | { readonly verdict: "replay"; readonly sha256: string; readonly closed: ClosedReservation | undefined }
  | Verdict<"conflict" | "missing" | "foreign" | "managed" | "managed-by-plan" | "unopened" | "full" | "changed">

/** What was spent elsewhere and is charged in full: a reservation that has expired, and its settlement. */
export interface SpentItem {
  readonly reservation: ReserveItem
  readonly settlement: CloseItem
}

/** An event that is taken once; its entry says what it reports. */
export interface ReportedEvent {
  /** SHA-256 of what identifies it in the tenant, in hex. */
  readonly digest: string
  readonly action: AuditAction
  readonly id: string
  readonly after: object
}

/** Events that are taken together: those that report spending, each with what is charged, and others. */
export interface SpendingReport {
  readonly tenantId: TenantId | null
  readonly audit: AuditOrigin
  readonly spent: ReadonlyArray<ReportedEvent & { readonly item: SpentItem }>
  readonly others: ReadonlyArray<ReportedEvent>
}

/** An open reservation whose time is to be extended. */
export interface ExtendItem extends Requester, Pick<CloseItem, "id" | "tenantId" | "origin" | "canActForOthers"> {
  readonly ttlSeconds: number
}

/** A held reservation to be denied by an approver. */
export interface DenyItem extends Requester {
  readonly audit: AuditOrigin
  readonly id: ReservationId
  readonly tenantId: TenantId | null
  readonly reason: string
}

/** A part of a charge to be returned. */
export interface RefundItem extends Requester {
  readonly audit: AuditOrigin
  readonly id: ChargeId
  readonly chargeId: ChargeId
  readonly tenantId: TenantId | null
  readonly amount: bigint
  readonly reason: string
  /** Whether it may be of the requester's own charge. */
  readonly isSystem: boolean
}

/** A reservation made ahead of a gateway call, which the call takes over. */
export interface TransferItem extends BudgetSubject, Pick<Requester, "principal"> {
  readonly id: ReservationId
  /** What the reservation holds, all of which is transferred. */
  readonly reserved: bigint
  /** The most that the call may cost and use. */
  readonly amount: bigint
  readonly tokens: number
  readonly ttlSeconds: number
  /** The charge that the call is to make: the call alone moves or returns the reservation. */
  readonly chargeId: ChargeId
  /** Whether the call has it already, for an earlier attempt at another target. */
  readonly moves: boolean
}

/** What an attempt that was charged leaves of a reservation. */
export interface ReservationRest {
  readonly amount: bigint
  readonly tokens: number
}

export type TransferResult =
  | {
      readonly verdict: "open"
      readonly amount: bigint
      readonly tokens: number
      /** The least that caps in money leave beside it; null where none applies. */
      readonly remainingNanoUsd: bigint | null
    }
  | Extract<ReserveResult, { readonly verdict: "denied" | "plan-inactive" }>
  | { readonly verdict: "managed"; readonly origin: Origin }
  | { readonly verdict: "unopened"; readonly state: ReservationState }
  | { readonly verdict: "too-small"; readonly amount: bigint }
  | Verdict<"missing" | "other-caller" | "other-plan">

/** The keys that items of one batch must not share. */
export const idempotencySlots = ({ principal, repeatable }: Requester): ReadonlyArray<string> =>
  repeatable === undefined ? [] : [`${principal}\n${repeatable.route}\n${repeatable.key}`]

/** The columns of a row by which a repetition of its request is found, and the version that the request requires. */
export const slotColumns = ({ principal, repeatable, seen }: Requester) =>
  repeatable === undefined
    ? { principal, seen }
    : { principal, seen, route: repeatable.route, key: repeatable.key, request_sha256: repeatable.requestSha256 }

/** An audit entry as the functions of the ledger take it; `place` is that of its request in the batch. */
export const auditEntryOf = (place: number, action: AuditAction, id: string, audit: AuditOrigin, after: object) => ({
  place,
  action_type: action.actionType,
  entity_type: action.entityType,
  entity_id: id,
  user_id: audit.user_id,
  actor_type: audit.actor_type,
  ip_address: audit.ip_address,
  user_agent: audit.user_agent,
  trace_id: audit.trace_id,
  changes: { before: null, after }
})

/** Applicable caps as the functions that take one request read them, with the revisions of the caps they were found in. */
export const capsOfRequest = (caps: ReadonlyArray<ApplicableCap>, revisions: CapsRevisions) => ({
  books: Array.from(revisions, ([tenant, revision]) => ({ tenant, version: Number(revision) })),
  counters: caps.map(({ cap, counterKey }, index) => ({
    place: index + 1,
    tenant: cap.tenantId,
    cap: cap.id,
    key: counterKey
  }))
})

/** The revision of each tenant's caps that a decision is based on; the ledger refuses to decide by an old one. */
export type CapsRevisions = Iterable<readonly [TenantId, bigint]>
