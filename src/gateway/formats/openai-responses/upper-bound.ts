import { isJson, listIn, textIn, type Json } from "../../../kernel/json/parsed-json.ts"
import { type Fault } from "../../../kernel/problems/problem.ts"
import { type BoundTerms } from "../format.ts"
import { openAiPriced } from "../openai-chat/priced-members.ts"
import { responsesTools } from "./tools.ts"
import {
  BoundWalk,
  perImage,
  perMessage,
  perRequest,
  perTool,
  positive,
  type TokenUpperBound,
  withTools
} from "../token-upper-bound.ts"

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

/** What a request of the Responses API has besides its text. */
class ItemWalk extends BoundWalk {
  /** An item, a part of one, or what a tool returned. */
  part(part: unknown, at: Fault["path"], depth = 0): void {
    if (!isJson(part)) return
    if (depth > deepest) return this.refuse(at, "What is nested so deeply has no bound")
    const type = part.type === undefined ? untypedItem(part) : textIn(part.type)
    switch (type) {
      case "item_reference":
        return this.remotely(at, "stored")
      case "input_image":
      case "computer_screenshot":
        return this.image(part.image_url, at)
      case "image":
        return this.media(perImage)
      case "image_generation_call":
        if (typeof part.result === "string") this.payloadBytes += part.result.length
        return this.image(undefined, at)
      case "input_file":
        if (typeof part.file_url === "string") return this.remotely(at, "fetched")
        return typeof part.file_data === "string" ? this.document(part.file_data, at) : this.remotely(at, "stored")
    }
    if (!texts.has(type) && !typeOfOutput.test(type)) return this.refuseType(at, part)
    for (const name of ["content", "output", "outputs", "summary"]) this.parts(part[name], [...at, name], depth + 1)
  }

  private parts(parts: unknown, at: Fault["path"], depth: number): void {
    if (isJson(parts)) this.part(parts, at, depth)
    for (const [index, part] of listIn(parts).entries()) this.part(part, [...at, index], depth)
  }
}

/** An item without a type is a message, or only the id of what is stored. */
const untypedItem = ({ content, role }: Json): string =>
  content === undefined && role === undefined ? "item_reference" : "message"

const deepest = 8

/**
 * The maximum usage of a request of the Responses API that its provider serves itself. What the provider stores or fetches
 * is bounded by what the model can read, if that is known.
 */
export const responsesBound = (body: Json, terms: BoundTerms): TokenUpperBound => {
  const walk = new ItemWalk(terms.imageTokens)
  const items = listIn(body.input)
  for (const [index, item] of items.entries()) walk.part(item, ["input", index])
  if ((body.previous_response_id ?? null) !== null) walk.remotely(["previous_response_id"], "stored")
  if ((body.prompt ?? null) !== null) {
    walk.refuse(["prompt"], "A prompt that the provider stores, which may have tools of its own, has no bound")
  }
  const found = responsesTools(body, terms)
  for (const fault of found.unbounded) walk.unbounded.push(fault)
  walk.members(body, openAiPriced)
  // Compaction has a model read all of the input and summarize it.
  const compacts =
    listIn(body.context_management).length > 0 ||
    items.some((item) => isJson(item) && item.type === "compaction_trigger")
  const elsewhere = walk.requireContext(terms.contextTokens, found.tools)
  const tools = listIn(body.tools).length
  const times = compacts ? 2 : 1
  return {
    inputTokens:
      terms.bodyBytes -
      walk.payloadBytes +
      walk.mediaTokens +
      perRequest +
      perMessage * items.length +
      (tools > 0 ? withTools + perTool * tools : 0),
    mediaTokens: walk.mediaTokens,
    elsewhere,
    readings: times,
    extraOutputTokens: 0,
    choices: times,
    tools: found.tools,
    askedOutputTokens: positive(body.max_output_tokens),
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
