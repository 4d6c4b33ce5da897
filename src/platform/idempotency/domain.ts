import { Context, Schema } from "effect"
import { Problem } from "../../kernel/problem.ts"

/** 1 to 255 printable ASCII characters. */
export const IdempotencyKey = Schema.String.pipe(
  Schema.check(Schema.isPattern(/^[\x20-\x7e]{1,255}$/u, { expected: "1 to 255 printable ASCII characters" }))
)

/** What was answered to a POST under a key: enough to answer the same again. */
export interface KeptAnswer {
  readonly requestSha256: Uint8Array
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

export class IdempotencyKeyInvalid extends Problem<IdempotencyKeyInvalid>()("IdempotencyKeyInvalid", {
  slug: "idempotency-key-invalid",
  status: 400,
  meaning: "Idempotency-Key must be 1 to 255 printable ASCII characters."
}) {}

export class IdempotencyKeyReused extends Problem<IdempotencyKeyReused>()("IdempotencyKeyReused", {
  slug: "idempotency-key-reused",
  status: 422,
  meaning: "This Idempotency-Key was used for another request: with another body, or about another resource."
}) {}

export class IdempotencyInProgress extends Problem<IdempotencyInProgress>()("IdempotencyInProgress", {
  slug: "idempotency-in-progress",
  status: 409,
  meaning: "A request with this Idempotency-Key is still being served."
}) {}

/** Members of an endpoint's answer that are shown once: masked when the answer is kept for replay. */
export const OneTimeSecrets = Context.Reference<ReadonlyArray<string>>("app/idempotency/OneTimeSecrets", {
  defaultValue: () => []
})

/** An endpoint whose service keeps the key with its change by itself, without a transaction around it. */
export const KeepsItsKey = Context.Reference<boolean>("app/idempotency/KeepsItsKey", { defaultValue: () => false })

/** A request that may come again, for a service that keeps its key by itself. */
export interface RepeatableRequest {
  readonly route: string
  readonly key: string
  /** Fingerprint of the body, in hex. */
  readonly requestSha256: string
  /** Says of the answer that it was given before. */
  readonly markReplayed: () => void
}

/** The request in hand, where it has a key and its endpoint says {@link KeepsItsKey}. */
export const CurrentRepeatable = Context.Reference<RepeatableRequest | undefined>("app/idempotency/CurrentRepeatable", {
  defaultValue: () => undefined
})
