import { Effect } from "effect"
import { type HttpServerRequest } from "effect/http"
import { type Fault } from "../../kernel/problem.ts"
import { isJson, parsedJson } from "../../kernel/parsed-json.ts"
import { MalformedJson, PayloadTooLarge } from "../../kernel/problems.ts"
import { headersOf } from "../../platform/http/request.ts"
import { bytesOf, declaresMoreThan } from "../../platform/http/request-body.ts"
import { type GatewayCaller } from "../authentication/gateway-authentication.ts"
import { ProviderRefused } from "../configuration/domain.ts"
import { gatewayError, type GatewayError, invalidMembers } from "../errors/gateway-error.ts"
import { foldedName, repeatedMember } from "../../kernel/json-scanner.ts"
import { type Operation } from "../providers/provider.ts"
import { type Dialect } from "../translation/domain.ts"
import { type DialectError } from "../translation/errors.ts"
import { isUtf8 } from "node:buffer"

type Json = Readonly<Record<string, unknown>>

/** A request body in the dialect of its caller. */
export interface DialectRequest {
  readonly dialect: Dialect
  readonly operation: Operation
  readonly body: Json
  /** The bytes that the body was parsed from, which are sent if nothing has to change. */
  readonly bytes: Uint8Array
}

/** The Idempotency-Key of a call, and the route that it belongs to. */
export interface CallKey {
  readonly route: string
  readonly key: string
}

/** A call of the gateway, on any of its paths. */
export interface Call extends DialectRequest {
  readonly caller: GatewayCaller
  /** Headers that are forwarded to the provider. */
  readonly headers: Readonly<Record<string, string>>
  /** Labels of the caller, stored with the charge. */
  readonly metadata?: Readonly<Record<string, string>> | undefined
  /** Models to try in turn when every target of the first one fails. */
  readonly fallbacks?: ReadonlyArray<string>
  /** Whether to use the response cache; by default the model's configuration decides. */
  readonly cache?: boolean | undefined
  readonly idempotency?: CallKey | undefined
  /** Writes an error into a stream that has begun, in the dialect of the caller. */
  writeError(error: DialectError): string
}

const tooLarge = gatewayError(new PayloadTooLarge({ detail: "The body is larger than the gateway takes." }))
const notJson = gatewayError(new MalformedJson({ detail: "The body is no JSON object." }))

const decoder = new TextDecoder()

/** The body of a request: a JSON object in UTF-8, in which no object names a member twice. */
export const parseRequest = (
  request: HttpServerRequest.HttpServerRequest,
  maxBytes: number
): Effect.Effect<Pick<DialectRequest, "body" | "bytes">, GatewayError<MalformedJson | PayloadTooLarge>> => {
  if (declaresMoreThan(headersOf(request), maxBytes)) return Effect.fail(tooLarge)
  return Effect.matchEffect(bytesOf(request, maxBytes), {
    onFailure: () => Effect.fail(tooLarge),
    onSuccess: (bytes) => {
      const body = isUtf8(bytes) ? parsedJson(decoder.decode(bytes)) : undefined
      if (!isJson(body)) return Effect.fail(notJson)
      const repeated = repeatedMember(bytes)
      if (repeated === undefined) return Effect.succeed({ body, bytes })
      const message = `${repeated}: The member is there twice`
      return Effect.fail(gatewayError(new MalformedJson({ detail: message }), { param: repeated }))
    }
  })
}

const isLimit = (value: unknown, least: number, most: number): boolean =>
  value === undefined || value === null || (Number.isInteger(value) && Number(value) >= least && Number(value) <= most)

/** Above the output of any model, and small enough for the ledger to store the cost. */
const maxOutputTokens = 2_147_483_647
const maxChoices = 1024

/** Metered members, by their folded names. */
const metered = new Set(
  ["messages", "model", "input", "max_tokens", "max_completion_tokens", "n", "prediction", "stream", "tools"].concat([
    "service_tier",
    "modalities",
    "audio",
    "web_search_options",
    "search_parameters",
    "models",
    "plugins",
    "context_management"
  ])
)

/** The errors of a request that is invalid in its own dialect, limited to the members that metering reads. */
export const validateRequest = ({ body, dialect, operation }: DialectRequest): GatewayError | undefined => {
  const faults: Array<Fault> = []
  const expect = (member: string, isGood: boolean, expected: string) => {
    if (!isGood) faults.push({ path: [member], message: `Expected ${expected}` })
  }
  const expectLimit = (member: string, least: number, most: number) => {
    if (!isLimit(body[member], least, most)) expect(member, false, `a whole number from ${least} to ${most}`)
  }
  for (const name in body) {
    const small = foldedName(name)
    if (small !== name && metered.has(small)) expect(name, false, `${small}, in small letters`)
  }
  if (operation === "embed") {
    const { input } = body
    expect("input", typeof input === "string" || (Array.isArray(input) && input.length > 0), "text, or a list of texts")
    if (Array.isArray(input)) expect("input", input.length <= maxInputs, `at most ${maxInputs} inputs`)
  } else {
    const { messages } = body
    expect("messages", Array.isArray(messages) && messages.length > 0, "a list of messages")
    if (Array.isArray(messages)) {
      messages.forEach((message: unknown, index) => {
        const isMessage = isJson(message) && typeof message.role === "string"
        if (!isMessage) faults.push({ path: ["messages", index, "role"], message: "Expected a message with a role" })
      })
    }
    // A request for zero output tokens is valid for Anthropic: it fills the prompt cache.
    const least = dialect === "anthropic" ? 0 : 1
    expectLimit("max_tokens", least, maxOutputTokens)
    expectLimit("max_completion_tokens", least, maxOutputTokens)
    expectLimit("n", 1, maxChoices)
    expect("stream", body.stream === undefined || body.stream === null || typeof body.stream === "boolean", "a boolean")
    if (dialect === "anthropic" && operation === "chat") {
      expect("max_tokens", typeof body.max_tokens === "number", "the output limit")
    }
  }
  if (faults.length > 0) return invalidMembers(faults)
  return dialect === "anthropic" && (body.thread ?? null) !== null ? noThreads : undefined
}

/**
 * A conversation that a provider stores has no upper bound for admission, and is unknown to every other provider. The SDK's
 * tool runner requests one by default, and continues without it after this error.
 */
const noThreads = gatewayError(
  new ProviderRefused({ detail: "thread: The gateway holds no conversations; send all messages." }),
  {
    code: "thread_unsupported_request",
    param: "thread",
    details: { error_code: "thread_unsupported_request", unsupported: ["thread"] }
  }
)

const maxInputs = 2048
