import { Effect, type Result, Schema } from "effect"
import { MessagesRequest } from "../translation/anthropic-messages/domain.ts"
import { chatToMessages } from "../translation/anthropic-messages/chat-to-messages.ts"
import { type Dialect } from "../translation/domain.ts"
import { messagesToChat } from "../translation/anthropic-messages/messages-to-chat.ts"
import { ChatRequest } from "../translation/openai-chat/domain.ts"
import { type Fault } from "../../kernel/problem.ts"
import { faultsOf } from "../../platform/http/validation.ts"
import { edited, mergePatch } from "../json/json-edits.ts"
import { knowsOlderLimitAlone, limitMember } from "./output-limits.ts"
import { type Operation } from "../providers/provider.ts"
import { GatewayError, refused } from "../errors/gateway-error.ts"
import { type ModelTarget } from "../configuration/gateway-snapshot.ts"
import { withoutUnsignedThinking } from "./unsigned-thinking.ts"

type Json = Readonly<Record<string, unknown>>

/** A request as it came, in its caller's dialect. */
export interface DialectRequest {
  readonly dialect: Dialect
  readonly operation: Operation
  readonly body: Json
  /** The bytes that the body was read from: what is sent where nothing is to be changed. */
  readonly bytes: Uint8Array
}

const options = { errors: "all" } as const
const decodeChat = Schema.decodeUnknownEffect(ChatRequest, options)
const decodeMessages = Schema.decodeUnknownEffect(MessagesRequest, options)

/** Nobody reads more. */
const maxShown = 50

/** A refusal that names the first member at fault, and says all that anybody reads. */
export const validationError = (faults: ReadonlyArray<Fault>): GatewayError => {
  const shown = faults
    .slice(0, maxShown)
    .map(({ message, path }) => (path.length === 0 ? message : `${path.join(".")}: ${message}`))
  if (faults.length > maxShown) shown.push(`and ${faults.length - maxShown} more`)
  return refused(400, "invalid_request", shown.join("; "), {}, faults[0]?.path.join("."))
}

const invalid = (error: Schema.SchemaError) =>
  validationError(faultsOf("body", error).map(({ message, path }) => ({ message, path: path.slice(1) })))

const carried = (result: Result.Result<Json, ReadonlyArray<Fault>>) =>
  Effect.mapError(Effect.fromResult(result), validationError)

/** The request for another dialect's provider. */
const translated = Effect.fnUntraced(function* (
  { body, dialect }: DialectRequest,
  target: ModelTarget,
  outputTokens: number
) {
  const { model } = target
  if (dialect === "openai") {
    return yield* carried(
      chatToMessages(yield* Effect.mapError(decodeChat(body), invalid), { model, maxOutputTokens: outputTokens })
    )
  }
  const chat = yield* carried(messagesToChat(yield* Effect.mapError(decodeMessages(body), invalid), { model }))
  if (limitMember(target) !== "max_tokens") return chat
  const { max_completion_tokens: max_tokens, ...rest } = chat
  return { ...rest, max_tokens }
})

/** A limit by the older of the two members, where it goes by the newer one. */
const olderLimit = ({ max_completion_tokens: newer, max_tokens: older }: Json): Json =>
  newer === undefined || newer === null
    ? {}
    : { max_completion_tokens: null, ...((older ?? null) === null ? { max_tokens: newer } : {}) }

/**
 * What a request in its own dialect has changed on its way, as a JSON merge patch: the model, a limit where none was given, or
 * under a name that is not read there, and that usage is told.
 */
const changes = (
  { body, dialect, operation }: DialectRequest,
  target: ModelTarget,
  limit: number | undefined
): Json => {
  const changed: Record<string, unknown> = {}
  if (body.model !== target.model) changed.model = target.model
  if (operation !== "chat") return changed
  if (limit !== undefined) changed[dialect === "openai" ? limitMember(target) : "max_tokens"] = limit
  if (dialect === "openai" && knowsOlderLimitAlone(target)) Object.assign(changed, olderLimit(body))
  if (dialect === "openai" && body.stream === true) changed.stream_options = { include_usage: true }
  return changed
}

/**
 * The body for a target. `limit` is the output limit to send where the caller gave none; `outputTokens` is what another
 * dialect must be told in any case.
 */
export const providerRequest = (
  incoming: DialectRequest,
  target: ModelTarget,
  limit: number | undefined,
  outputTokens: number
): Effect.Effect<string | Uint8Array, GatewayError> => {
  const { body, bytes } = incoming
  if (incoming.dialect !== target.provider.dialect) {
    return Effect.map(translated(incoming, target, outputTokens), (other) => JSON.stringify(other))
  }
  const patch = mergePatch(bytes, body, changes(incoming, target, limit))
  const unsigned = incoming.dialect === "anthropic" ? withoutUnsignedThinking(bytes, body) : []
  return Effect.succeed(edited(bytes, [...patch, ...unsigned]))
}

const isLimit = (value: unknown, least: number, most: number): boolean =>
  value === undefined || value === null || (Number.isInteger(value) && Number(value) >= least && Number(value) <= most)

/** More than any model writes, and little enough for the ledger to hold what it costs. */
const maxOutputTokens = 2_147_483_647
const maxChoices = 1024

/** Members that are metered, which some servers read in capitals as well. */
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

/** The first fault of a request that even its own dialect does not take, as far as it must be read to be metered. */
export const validateRequest = ({ body, dialect, operation }: DialectRequest): Effect.Effect<void, GatewayError> => {
  const faults: Array<Fault> = []
  const expect = (member: string, isGood: boolean, expected: string) => {
    if (!isGood) faults.push({ path: [member], message: `Expected ${expected}` })
  }
  for (const name in body) {
    const small = name.toLowerCase()
    expect(name, small === name || !metered.has(small), `${small}, in small letters`)
  }
  if (operation === "embed") {
    const { input } = body
    expect("input", typeof input === "string" || (Array.isArray(input) && input.length > 0), "text, or a list of texts")
    if (Array.isArray(input)) expect("input", input.length <= maxInputs, `at most ${maxInputs} inputs`)
  } else {
    const { messages } = body
    expect("messages", Array.isArray(messages) && messages.length > 0, "a list of messages")
    for (const [index, message] of Array.isArray(messages) ? messages.entries() : []) {
      const isMessage = typeof message === "object" && message !== null && typeof message.role === "string"
      if (!isMessage) faults.push({ path: ["messages", index, "role"], message: "Expected a message with a role" })
    }
    for (const name of ["max_tokens", "max_completion_tokens"]) {
      // Anthropic fills its cache for whoever asks for no word.
      const least = dialect === "anthropic" ? 0 : 1
      expect(name, isLimit(body[name], least, maxOutputTokens), `a whole number from ${least} to ${maxOutputTokens}`)
    }
    expect("n", isLimit(body.n, 1, maxChoices), `a whole number from 1 to ${maxChoices}`)
    expect("stream", body.stream === undefined || body.stream === null || typeof body.stream === "boolean", "a boolean")
    if (dialect === "anthropic" && operation === "chat") {
      expect("max_tokens", typeof body.max_tokens === "number", "the output limit")
    }
  }
  if (faults.length > 0) return Effect.fail(validationError(faults))
  return dialect === "anthropic" && (body.thread ?? null) !== null ? Effect.fail(noThreads) : Effect.void
}

/**
 * A conversation that one provider holds has no bound that it could be let in by, and is lost on any other. The SDK's tool
 * runner asks for one by itself, and goes on without where it is told so.
 */
const noThreads = new GatewayError({
  error: {
    status: 400,
    code: "thread_unsupported_request",
    message: "thread: The gateway holds no conversations; send all messages.",
    param: "thread",
    details: { error_code: "thread_unsupported_request", unsupported: ["thread"] }
  }
})

const maxInputs = 2048
