import { type Array, type Effect, Data, type Pull, type Scope } from "effect"
import { type OpenedSocket } from "../../platform/outbound/web-socket-client.ts"
import { type TokenUsage } from "../formats/domain.ts"
import { type DialectError } from "../formats/errors.ts"
import { type ProviderModel, type WireFormat } from "../formats/format.ts"
import { type SentForm } from "../formats/forms/form.ts"

/** A request to a provider; its body is JSON in the format, and is sent as the form where there is one. */
export interface ProviderRequest {
  readonly format: WireFormat
  /** The provider's name of the model. */
  readonly model: string
  readonly streams: boolean
  readonly body: string | Uint8Array
  readonly form?: SentForm | undefined
  /** Headers of the caller that are forwarded to the provider. */
  readonly headers: Readonly<Record<string, string>>
  /** When the complete response must have arrived, in milliseconds since 1970. */
  readonly deadline?: number | undefined
  /** The connection that it goes out on; the provider's own ones unless given. */
  readonly via?: Sender | undefined
}

/** A provider, or a connection to one that takes its requests. */
export type Sender = Pick<Provider, "send">

/** A request about a response that its provider stores. */
export interface StoredRequest {
  readonly method: "GET" | "POST" | "DELETE"
  /** Below the path of the Responses API. */
  readonly path: string
}

/** A request about files or batches that a provider keeps. */
export interface KeptRequest {
  readonly method: "GET" | "POST" | "DELETE"
  /** Below the base URL, which ends as the vendor's SDK has it. */
  readonly path: string
  readonly headers?: Readonly<Record<string, string>> | undefined
  readonly body?: string | Uint8Array | AsyncIterable<Uint8Array>
  /** Whether the answer is read as it arrives. */
  readonly streams?: boolean
}

/** The bytes of a streamed response; the stream ends or fails. */
export type Bytes = Pull.Pull<Array.NonEmptyReadonlyArray<Uint8Array>, ProviderFailure>

/** A provider's answer whose status is a success. */
export interface ProviderAnswer {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  /** Complete, or a stream of Server-Sent Events (a platform may have others), or of other bytes, whose first bytes have arrived. */
  readonly body: Uint8Array | { readonly first: ReadonlyArray<Uint8Array>; readonly rest: Bytes }
  /** The JSON of a complete body, where it was parsed already. */
  readonly value?: unknown
}

/** The code of a failure between the gateway and its provider: the key is rejected, or the account is not paid for. */
export const providerCredentials = "provider-credentials"

/** The code of a failure where a provider's platform does not serve a format. */
export const unsupportedApi = "unsupported-api"

/**
 * Why a provider gave no response. `sent` means that the request may have reached the model and incurred an unknown cost.
 */
export class ProviderFailure extends Data.TaggedError("ProviderFailure")<{
  readonly reason: "connection" | "timeout" | "broken-off" | "status" | "breaker-open" | "busy"
  readonly sent: boolean
  readonly error: DialectError
  /** The status of the provider's response, which `error` may hide from callers. */
  readonly received?: number | undefined
  readonly retryAfterSeconds?: number | undefined
  /** What the provider reports that the failed attempt used. */
  readonly usage?: TokenUsage | undefined
  /** The headers of the provider's response, if there was one. */
  readonly headers?: ProviderAnswer["headers"] | undefined
}> {
  /** Whether the message is the gateway's: what a provider answers with an error has its own. */
  get isOwn(): boolean {
    return this.reason !== "status" || this.error.code === providerCredentials
  }

  /** The message for spans and logs; the provider's own message may repeat the prompt. */
  override get message() {
    return `${this.reason}: ${this.received ?? this.error.status}`
  }
}

/** The destination of requests: a vendor's service, or a substitute within this process. */
export interface Provider {
  readonly id: string
  /** Sends a request; closing the scope cancels the rest of the response. */
  send(request: ProviderRequest): Effect.Effect<ProviderAnswer, ProviderFailure, Scope.Scope>
  /** Reads or changes a response that the provider stores, which is free; undefined where it stores none. */
  readonly stored?: (request: StoredRequest) => Effect.Effect<ProviderAnswer, ProviderFailure, Scope.Scope>
  /** A request about what the provider keeps; undefined within this process. */
  readonly kept?: (request: KeptRequest) => Effect.Effect<ProviderAnswer, ProviderFailure, Scope.Scope>
  /** Opens a WebSocket for a model, within the scope; undefined where the provider has none. */
  readonly open?: (format: WireFormat, model: string) => Effect.Effect<OpenedSocket, ProviderFailure, Scope.Scope>
  /** Requests the list of models, which is free. */
  listModels: Effect.Effect<ReadonlyArray<ProviderModel>, ProviderFailure>
}
