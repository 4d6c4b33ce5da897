import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { type Edit, edited, editsAt, mergePatch, placesIn } from "../../json/json-edits.ts"
import { messagesTools, runByMessagesCaller, toolLimitEdits } from "../anthropic-messages/tools.ts"
import { withImagesBesideTools } from "../common-form/tool-images.ts"
import { type BoundTerms, type FormatTarget, type GivenBody, type GivenRequest, type SentLimits } from "../format.ts"
import { compactsByEdits, type MessageForm, messageBound } from "../message-bound.ts"
import { Faults, maxChoices } from "../request-faults.ts"
import { cacheKeyChange, serviceChanges } from "../sent-changes.ts"
import { perVendorTool, perVendorToolset, positive, thoughtsBeyond } from "../token-upper-bound.ts"
import { chatMembers } from "./bounded-members.ts"
import { callsWithoutThoughts, noThoughts, requiresThoughts, withoutSealedStates } from "./turn-state.ts"
import { asModelTakes } from "./vendor-messages.ts"

/** The faults of a chat completion's members that metering reads. */
export const chatFaults = (body: Json) => {
  const { messages } = body
  return new Faults(body)
    .expect("messages", Array.isArray(messages) && messages.length > 0, "a list of messages")
    .each("messages", "messages", ({ role }) => typeof role === "string", ["role"], "a message with a role")
    .limit("max_tokens", 1)
    .limit("max_completion_tokens", 1)
    .limit("n", 1, maxChoices)
    .switch("stream").found
}

const bytesOf = (value: unknown): number => (value === undefined ? 0 : Buffer.byteLength(JSON.stringify(value) ?? ""))

/** Part types that hold text, including those that other providers added. */
const texts: ReadonlySet<string> = new Set(["text", "refusal", "thinking", "reasoning"])

/** Members of a message whose text stands in the request. */
const members: ReadonlySet<string> = new Set(
  [
    "role",
    "content",
    "name",
    "tool_calls",
    "tool_call_id",
    "function_call",
    "refusal",
    "annotations",
    "metadata"
  ].concat(
    ["reasoning", "reasoning_content", "reasoning_details", "turn_state", "extra_content", "cache_control"],
    ["prefix", "partial", "parsed", "citations", "search_results", "provider_specific_fields"]
  )
)

const choicesOf = ({ best_of: best, n }: Json): number => Math.max(positive(n) ?? 1, positive(best) ?? 1)

const askedOf = ({ max_completion_tokens: newer, max_tokens: older }: Json): number | undefined => {
  const asked = [positive(newer), positive(older)].filter((limit) => limit !== undefined)
  // A provider may apply either limit, so the larger one counts.
  return asked.length === 0 ? undefined : Math.max(...asked)
}

/** Thoughts that are not within the output limit: those with a larger budget of their own, and all of Alibaba's. */
const extraThoughts = (body: Json): number => {
  const { reasoning, thinking, thinking_budget: apart } = body
  const budgets = [isJson(reasoning) ? reasoning.max_tokens : 0, isJson(thinking) ? thinking.budget_tokens : 0]
  return (positive(apart) ?? 0) + thoughtsBeyond(askedOf(body), ...budgets)
}

const form: MessageForm = {
  texts,
  members,
  known: chatMembers,
  toolTokens: (type) => (runByMessagesCaller.test(type) && type.includes("toolset") ? perVendorToolset : perVendorTool),
  tools: (body, terms) => messagesTools(body, terms, true),
  compacts: compactsByEdits,
  extraOutputTokens: (body) => bytesOf(body.prediction ?? undefined) + choicesOf(body) * extraThoughts(body),
  choices: choicesOf,
  asked: askedOf
}

/** The maximum usage of a chat completion. */
export const chatBound = (body: Json, terms: BoundTerms) => messageBound(body, terms, form)

/** The members that limit the output: OpenAI's newer one, and the older one that other vendors know. */
type LimitMember = "max_completion_tokens" | "max_tokens"

/** The member in which a target receives a limit that its caller did not set; the provider within this process reads both. */
const limitMember = ({ provider: { vendor }, traits: { refuses, takes } }: FormatTarget): LimitMember =>
  vendor === undefined || takes.has("max_completion_tokens") || refuses.has("max_tokens")
    ? "max_completion_tokens"
    : "max_tokens"

/** Whether a target needs `max_tokens` for a limit that its caller set as `max_completion_tokens`. */
const knowsOlderLimitAlone = ({ traits }: FormatTarget): boolean => traits.refuses.has("max_completion_tokens")

/** The patch that moves a limit from `max_completion_tokens` to `max_tokens`. */
const olderLimit = ({ max_completion_tokens: newer, max_tokens: older }: Json): Json =>
  newer === undefined || newer === null
    ? {}
    : { max_completion_tokens: null, ...((older ?? null) === null ? { max_tokens: newer } : {}) }

/** Sets the model, a limit if the caller gave none or used a name that the target does not read, and asks for the usage. */
export const chatChanges = (body: Json, target: FormatTarget, limits: SentLimits): Json => ({
  ...serviceChanges(body, target, limits),
  ...(body.model === target.model ? {} : { model: target.model }),
  ...(limits.limit === undefined ? {} : { [limitMember(target)]: limits.limit }),
  ...(knowsOlderLimitAlone(target) ? olderLimit(body) : {}),
  ...cacheKeyChange(body, target, limits.cacheKey),
  ...(body.stream === true ? { stream_options: { include_usage: true } } : {})
})

/** The edits that give each call in the history thoughts, for vendors that require them. */
const thoughtEdits = (bytes: Uint8Array, body: Json): ReadonlyArray<Edit> => {
  const messages = listIn(body.messages)
  if (!messages.some(callsWithoutThoughts)) return []
  const places = placesIn(bytes, placesIn(bytes, 0, ["messages"]).at(-1)?.value)
  return messages.flatMap((message, index) =>
    callsWithoutThoughts(message) ? mergePatch(bytes, message, noThoughts, places[index]?.start) : []
  )
}

/** Vendors whose results of tools are texts alone; others take images, too. */
const takesTextsOfTools = /^(?:openai|azure)/

const isToolWithImages = (message: unknown): boolean =>
  isJson(message) &&
  message.role === "tool" &&
  listIn(message.content).some((part) => isJson(part) && part.type !== "text")

/** A request whose messages have what its target takes, and nothing that it refuses. */
const withOwnMessages = (given: GivenRequest, { provider: { vendor }, traits }: FormatTarget): GivenBody => {
  const messages = listIn(given.body.messages)
  const movesImages = takesTextsOfTools.test(vendor ?? "") && messages.some(isToolWithImages)
  const own = (movesImages ? withImagesBesideTools(messages) : messages).map((message) => asModelTakes(message, traits))
  const isSame = !movesImages && own.every((message, index) => message === messages[index])
  const place = isSame ? undefined : placesIn(given.bytes, 0, ["messages"]).at(-1)
  if (place === undefined) return given
  return {
    body: { ...given.body, messages: own },
    bytes: edited(given.bytes, [{ start: place.value, end: place.end, text: JSON.stringify(own) }])
  }
}

/** A chat completion for a provider that speaks them. */
export const editedChat = (given: GivenRequest, target: FormatTarget, limits: SentLimits): Uint8Array => {
  const { body, bytes } = withOwnMessages(given, target)
  const { toolLimit } = limits
  const requires = requiresThoughts(target)
  return edited(bytes, [
    ...mergePatch(bytes, body, chatChanges(body, target, limits)),
    ...(requires ? thoughtEdits(bytes, body) : []),
    ...editsAt(bytes, withoutSealedStates(body, requires)),
    ...(toolLimit === undefined ? [] : toolLimitEdits(bytes, body, toolLimit))
  ])
}
