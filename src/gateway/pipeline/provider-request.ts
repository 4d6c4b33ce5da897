import { Effect, type Result, Schema } from "effect"
import { MessagesRequest } from "../translation/anthropic-messages/domain.ts"
import { chatToMessages } from "../translation/anthropic-messages/chat-to-messages.ts"
import { messagesToChat } from "../translation/anthropic-messages/messages-to-chat.ts"
import { ChatRequest } from "../translation/openai-chat/domain.ts"
import { type Fault } from "../../kernel/problems/problem.ts"
import { faultOptions, faultsOf } from "../../platform/http/validation.ts"
import { isJson, listIn, type Json } from "../../kernel/json/parsed-json.ts"
import { cuts, type Edit, edited, mergePatch, type Place, placesIn } from "../json/json-edits.ts"
import { type DialectRequest } from "./call-request.ts"
import { type GatewayError, invalidMembers } from "../errors/gateway-error.ts"
import { type ModelTarget } from "../configuration/gateway-snapshot.ts"
import { type Estimate } from "../metering/estimates.ts"
import { type CountableRequest } from "../metering/provider-counts.ts"
import { providerToolsOf } from "../metering/provider-tools.ts"
import { withImagesBesideTools } from "../translation/openai-chat/tool-images.ts"
import { utf8Text } from "../../kernel/utf8.ts"

const decodeChat = Schema.decodeUnknownEffect(ChatRequest)
const decodeMessages = Schema.decodeUnknownEffect(MessagesRequest)

const invalid = (error: Schema.SchemaError) =>
  invalidMembers(faultsOf("body", error).map(({ message, path }) => ({ message, path: path.slice(1) })))

const carried = (result: Result.Result<Json, ReadonlyArray<Fault>>) =>
  Effect.mapError(Effect.fromResult(result), invalidMembers)

/** Translates a request for a provider of the other dialect. */
const translated = Effect.fnUntraced(function* (
  { body, dialect }: DialectRequest,
  target: ModelTarget,
  outputTokens: number
) {
  const { model } = target
  if (dialect === "openai") {
    return yield* carried(
      chatToMessages(yield* Effect.mapError(decodeChat(body, faultOptions(body)), invalid), {
        model,
        maxOutputTokens: outputTokens
      })
    )
  }
  const chat = yield* carried(
    messagesToChat(yield* Effect.mapError(decodeMessages(body, faultOptions(body)), invalid), { model })
  )
  if (limitMember(target) !== "max_tokens") return chat
  const { max_completion_tokens: max_tokens, ...rest } = chat
  return { ...rest, max_tokens }
})

/** The members that limit the output in OpenAI's dialect: OpenAI's newer one, and the older one that other vendors know. */
type LimitMember = "max_completion_tokens" | "max_tokens"

/** Vendors that accept `max_completion_tokens`; a provider's vendor may be derived from its id. */
const knowsNewer = /^(?:openai|azure|openrouter|x-ai|groq|cerebras|google)\b/
/** Vendors that reject `max_completion_tokens`, or ignore it and generate without a limit. */
const knowsOlderAlone = /^(?:mistral|deepseek|cohere|moonshot|ollama)/
/** OpenAI's models that reject `max_tokens`, at any provider. */
const refusesOlder = /(?:^|\/)(?:o\d|gpt-5)/

/** The member in which a target receives a limit that its caller did not set. */
const limitMember = ({ model, provider: { vendor } }: ModelTarget): LimitMember =>
  vendor === undefined || knowsNewer.test(vendor) || refusesOlder.test(model) ? "max_completion_tokens" : "max_tokens"

/** Whether a target needs `max_tokens` for a limit that its caller set as `max_completion_tokens`. */
const knowsOlderLimitAlone = ({ provider: { vendor } }: ModelTarget): boolean =>
  vendor !== undefined && knowsOlderAlone.test(vendor)

/** The patch that moves a limit from `max_completion_tokens` to `max_tokens`. */
const olderLimit = ({ max_completion_tokens: newer, max_tokens: older }: Json): Json =>
  newer === undefined || newer === null
    ? {}
    : { max_completion_tokens: null, ...((older ?? null) === null ? { max_tokens: newer } : {}) }

/**
 * The JSON merge patch for a request in its provider's dialect. It sets the model, sets a limit if the caller gave none or
 * used a name that the target does not read, and requests usage.
 */
const changes = (
  { body, dialect, operation }: DialectRequest,
  target: ModelTarget,
  { limit, toolLimit }: Limits
): Json => {
  const changed: Record<string, unknown> = {}
  if (body.model !== target.model) changed.model = target.model
  if (operation === "responses") {
    if (limit !== undefined) changed.max_output_tokens = limit
    if (toolLimit !== undefined) changed.max_tool_calls = toolLimit
    return changed
  }
  if (operation === "completions") {
    if (limit !== undefined) changed.max_tokens = limit
    if (body.stream === true) changed.stream_options = { include_usage: true }
    return changed
  }
  if (operation !== "chat") return changed
  if (limit !== undefined) changed[dialect === "openai" ? limitMember(target) : "max_tokens"] = limit
  if (dialect === "openai" && knowsOlderLimitAlone(target)) Object.assign(changed, olderLimit(body))
  if (dialect === "openai" && body.stream === true) changed.stream_options = { include_usage: true }
  return changed
}

/** The limits of an estimate: those to send if the caller set none, and the output that the other dialect has to limit. */
export type Limits = Pick<Estimate, "limit" | "outputTokens" | "toolLimit">

/** The body for a target. */
export const providerRequest = (
  incoming: DialectRequest,
  target: ModelTarget,
  limits: Limits
): Effect.Effect<string | Uint8Array, GatewayError> => {
  const { body, bytes } = incoming
  const { outputTokens, toolLimit } = limits
  if (incoming.dialect !== target.provider.dialect) {
    return Effect.map(translated(incoming, target, outputTokens), (other) =>
      JSON.stringify(toolLimit === undefined ? other : withToolLimit(other, toolLimit))
    )
  }
  if (incoming.keepsThoughts === true && incoming.dialect === "openai") {
    const changed = Object.entries({ ...forChatProvider(body), ...changes(incoming, target, limits) })
    return Effect.succeed(JSON.stringify(Object.fromEntries(changed.filter(([, value]) => value !== null))))
  }
  const patch = mergePatch(bytes, body, changes(incoming, target, limits))
  const unsigned = incoming.dialect === "anthropic" ? withoutUnsignedThinking(bytes, body) : []
  const limited = toolLimit === undefined ? [] : toolLimitEdits(bytes, body, toolLimit)
  return Effect.succeed(edited(bytes, [...patch, ...unsigned, ...limited]))
}

/** A request as a target would get it, for its provider to count; undefined if no provider counts such requests. */
export const countableRequest = (
  { body, bytes, dialect, headers, operation, ...rest }: DialectRequest & Pick<CountableRequest, "headers">,
  target: ModelTarget
): Effect.Effect<CountableRequest, GatewayError> | undefined => {
  if (operation === "responses") {
    // The ids in the bytes are the provider's.
    return Effect.sync(() => ({ operation, body: JSON.parse(utf8Text(bytes)) as Json, headers }))
  }
  if (operation !== "chat" || target.provider.dialect !== "anthropic") return undefined
  return dialect === "anthropic"
    ? Effect.succeed({ operation, body, headers })
    : Effect.map(translated({ ...rest, body, bytes, dialect, operation }, target, 1), (other) => ({
        operation,
        body: other,
        headers
      }))
}

const unlimitedTools = (body: Json) =>
  providerToolsOf(body, "messages").tools?.tools.filter(
    ({ maxUses, takesLimit }) => takesLimit && maxUses === undefined
  ) ?? []

const withToolLimit = (body: Json, limit: number): Json => {
  const places = new Set(unlimitedTools(body).map(({ path }) => path[1]))
  if (places.size === 0) return body
  const limited = (tool: unknown, index: number) =>
    places.has(index) && isJson(tool) ? Object.assign({}, tool, { max_uses: limit }) : tool
  return { ...body, tools: listIn(body.tools).map(limited) }
}

/** A translated request as chat providers take it: without signed thoughts, and without images in the results of tools. */
const forChatProvider = (body: Json): Json => ({
  ...body,
  messages: withImagesBesideTools(
    listIn(body.messages).flatMap((message) => {
      if (!isJson(message) || message.thinking_blocks === undefined) return [message]
      const { thinking_blocks: _, ...rest } = message
      return rest.content === null && rest.tool_calls === undefined ? [] : [rest]
    })
  )
})

/** The place of a value by the path to it. */
const placeAt = (json: Uint8Array, path: Fault["path"]): Place | undefined =>
  path.reduce<Place | undefined>((at, step, depth) => {
    if (depth > 0 && at === undefined) return undefined
    const places = placesIn(json, at?.value ?? 0)
    return typeof step === "number" ? places[step] : places.findLast(({ name }) => name === step)
  }, undefined)

/** Limits the uses of each of Anthropic's tools that takes a limit and has none, wherever it stands. */
const toolLimitEdits = (json: Uint8Array, body: Json, limit: number): ReadonlyArray<Edit> =>
  unlimitedTools(body).flatMap(({ path }): ReadonlyArray<Edit> => {
    const tool = placeAt(json, path)
    if (tool === undefined) return []
    const text = `"max_uses":${limit}`
    const given = placesIn(json, tool.value).find(({ name }) => name === "max_uses")
    return given === undefined
      ? [{ start: tool.end - 1, end: tool.end - 1, text: `,${text}` }]
      : [{ start: given.start, end: given.end, text }]
  })

const isUnsigned = (block: unknown): boolean =>
  isJson(block) && block.type === "thinking" && (typeof block.signature !== "string" || block.signature === "")

/**
 * Removes thinking blocks without a signature from the text of a messages request. Anthropic rejects them, and a
 * conversation contains them if another vendor's model took part. A message that contains nothing else is removed.
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
