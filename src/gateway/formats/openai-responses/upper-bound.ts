import { isJson, listIn, textIn, type Json } from "../../../kernel/json/parsed-json.ts"
import { type Fault } from "../../../kernel/problems/problem.ts"
import { type BoundTerms } from "../format.ts"
import { freeTiers } from "../openai-chat/bounded-members.ts"
import { askedIn } from "../served-domain.ts"
import {
  boundMembers,
  BoundWalk,
  escapedBytes,
  perImage,
  perMessage,
  restoredResults,
  perRequest,
  perTool,
  positive,
  thoughtsBeyond,
  type TokenUpperBound,
  withTools
} from "../token-upper-bound.ts"
import { responsesTools } from "./tools.ts"

/** The types of items, and of their parts, whose text stands in the request. Others may refer to something. */
const texts: ReadonlySet<string> = new Set(
  [
    "message",
    "input_text",
    "output_text",
    "text",
    "refusal",
    "summary_text",
    "reasoning_text",
    "reasoning",
    "logs"
  ].concat(
    ["function_call", "custom_tool_call", "computer_call", "local_shell_call", "shell_call", "apply_patch_call"],
    ["web_search_call", "file_search_call", "code_interpreter_call", "mcp_call", "tool_search_call", "program"],
    ["mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "tool_search_output", "additional_tools"],
    ["compaction", "compaction_trigger", "compaction_summary", "agent_message", "ghost_snapshot"]
  )
)
const typeOfOutput = /_output$/

/** Members of a request that are bounded; the tools, and what is stored or compacted, are read apart. */
const known = boundMembers(
  "model input instructions stream stream_options temperature top_p top_logprobs max_output_tokens max_tool_calls tools " +
    "tool_choice parallel_tool_calls reasoning text include store metadata client_metadata user safety_identifier " +
    "background conversation previous_response_id prompt truncation context_management prompt_cache_key " +
    "prompt_cache_options prompt_cache_retention",
  { service_tier: freeTiers }
)

/** Members of parts that contain their text in the request itself, or that say how to read the part. */
const partMembers: ReadonlySet<string> = new Set(
  "type text refusal annotations logprobs id status phase detail filename prompt_cache_breakpoint cache_control".split(
    " "
  )
)
const plainText = /^(?:input_text|output_text|text|refusal|summary_text|reasoning_text)$/

/** What a request of the Responses API has besides its text. */
class ItemWalk extends BoundWalk {
  /** An item, a part of one, or what a tool returned. */
  part(part: unknown, at: Fault["path"], depth = 0): void {
    if (Array.isArray(part)) return this.refuseType(at, {})
    if (!isJson(part)) return this.text(part, at)
    if (depth > deepest) return this.refuse(at, "What is nested so deeply has no bound")
    const type = part.type === undefined ? untypedItem(part) : textIn(part.type)
    switch (type) {
      case "item_reference":
        return this.remotely(at, "stored")
      case "input_image":
      case "computer_screenshot":
        return this.imageUrl(part.image_url, at)
      case "image":
        return this.image(part.url, at)
      case "image_generation_call":
        if (typeof part.result === "string") this.payloadBytes += part.result.length
        return this.media(perImage)
      case "input_file":
        return this.fileOf(part, at)
    }
    if (!texts.has(type) && !typeOfOutput.test(type)) return this.refuseType(at, part)
    if (plainText.test(type)) {
      this.references(part, partMembers, at)
      this.text(part.text, at)
    }
    this.tokens += escapedBytes(part.arguments)
    for (const name of ["content", "output", "outputs", "summary"]) this.parts(part[name], [...at, name], depth + 1)
  }

  private parts(parts: unknown, at: Fault["path"], depth: number): void {
    if (!Array.isArray(parts)) return this.part(parts, at, depth)
    for (const [index, part] of parts.entries()) this.part(part, [...at, index], depth)
  }
}

/** An item without a type is a message, or only the id of what is stored. */
const untypedItem = ({ content, role }: Json): string =>
  content === undefined && role === undefined ? "item_reference" : "message"

const deepest = 8

const isCall = /^(?:function|custom_tool)_call$/

/** What a translation adds for calls that have no output. */
const callsIn = (items: ReadonlyArray<unknown>): number => {
  const given = items.filter(isJson)
  const calls = given.filter(({ type }) => isCall.test(textIn(type)))
  const outputs = given.filter(({ type }) => textIn(type).endsWith("_call_output"))
  return restoredResults(
    calls.map(({ call_id: id }) => id),
    outputs.map(({ call_id: id }) => id)
  )
}

/**
 * The maximum usage of a request of the Responses API that its provider serves itself. What the provider stores or fetches
 * is bounded by what the model can read, if that is known.
 */
export const responsesBound = (body: Json, terms: BoundTerms): TokenUpperBound => {
  const walk = new ItemWalk(terms.imageTokens)
  const items = listIn(body.input)
  for (const [index, item] of items.entries()) walk.part(item, ["input", index])
  walk.text(body.input, ["input"])
  // A list of items in some servers.
  for (const [index, item] of listIn(body.instructions).entries()) walk.part(item, ["instructions", index])
  if (isJson(body.instructions)) walk.part(body.instructions, ["instructions"])
  walk.text(body.instructions, ["instructions"])
  for (const name of ["previous_response_id", "conversation"]) {
    if ((body[name] ?? null) !== null) walk.remotely([name], "stored")
  }
  if ((body.prompt ?? null) !== null) {
    walk.refuse(["prompt"], "A prompt that the provider stores, which may have tools of its own, has no bound")
  }
  const found = responsesTools(body, terms)
  for (const fault of found.unbounded) walk.unbounded.push(fault)
  walk.members(body, known)
  // Compaction has a model read all of the input and summarize it.
  const compacts =
    isJson(body.context_management) ||
    listIn(body.context_management).length > 0 ||
    items.some((item) => isJson(item) && item.type === "compaction_trigger")
  const elsewhere = walk.requireContext(terms.contextTokens, found.tools)
  const tools = listIn(body.tools).length
  const times = compacts ? 2 : 1
  const asked = positive(body.max_output_tokens)
  return {
    inputTokens:
      terms.bodyBytes -
      walk.payloadBytes +
      walk.tokens +
      escapedBytes(body.tools) +
      perRequest +
      perMessage * items.length +
      callsIn(items) +
      (tools > 0 ? withTools + perTool * tools : 0),
    mediaTokens: walk.mediaTokens,
    elsewhere,
    readings: times,
    extraOutputTokens: times * thoughtsBeyond(asked, isJson(body.reasoning) ? body.reasoning.max_tokens : 0),
    choices: times,
    tools: found.tools,
    askedOutputTokens: asked,
    asksFor: askedIn(body),
    // Images of a tool have a fee.
    writesText: true,
    unbounded: walk.unbounded
  }
}

/** The same for a compaction, whose output has no limit but the model's. */
export const compactionBound = (body: Json, terms: BoundTerms): TokenUpperBound => {
  const { maxOutputTokens } = terms
  const bound = responsesBound(body, terms)
  const unlimited = {
    path: ["model"],
    message: "A compaction has no bound where the model's `maxOutputTokens` is not known"
  }
  return {
    ...bound,
    // Zero where it is unknown, so that no limit is sent, which this API does not take.
    askedOutputTokens: maxOutputTokens ?? 0,
    unbounded: maxOutputTokens === null ? [...bound.unbounded, unlimited] : bound.unbounded
  }
}
