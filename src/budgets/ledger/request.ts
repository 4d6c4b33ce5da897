import { type DateTime } from "effect"
import { type AuditOrigin } from "../../audit/log/domain.ts"
import { type RepeatableRequest } from "../../platform/idempotency/domain.ts"
import { type AuditAction } from "../../kernel/audit-action.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { type Dimensions, type ApplicableCap } from "./cap-index.ts"
import { type CallPlan } from "./plan-repository.ts"
import { type ChargeId, type Origin, type PlanStatus, type ReservationId } from "./domain.ts"
import { type StoredEntry, type StoredReservation } from "./repository.ts"

/** Who asks, as the row says it. */
export interface Requester {
  readonly principal: string
  /** The key under which the request may come again. */
  readonly repeatable?: RepeatableRequest | undefined
}

/** One reservation to be admitted, or one that is held to be approved: that somebody let it in is an audit entry. */
export type ReserveItem = Reserving &
  (
    | { readonly kind: "reserve" }
    | {
        readonly kind: "approve" | "override"
        readonly audit: AuditOrigin
        /** Whether an override raises the tenant's own caps alone, and none over all tenants. */
        readonly confined?: boolean | undefined
      }
  )

interface Reserving extends Requester {
  readonly id: ReservationId
  readonly tenantId: TenantId
  readonly origin: Origin
  readonly dimensions: Dimensions
  /** The plan that it draws on. */
  readonly plan?: Pick<CallPlan, "id" | "name"> | undefined
  readonly amount: bigint
  readonly tokens: number
  readonly ttlSeconds: number
  readonly metadata?: Readonly<Record<string, string>> | undefined
  readonly reason?: string | undefined
}

/** A governing cap with what it has left. */
export interface AvailableBudget extends ApplicableCap {
  readonly headroom: bigint
  readonly resetsAt: number | null
}

/** Why a cap lets nothing more in: the first that has no room. */
export interface InsufficientBudget {
  readonly budget: AvailableBudget
  readonly limit: bigint
  readonly spent: bigint
  readonly reserved: bigint
}

/** What became of a reservation that was asked for. */
export type ReserveResult =
  | { readonly verdict: "open" | "held"; readonly at: DateTime.Utc; readonly available: ReadonlyArray<AvailableBudget> }
  | { readonly verdict: "approved"; readonly reservation: StoredReservation }
  | {
      readonly verdict: "denied" | "no-room"
      readonly insufficient: InsufficientBudget
      readonly available: ReadonlyArray<AvailableBudget>
    }
  | { readonly verdict: "uncovered" }
  | { readonly verdict: "gone" }
  | { readonly verdict: "plan-missing" }
  | { readonly verdict: "plan-inactive"; readonly planStatus: Exclude<PlanStatus, "active"> }
  | { readonly verdict: "replay"; readonly sha256: string; readonly reservation: StoredReservation }

/** One reservation to be settled or released. */
export interface CloseItem extends Requester {
  readonly kind: "settle" | "release"
  readonly id: ReservationId
  /** Whose reservation it may be; null: any tenant's. */
  readonly tenantId: TenantId | null
  readonly origin: Origin
  /** Whether it may be another principal's. */
  readonly unrestricted: boolean
  readonly amount: bigint
  readonly tokens?: number | undefined
  readonly chargeId: ChargeId
  readonly usage?: object | undefined
  readonly metadata?: Readonly<Record<string, string>> | undefined
  /** What the row of a call of the gateway says of it. */
  readonly call?: { readonly [name: string]: unknown } | undefined
}

export type CloseResult =
  | {
      readonly verdict: "done" | "same"
      readonly closed: { readonly reservation: StoredReservation; readonly charge: StoredEntry } | undefined
    }
  | {
      readonly verdict: "replay"
      readonly sha256: string
      readonly closed: { readonly reservation: StoredReservation; readonly charge: StoredEntry } | undefined
    }
  /** `full`: a counter can hold no more. */
  | { readonly verdict: "conflict" | "missing" | "foreign" | "managed" | "managed-by-plan" | "unopened" | "full" }

/** An open reservation to live longer. */
export interface ExtendItem extends Pick<CloseItem, "principal" | "id" | "tenantId" | "origin" | "unrestricted"> {
  readonly ttlSeconds: number
}

/** A held reservation that is refused. */
export interface DenyItem extends Requester {
  readonly audit: AuditOrigin
  readonly id: ReservationId
  readonly tenantId: TenantId | null
  readonly reason: string
}

/** What comes back of a charge. */
export interface RefundItem extends Requester {
  readonly audit: AuditOrigin
  readonly id: ChargeId
  readonly chargeId: ChargeId
  readonly tenantId: TenantId | null
  readonly amount: bigint
  readonly reason: string
  /** Whether it may be of a charge of one's own. */
  readonly isSystem: boolean
}

/** An entry of the audit log as the statements take it. */
export const entryOf = (place: number, action: AuditAction, id: string, audit: AuditOrigin, after: object) => ({
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

/** The members of a row by which a repetition is found. */
export const slotOf = ({ principal, repeatable }: Requester) =>
  repeatable === undefined
    ? { principal }
    : { principal, route: repeatable.route, key: repeatable.key, request_sha256: repeatable.requestSha256 }

/** What items of one batch may not have in common. */
export const slotKeys = ({ principal, repeatable }: Requester): ReadonlyArray<string> =>
  repeatable === undefined ? [] : [`${principal}\n${repeatable.route}\n${repeatable.key}`]
