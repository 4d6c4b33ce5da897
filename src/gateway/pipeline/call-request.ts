import { Effect } from "effect"
import { type HttpServerRequest } from "effect/http"
import { type Fault } from "../../kernel/problems/problem.ts"
import { isJson, listIn, parsedJson, type Json } from "../../kernel/json/parsed-json.ts"
import { MalformedJson, PayloadTooLarge, UnsupportedMediaType } from "../../kernel/problems/problems.ts"
import { headersOf } from "../../platform/http/request.ts"
import { bytesOf, declaresMoreThan, encoded, exceeds, isEncoded, repeats } from "../../platform/http/request-body.ts"
import { type GatewayCaller } from "../authentication/gateway-authentication.ts"
import { ProviderRefused } from "../configuration/domain.ts"
import { betaMembers, withBetas } from "../catalog/betas.ts"
import { gatewayError, type GatewayError, invalidMember, invalidMembers } from "../errors/gateway-error.ts"
import { excessIn, foldedName, repeatedMember } from "../../kernel/json/json-scanner.ts"
import { edited, mergePatch } from "../json/json-edits.ts"
import { type Operation } from "../providers/provider.ts"
import { type Dialect, maxMessages } from "../translation/domain.ts"
import { type DialectError } from "../translation/errors.ts"
import { isUtf8 } from "node:buffer"

/** A request body in the dialect of its caller. */
export interface DialectRequest {
  readonly dialect: Dialect
  readonly operation: Operation
  readonly body: Json
  /** The bytes that the body was parsed from, which are sent if nothing has to change. */
  readonly bytes: Uint8Array
  /** Whether messages and the answer carry signed thoughts, which providers of OpenAI's dialect do not take. */
  readonly keepsThoughts?: boolean | undefined
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
  /** The one provider that may be called, because it stores what the request refers to. */
  readonly onlyProvider?: string | undefined
  /** The ids that a caller gets in the place of a provider's. */
  readonly idsFor?: ((provider: string) => (id: string) => string) | undefined
  readonly idempotency?: CallKey | undefined
  /** Writes an error into a stream that has begun, in the dialect of the caller. */
  writeError(error: DialectError): string
}

const tooLarge = gatewayError(new PayloadTooLarge({ detail: "The body is larger than the gateway takes." }))
const notJson = gatewayError(new MalformedJson({ detail: "The body is no JSON object." }))

const notPlain = gatewayError(new UnsupportedMediaType({ detail: encoded }))

const decoder = new TextDecoder()
const byteOrderMark = new Uint8Array([0xef, 0xbb, 0xbf])

/** A text without the mark that RFC 8259 §8.1 lets a parser ignore; what edits bytes would read it as a part of them. */
const withoutMark = (bytes: Uint8Array): Uint8Array =>
  bytes[0] === 0xef && byteOrderMark.every((byte, index) => bytes[index] === byte) ? bytes.subarray(3) : bytes

/**
 * The body of a request: a JSON object in UTF-8, in which no object names a member twice, and which is not nested too deep.
 */
export const parseRequest = (
  request: HttpServerRequest.HttpServerRequest,
  maxBytes: number
): Effect.Effect<
  Pick<DialectRequest, "body" | "bytes">,
  GatewayError<MalformedJson | PayloadTooLarge | UnsupportedMediaType>
> => {
  const headers = headersOf(request)
  if (isEncoded(headers)) return Effect.fail(notPlain)
  if (declaresMoreThan(headers, maxBytes)) return Effect.fail(tooLarge)
  return Effect.matchEffect(bytesOf(request, maxBytes), {
    onFailure: () => Effect.fail(tooLarge),
    onSuccess: (received) => {
      const bytes = withoutMark(received)
      const excess = excessIn(bytes)
      if (excess !== undefined) return Effect.fail(gatewayError(new MalformedJson({ detail: exceeds(excess) })))
      const body = isUtf8(bytes) ? parsedJson(decoder.decode(bytes)) : undefined
      if (!isJson(body)) return Effect.fail(notJson)
      const repeated = repeatedMember(bytes)
      if (repeated === undefined) return Effect.succeed({ body, bytes })
      return Effect.fail(gatewayError(new MalformedJson({ detail: repeats(repeated) }), { param: repeated }))
    }
  })
}

/** The header that a member of a request with betas belongs into. */
const betaHeader = (member: string, dialect: Dialect): string =>
  member === "betas" && dialect === "openai" ? "openai-beta" : "anthropic-beta"

const maxBetas = 100
const isBeta = (beta: unknown): boolean => typeof beta === "string" && /^[\x21-\x7e]{0,100}$/.test(beta)

/** A request whose betas are in its headers alone, where all of them are read. */
export const withoutBetaMembers = <R extends Pick<Call, "body" | "bytes" | "dialect" | "headers">>(
  request: R
): R | GatewayError => {
  const { body, bytes, dialect } = request
  const given = betaMembers.filter((name) => Object.hasOwn(body, name))
  if (given.length === 0) return request
  let { headers } = request
  for (const name of given) {
    const betas = body[name] ?? []
    const isList = Array.isArray(betas) && betas.length <= maxBetas && betas.every(isBeta)
    if (!isList) return invalidMember(name, `${name}: Expected a list of up to ${maxBetas} betas`)
    headers = withBetas(headers, betaHeader(name, dialect), betas)
  }
  const without = Object.fromEntries(given.map((name) => [name, null]))
  const rest = Object.fromEntries(Object.entries(body).filter(([name]) => !given.includes(name)))
  return { ...request, body: rest, bytes: edited(bytes, mergePatch(bytes, body, without)), headers }
}

const isLimit = (value: unknown, least: number, most: number): boolean =>
  value === undefined || value === null || (Number.isInteger(value) && Number(value) >= least && Number(value) <= most)

/** Above the output of any model, and small enough for the ledger to store the cost. */
const maxOutputTokens = 2_147_483_647
const maxChoices = 1024
/** How many faults of a request are looked for; a list may have a million. */
const maxFaults = 5000

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
    "context_management",
    "max_output_tokens",
    "previous_response_id",
    "background",
    "conversation",
    "instructions",
    "prompt",
    "best_of",
    ...betaMembers
  ])
)

type Expect = (member: string, isGood: boolean, expected: string) => void

const isSwitch = (value: unknown): boolean => value === undefined || value === null || typeof value === "boolean"

const isTooLong = (list: unknown): boolean => Array.isArray(list) && list.length > maxMessages

/** The members of a chat completion, or of a message. */
const expectMessages = ({ body, dialect, operation }: DialectRequest, expect: Expect, faults: Array<Fault>): void => {
  const { messages } = body
  expect("messages", Array.isArray(messages) && messages.length > 0, "a list of messages")
  if (isTooLong(messages)) return expect("messages", false, `at most ${maxMessages} messages`)
  for (const [index, message] of listIn(messages).entries()) {
    if (isJson(message) && typeof message.role === "string") continue
    faults.push({ path: ["messages", index, "role"], message: "Expected a message with a role" })
    if (faults.length > maxFaults) break
  }
  const expectLimit = (member: string, least: number, most: number) => {
    if (!isLimit(body[member], least, most)) expect(member, false, `a whole number from ${least} to ${most}`)
  }
  // A request for zero output tokens is valid for Anthropic: it fills the prompt cache.
  const least = dialect === "anthropic" ? 0 : 1
  expectLimit("max_tokens", least, maxOutputTokens)
  expectLimit("max_completion_tokens", least, maxOutputTokens)
  expectLimit("n", 1, maxChoices)
  expect("stream", isSwitch(body.stream), "a boolean")
  if (dialect === "anthropic" && operation === "chat") {
    expect("max_tokens", typeof body.max_tokens === "number", "the output limit")
  }
}

/** The members of a request of the Responses API. */
const expectInput = ({ body }: DialectRequest, expect: Expect, faults: Array<Fault>): void => {
  const { input } = body
  expect(
    "input",
    (input ?? null) === null || typeof input === "string" || Array.isArray(input),
    "text, or a list of items"
  )
  if (isTooLong(input)) return expect("input", false, `at most ${maxMessages} items`)
  for (const [index, item] of listIn(input).entries()) {
    if (isJson(item)) continue
    faults.push({ path: ["input", index], message: "Expected an item" })
    if (faults.length > maxFaults) break
  }
  const isAsked = isLimit(body.max_output_tokens, 1, maxOutputTokens)
  expect("max_output_tokens", isAsked, `a whole number from 1 to ${maxOutputTokens}`)
  expect("stream", isSwitch(body.stream), "a boolean")
}

/** The members of a text completion. */
const expectPrompt = ({ body }: DialectRequest, expect: Expect): void => {
  const { prompt } = body
  expect(
    "prompt",
    typeof prompt === "string" || (Array.isArray(prompt) && prompt.length > 0),
    "text, or a list of texts"
  )
  if (Array.isArray(prompt))
    expect("prompt", prompt.length <= maxInputs || !isTexts(prompt), `at most ${maxInputs} texts`)
  expect("max_tokens", isLimit(body.max_tokens, 0, maxOutputTokens), `a whole number from 0 to ${maxOutputTokens}`)
  for (const name of ["n", "best_of"]) {
    expect(name, isLimit(body[name], 1, maxChoices), `a whole number from 1 to ${maxChoices}`)
  }
  expect("stream", isSwitch(body.stream), "a boolean")
}

/** Whether a prompt is a list of texts, and not the tokens of one. */
export const isTexts = (prompt: ReadonlyArray<unknown>): boolean => typeof prompt[0] !== "number"

/** The errors of a request that is invalid in its own dialect, limited to the members that metering reads. */
export const validateRequest = (request: DialectRequest): GatewayError | undefined => {
  const { body, dialect, operation } = request
  const faults: Array<Fault> = []
  const expect: Expect = (member, isGood, expected) => {
    if (!isGood) faults.push({ path: [member], message: `Expected ${expected}` })
  }
  for (const name in body) {
    const small = foldedName(name)
    if (small !== name && metered.has(small)) expect(name, false, `${small}, in small letters`)
  }
  switch (operation) {
    case "embed": {
      const { input } = body
      const isInput = typeof input === "string" || (Array.isArray(input) && input.length > 0)
      expect("input", isInput, "text, or a list of texts")
      if (Array.isArray(input)) expect("input", input.length <= maxInputs, `at most ${maxInputs} inputs`)
      break
    }
    case "responses":
    case "count-responses":
    case "compact":
      expectInput(request, expect, faults)
      break
    case "completions":
      expectPrompt(request, expect)
      break
    case "chat":
    case "count-tokens":
      expectMessages(request, expect, faults)
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
