import { isJson, type Json, listIn } from "../../../kernel/json/parsed-json.ts"
import { cuts, type Edit, edited, editsAt, mergePatch, placesIn } from "../../json/json-edits.ts"
import { isSealedState } from "../common-form/turn-state.ts"
import { type BoundTerms, type FormatTarget, type GivenRequest, type SentLimits, type Unserved } from "../format.ts"
import { compactsByEdits, type MessageForm, messageBound } from "../message-bound.ts"
import { type Unbounded } from "../provider-tools.ts"
import { Faults, maxChoices } from "../request-faults.ts"
import { cacheKeyChange, serviceChanges } from "../sent-changes.ts"
import { boundMembers, perVendorTool, perVendorToolset, positive, type TokenUpperBound } from "../token-upper-bound.ts"
import { cacheMarkEdits } from "./prompt-cache/marks.ts"
import { messagesTools, runByMessagesCaller, toolLimitEdits } from "./tools.ts"

/** The faults of a request for a count; a request for no output is valid: it fills the prompt cache. */
export const countFaults = (body: Json) => {
  const { messages } = body
  return new Faults(body)
    .expect("messages", Array.isArray(messages) && messages.length > 0, "a list of messages")
    .each("messages", "messages", ({ role }) => typeof role === "string", ["role"], "a message with a role")
    .limit("max_tokens", 0)
    .limit("max_completion_tokens", 0)
    .limit("n", 1, maxChoices)
    .switch("stream").found
}

/** The same for a message, whose output limit is required. */
export const messageFaults = (body: Json) => [
  ...countFaults(body),
  ...(typeof body.max_tokens === "number" ? [] : [{ path: ["max_tokens"], message: "Expected the output limit" }])
]

/**
 * A conversation that a provider stores has no upper bound for admission, and is unknown to every other provider. The SDK's
 * tool runner requests one by default, and continues without it after this error.
 */
const noThreads: Unserved = {
  message: "thread: The gateway holds no conversations; send all messages.",
  code: "thread_unsupported_request",
  param: "thread",
  details: { error_code: "thread_unsupported_request", unsupported: ["thread"] }
}

export const unservedMessage = ({ thread }: Json): Unserved | undefined =>
  (thread ?? null) === null ? undefined : noThreads

/**
 * The types of blocks whose text stands in the request; what the results of Anthropic's own tools contain is in their
 * `content`. A block of any other type may refer to something else.
 */
const blocks: ReadonlySet<string> = new Set(
  ["text", "thinking", "redacted_thinking", "search_result", "tool_use", "server_tool_use", "mcp_tool_use"].concat(
    ["compaction", "tool_addition", "tool_removal", "mcp_tool_listing", "fallback", "tool_reference"],
    // Only code in the container of the tool reads it.
    ["container_upload"]
  )
)

const compacts = (body: Json): boolean => (body.compaction ?? null) !== null || compactsByEdits(body)

const messageMembers: ReadonlySet<string> = new Set(["role", "content", "id", "cache_control"])

/** Members of a message that are bounded; the container, thoughts and what is compacted are read apart. */
const known = boundMembers(
  "model messages system max_tokens temperature top_p top_k stop_sequences stream metadata thinking tools tool_choice " +
    "output_config output_format cache_control container mcp_servers context_management compaction diagnostics " +
    "user_profile_id anthropic_version",
  {
    service_tier: ["auto", "standard_only"],
    speed: ["standard"],
    inference_geo: ["global"]
  }
)

const form: MessageForm = {
  texts: blocks,
  results: /_(?:result|output|error)$/,
  members: messageMembers,
  known,
  toolTokens: (type) => (runByMessagesCaller.test(type) && type.includes("toolset") ? perVendorToolset : perVendorTool),
  tools: messagesTools,
  compacts,
  extraOutputTokens: () => 0,
  choices: (body) => (compacts(body) ? 2 : 1),
  // Interleaved thoughts have a budget of their own where it is larger than the limit.
  asked: ({ max_tokens: limit, thinking }) => {
    const asked = limit === 0 ? 0 : positive(limit)
    const budget = isJson(thinking) ? (positive(thinking.budget_tokens) ?? 0) : 0
    return asked !== undefined && budget > asked ? asked + budget : asked
  }
}

/** Only Anthropic's own service answers with nothing then; other servers take zero for no limit. */
const withoutOutput: Unbounded = {
  path: ["max_tokens"],
  message: "An output limit of zero, which some servers take for none, has no bound: ask for one token",
  isBoundedAt: ({ provider }) => provider.vendor === "anthropic"
}

/** The maximum usage of a message. */
export const messageUpperBound = (body: Json, terms: BoundTerms): TokenUpperBound => {
  const bound = messageBound(body, terms, form)
  return body.max_tokens === 0 ? { ...bound, unbounded: [...bound.unbounded, withoutOutput] } : bound
}

/** The services that Anthropic's models run at, under whatever names. */
const runsClaude = /^(?:anthropic|aws|amazon|bedrock|vertex)/

/** Whether a target is a model of Anthropic's; other vendors' models that speak its dialect do not sign their thoughts. */
const isClaude = ({ model, provider: { vendor } }: FormatTarget): boolean =>
  /claude/i.test(model) || runsClaude.test(vendor ?? "")

const isUnsigned = (block: unknown): boolean => {
  if (!isJson(block) || block.type !== "thinking") return false
  return typeof block.signature !== "string" || block.signature === "" || isSealedState(block.signature)
}

const isSealed = (block: unknown): boolean =>
  isJson(block) && block.type === "thinking" && isSealedState(block.signature)

/**
 * Removes the thoughts that a target does not take from the text of a messages request: those of other providers, and at
 * Anthropic all without a signature of its own. A message that contains nothing else is removed.
 */
export const withoutOthersThinking = (json: Uint8Array, body: Json, target: FormatTarget): ReadonlyArray<Edit> => {
  const isOthers = isClaude(target) ? isUnsigned : isSealed
  const concerned = listIn(body.messages).flatMap((message, index) => {
    const given = isJson(message) ? listIn(message.content) : []
    return given.some(isOthers) ? [{ index, given, isAll: given.every(isOthers) }] : []
  })
  if (concerned.length === 0) return []
  const member = placesIn(json, 0, ["messages"]).at(-1)
  if (member?.name !== "messages") return []
  const messages = placesIn(json, member.value)
  const whole = new Set(concerned.flatMap(({ index, isAll }) => (isAll ? [index] : [])))
  return [
    ...cuts(messages, (index) => whole.has(index)),
    ...concerned.flatMap(({ given, index, isAll }) => {
      const content = isAll ? undefined : placesIn(json, messages[index]?.start).find(({ name }) => name === "content")
      return content === undefined ? [] : cuts(placesIn(json, content.value), (place) => isOthers(given[place]))
    })
  ]
}

/** Whether a citation is one that the gateway wrote for another provider's: Anthropic gives each an index. */
const isOthersCitation = (citation: unknown): boolean =>
  isJson(citation) && citation.type === "web_search_result_location" && citation.encrypted_index === ""

/** Removes what another provider cited, which Anthropic refuses. */
const withoutOthersCitations = (json: Uint8Array, { messages }: Json): ReadonlyArray<Edit> => {
  const changes = listIn(messages).flatMap((message, index) =>
    (isJson(message) ? listIn(message.content) : []).flatMap((block, place) =>
      isJson(block) && listIn(block.citations).some(isOthersCitation)
        ? [{ path: ["messages", index, "content", place, "citations"], text: undefined }]
        : []
    )
  )
  return changes.length === 0 ? [] : editsAt(json, changes)
}

/** A message for a provider that takes them. */
export const editedMessage = ({ body, bytes }: GivenRequest, target: FormatTarget, limits: SentLimits): Uint8Array => {
  const { limit, toolLimit } = limits
  const changed = {
    ...(body.model === target.model ? {} : { model: target.model }),
    ...(limit === undefined ? {} : { max_tokens: limit }),
    ...cacheKeyChange(body, target, limits.cacheKey, false),
    ...serviceChanges(body, target, limits)
  }
  return edited(bytes, [
    ...mergePatch(bytes, body, changed),
    ...withoutOthersThinking(bytes, body, target),
    ...withoutOthersCitations(bytes, body),
    ...(toolLimit === undefined ? [] : toolLimitEdits(bytes, body, toolLimit)),
    ...cacheMarkEdits(bytes, body, target, limits)
  ])
}

/** A request for a count, for a provider that counts: its model, without thoughts that would be refused. */
export const editedCount = ({ body, bytes }: GivenRequest, target: FormatTarget): Uint8Array =>
  edited(bytes, [
    ...mergePatch(bytes, body, body.model === target.model ? {} : { model: target.model }),
    ...withoutOthersThinking(bytes, body, target),
    ...withoutOthersCitations(bytes, body)
  ])
