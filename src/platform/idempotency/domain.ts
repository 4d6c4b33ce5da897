import { Effect, Context } from "effect"
import { Problem } from "../../kernel/problems/problem.ts"

/** Whether a text may be an Idempotency-Key: 1 to 255 printable ASCII characters. */
export const isIdempotencyKey = (text: string): boolean => /^[\x20-\x7e]{1,255}$/.test(text)

/** How long the answer to a request under a key is kept. */
export const keyRetention = { hours: 24 } as const

/** The stored response to a POST under a key, for replay. */
export interface StoredResponse {
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
  meaning: "This Idempotency-Key was used for a request with another body or path."
}) {}

export class IdempotencyInProgress extends Problem<IdempotencyInProgress>()("IdempotencyInProgress", {
  slug: "idempotency-in-progress",
  status: 409,
  meaning: "A request with this Idempotency-Key is still in progress."
}) {}

/** Members of a response that are shown once: masked when the response is stored for replay. */
export const OneTimeSecrets = Context.Reference<ReadonlyArray<string>>("app/platform/OneTimeSecrets", {
  defaultValue: () => []
})

/** An endpoint whose service stores the key with its change itself, without a transaction around it. */
export const HandlesIdempotency = Context.Reference<boolean>("app/platform/HandlesIdempotency", {
  defaultValue: () => false
})

/** A request that may be repeated, for a service that handles its key itself. */
export interface RepeatableRequest {
  readonly route: string
  readonly key: string
  /** Fingerprint of the body, in hex. */
  readonly requestSha256: string
  /** Marks the response as a replay. */
  readonly markReplayed: () => void
}

/** The current request, where it has a key and its endpoint declares {@link HandlesIdempotency}. */
export const CurrentRepeatable = Context.Reference<RepeatableRequest | undefined>("app/platform/CurrentRepeatable", {
  defaultValue: () => undefined
})

/** Marks a repeated request as a replay; fails when its key was used for another request. */
export const checkReplay = (sha256: string | undefined): Effect.Effect<void, IdempotencyKeyReused> =>
  Effect.flatMap(CurrentRepeatable, (repeatable) => {
    if (repeatable === undefined || repeatable.requestSha256 !== sha256)
      return Effect.fail(new IdempotencyKeyReused({}))
    repeatable.markReplayed()
    return Effect.void
  })

/** A key of a caller at a route. */
export interface CallKeySlot {
  readonly principal: string
  readonly route: string
  readonly key: string
}

/** A slot with the id of the claim on it, which a call makes up before it claims the slot. */
export interface CallKeyClaim extends CallKeySlot {
  readonly claim: string
}
