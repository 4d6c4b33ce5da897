import { Schema } from "effect"
import { ChargeId, ReservationId, Sum } from "../../budgets/ledger/domain.ts"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { InstantFromDate } from "../../kernel/instant.ts"
import { Dialect } from "../formats/domain.ts"

/** The tier that requests of batches are served and priced at. */
export const batchTier = "batch"

/** Which kinds of caps a bound was made for. */
export const BoundKinds = Schema.Struct({
  byMoney: Schema.Boolean,
  byHard: Schema.Boolean,
  byHardMoney: Schema.Boolean,
  byHardTokens: Schema.Boolean
})
export type BoundKinds = typeof BoundKinds.Type
export const boundKinds = ["byMoney", "byHard", "byHardMoney", "byHardTokens"] as const

/** What the requests of one model may cost together at most. */
const ModelTerms = {
  model: Schema.String,
  /** As the first of its requests names it. */
  asked: Schema.String,
  /** The provider's name of it. */
  target: Schema.String,
  requests: Schema.Int,
  amountNanoUsd: Sum,
  tokens: Schema.Int,
  /** The prices that it is held and charged at; null where they are not known. */
  rates: Schema.NullOr(Schema.String)
}

/** An input of batches: what its requests may cost, per model. */
export const InputTerms = Schema.Struct({
  /** The path that its requests name. */
  url: Schema.String,
  catalogueVersion: Schema.String,
  models: Schema.Array(Schema.Struct({ ...ModelTerms, kinds: BoundKinds }))
})
export type InputTerms = typeof InputTerms.Type

/** The same of a batch, each with the reservation that holds it. */
export const BatchPart = Schema.Struct({ ...ModelTerms, reservationId: ReservationId, chargeId: ChargeId })
export type BatchPart = typeof BatchPart.Type
export const BatchTerms = Schema.Struct({
  url: Schema.String,
  catalogueVersion: Schema.String,
  traceId: Schema.NullOr(Schema.String),
  parts: Schema.Array(BatchPart)
})
export type BatchTerms = typeof BatchTerms.Type

/** A provider's own description of a thing that it keeps. */
export const ProviderAnswerJson = Schema.Record(Schema.String, Schema.Unknown)

/** A file that a caller uploaded to a provider; of one with the requests of batches, also what these may cost. */
export const KeptFile = Schema.Struct({
  tenantId: TenantId,
  id: Uuid,
  createdBy: Schema.String,
  dialect: Dialect,
  provider: Schema.String,
  providerId: Schema.String,
  /** Empty where the API has none. */
  purpose: Schema.String,
  answer: ProviderAnswerJson,
  terms: Schema.NullOr(InputTerms),
  places: Schema.NullOr(Schema.Uint8Array),
  createdAt: InstantFromDate,
  /** When the provider removes it by itself; null if it stays until it is deleted. */
  expiresAt: Schema.NullOr(InstantFromDate)
})
export type KeptFile = typeof KeptFile.Type

export const BatchState = Schema.Literals(["holding", "submitting", "running", "settled", "released"])
export type BatchState = typeof BatchState.Type

/** A batch as it is stored. */
export const StoredBatch = Schema.Struct({
  tenantId: TenantId,
  id: Uuid,
  createdBy: Schema.String,
  dialect: Dialect,
  provider: Schema.String,
  providerId: Schema.NullOr(Schema.String),
  state: BatchState,
  terms: BatchTerms,
  places: Schema.NullOr(Schema.Uint8Array),
  answer: Schema.NullOr(ProviderAnswerJson),
  createdAt: InstantFromDate,
  heldUntil: InstantFromDate,
  failures: Schema.Int
})
export type StoredBatch = typeof StoredBatch.Type

export const fileActions = auditActions("GatewayFile", ["GatewayFileDeleted"])
export const batchActions = auditActions("GatewayBatch", ["GatewayBatchDeleted"])
