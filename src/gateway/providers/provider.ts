import { type Array, type Effect, Data, type Pull, type Scope } from "effect"
import { type Dialect } from "../translation/domain.ts"
import { type DialectError } from "../translation/errors.ts"

/** What is asked of a provider, by the name that it has in both dialects. */
export type Operation = "chat" | "embed" | "count-tokens"

/** A request as it leaves: its body is JSON in the provider's dialect. */
export interface ProviderRequest {
  readonly operation: Operation
  readonly body: string | Uint8Array
  /** Headers of the caller that a provider may see. */
  readonly headers: Readonly<Record<string, string>>
  /** When, in milliseconds since 1970, the whole answer must be there. */
  readonly deadline?: number | undefined
}

/** The bytes of an answer as they come; they end, or break off. */
export type Bytes = Pull.Pull<Array.NonEmptyReadonlyArray<Uint8Array>, ProviderFailure>

/** A provider's answer whose status is a success. */
export interface ProviderAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Whole, or as they come where the provider streams Server-Sent Events; the first ones are there already. */
  readonly body: Uint8Array | { readonly first: ReadonlyArray<Uint8Array>; readonly rest: Bytes }
}

/** The code of a failure that is the gateway's own with its provider: its key is refused, or its account is not paid for. */
export const providerCredentials = "provider-credentials"

/**
 * Why a provider gave no answer. `sent` says that the request may have reached the model and cost something, which nobody
 * will ever know.
 */
export class ProviderFailure extends Data.TaggedError("ProviderFailure")<{
  readonly reason: "connection" | "timeout" | "broken-off" | "status" | "breaker-open" | "busy"
  readonly sent: boolean
  readonly error: DialectError
  /** The status that the provider answered with, which `error` may not show to callers. */
  readonly received?: number | undefined
  readonly retryAfterSeconds?: number | undefined
  /** What the provider's answer had, where there was one. */
  readonly headers?: ProviderAnswer["headers"] | undefined
}> {
  /** What spans and logs see: a provider's own words may repeat what was said. */
  override get message() {
    return `${this.reason}: ${this.received ?? this.error.status}`
  }
}

/** Where requests go: a vendor's service, or what stands in for one within this process. */
export interface Provider {
  readonly id: string
  readonly dialect: Dialect
  /** Sends a request; the scope's end gives up what is not read yet. */
  send(request: ProviderRequest): Effect.Effect<ProviderAnswer, ProviderFailure, Scope.Scope>
  /** Asks for the list of models, which costs nothing. */
  listModels: Effect.Effect<ReadonlyArray<ProviderModel>, ProviderFailure>
}

/** A model as its provider lists it. */
export interface ProviderModel {
  readonly id: string
  readonly ownedBy: string | null
  readonly createdAt: Date | null
}
