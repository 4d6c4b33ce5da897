import { Effect, type Result, Schema } from "effect"
import { MessagesRequest } from "../translation/anthropic-messages/domain.ts"
import { chatToMessages } from "../translation/anthropic-messages/chat-to-messages.ts"
import { messagesToChat } from "../translation/anthropic-messages/messages-to-chat.ts"
import { ChatRequest } from "../translation/openai-chat/domain.ts"
import { type Fault } from "../../kernel/problem.ts"
import { faultsOf } from "../../platform/http/validation.ts"
import { isJson, listIn } from "../../kernel/parsed-json.ts"
import { cuts, type Edit, edited, mergePatch, placesIn } from "../json/json-edits.ts"
import { type DialectRequest } from "./call-request.ts"
import { type GatewayError, invalidMembers } from "../errors/gateway-error.ts"
import { type ModelTarget } from "../configuration/gateway-snapshot.ts"

type Json = Readonly<Record<string, unknown>>

const options = { errors: "all" } as const
const decodeChat = Schema.decodeUnknownEffect(ChatRequest, options)
const decodeMessages = Schema.decodeUnknownEffect(MessagesRequest, options)

const invalid = (error: Schema.SchemaError) =>
  invalidMembers(faultsOf("body", error).map(({ message, path }) => ({ message, path: path.slice(1) })))

const carried = (result: Result.Result<Json, ReadonlyArray<Fault>>) =>
  Effect.mapError(Effect.fromResult(result), invalidMembers)

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

/** The members that limit an output in OpenAI's dialect: its own newer one, and the older that all its speakers know. */
type LimitMember = "max_completion_tokens" | "max_tokens"

/** Those who know the newer one; whom a provider is of is also told by its id. */
const knowsNewer = /^(?:openai|azure|openrouter|x-ai|groq|cerebras|google)\b/
/** Those who refuse it, or leave it unread and write on without a limit. */
const knowsOlderAlone = /^(?:mistral|deepseek|cohere|moonshot|ollama)/
/** OpenAI's models that refuse the older one, whoever serves them. */
const refusesOlder = /(?:^|\/)(?:o\d|gpt-5)/

/** By which member a target is told a limit that its caller did not give. */
const limitMember = ({ model, provider: { vendor } }: ModelTarget): LimitMember =>
  vendor === undefined || knowsNewer.test(vendor) || refusesOlder.test(model) ? "max_completion_tokens" : "max_tokens"

/** Whether a target has to be told by the older one what its caller said by the newer. */
const knowsOlderLimitAlone = ({ provider: { vendor } }: ModelTarget): boolean =>
  vendor !== undefined && knowsOlderAlone.test(vendor)

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

const isUnsigned = (block: unknown): boolean =>
  isJson(block) && block.type === "thinking" && (typeof block.signature !== "string" || block.signature === "")

/**
 * Cuts thoughts without a signature out of the text of a messages request: Anthropic refuses them, and a conversation has
 * them that another vendor's model was in. A message of nothing else goes as a whole.
 */
export const withoutUnsignedThinking = (json: Uint8Array, body: Json): ReadonlyArray<Edit> => {
  const concerned = listIn(body.messages).flatMap((message, index) => {
    const blocks = isJson(message) ? listIn(message.content) : []
    return blocks.some(isUnsigned) ? [{ index, blocks, isAll: blocks.every(isUnsigned) }] : []
  })
  if (concerned.length === 0) return []
  const member = placesIn(json, 0, ["messages"]).at(-1)
  if (member?.name !== "messages") return []
  const messages = placesIn(json, member.value)
  const whole = new Set(concerned.flatMap(({ index, isAll }) => (isAll ? [index] : [])))
  return [
    ...cuts(messages, (index) => whole.has(index)),
    ...concerned.flatMap(({ blocks, index, isAll }) => {
      const content = isAll ? undefined : placesIn(json, messages[index]?.start).find(({ name }) => name === "content")
      return content === undefined ? [] : cuts(placesIn(json, content.value), (place) => isUnsigned(blocks[place]))
    })
  ]
}
