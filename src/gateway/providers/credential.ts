import { type Effect } from "effect"
import { type ProviderAnswer, providerCredentials, type ProviderFailure } from "./provider.ts"
import { bad, failure } from "./transport-failures.ts"

/** A request as it leaves, which a credential authorizes: a signature covers all of it. */
export interface LeavingRequest {
  readonly method: string
  readonly url: URL
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
}

/** The state of a credential, as this replica knows it; times in milliseconds since 1970. */
export interface CredentialState {
  /** When the last one was obtained; undefined before the first. */
  readonly obtainedAt: number | undefined
  /** When it ends; undefined without one. */
  readonly expiresAt: number | undefined
  /** Attempts in a row that failed since. */
  readonly failures: number
  /** Why the last one failed, in words for operators without anything secret. */
  readonly lastError: string | undefined
}

/** The state of a credential that was never needed. */
export const unusedCredential: CredentialState = {
  obtainedAt: undefined,
  expiresAt: undefined,
  failures: 0,
  lastError: undefined
}

/** What authorizes requests to a provider, and changes while the provider is connected. */
export interface Credential {
  /** Whether it covers the body, which then has to be whole before it leaves. */
  readonly signs?: true
  /** The headers that the request gets. */
  authorize(request: LeavingRequest): Effect.Effect<Readonly<Record<string, string>>, ProviderFailure>
  /**
   * Whether a request that was refused may be sent again with another credential: the one that it was sent with, by its
   * headers, is given up if the refusal is about it.
   */
  refused(answer: ProviderAnswer, sent: Readonly<Record<string, string>>): Effect.Effect<boolean>
  /** What errors of the provider may not repeat. */
  readonly secrets: () => ReadonlyArray<string>
  readonly state: () => CredentialState
}

/** What callers get in the place of an answer: why there is no credential concerns operators alone. */
export const noCredential = failure(
  "status",
  bad(502, "The gateway has no valid credential for the provider.", providerCredentials),
  false
)
