import { Result } from "effect"
import { textIn } from "../../../kernel/json/parsed-json.ts"
import { type Fault } from "../../../kernel/problems/problem.ts"
import { allowedAlone } from "../common-form/allowed-tools.ts"
import { markOf, markOfMessage, withinMarks, withMark } from "../common-form/cache-marks.ts"
import { argumentsIn } from "../common-form/call-arguments.ts"
import { distinctId, withCallResults } from "../common-form/call-results.ts"
import { type ChatMessage, type ChatPart, ChatRequest, openAiAlone } from "../common-form/domain.ts"
import { isUnion, objectSchema } from "../common-form/object-schema.ts"
import { inTurnOrder, partsOf, turnsOf } from "../common-form/turn-order.ts"
import { type Untranslatable } from "../domain.ts"
import { Omissions } from "../omissions.ts"
import { type ModelTraits } from "../traits-domain.ts"
import { toContentBlock } from "./media.ts"
import { takesSampling, thinkingOf, type TurnPiece, turnPiecesIn } from "./thinking.ts"

/** What a translation needs to know about the target model. */
export interface AnthropicTarget {
  readonly model: string
  readonly traits: ModelTraits
  /** The value of Anthropic's required `max_tokens` when the caller set no limit. */
  readonly maxOutputTokens: number
}

type Block = Readonly<Record<string, unknown>>
type Turn = { readonly role: "user" | "assistant"; readonly content: Array<Block> }

const onlyJson = "Answer with one JSON object and nothing else."

/** Members of a chat completion that Anthropic's models do not take. */
const withoutForm = [...openAiAlone, "seed", "presence_penalty", "frequency_penalty"]

/** Translates a chat-completions request to Anthropic's dialect. */
export const chatToMessages = (
  given: ChatRequest,
  target: AnthropicTarget,
  omissions = new Omissions()
): Result.Result<Readonly<Record<string, unknown>>, Untranslatable> => {
  const faults: Array<Fault> = []
  const refuse = (path: Fault["path"], message: string) => faults.push({ path, message })
  const request = withAllowedTools(given, refuse)
  const system: Array<Block> = []
  const turns: Array<Turn> = []
  const ids = new CallIds()
  const say = (role: Turn["role"], content: ReadonlyArray<Block>) => {
    // Anthropic requires alternating turns, and the results of one turn's tools in one message.
    const last = turns.at(-1)
    if (content.length === 0) return
    // A call with as many arguments as a message may have parts overflows the stack.
    if (last?.role === role) for (const block of content) last.content.push(block)
    else turns.push({ role, content: [...content] })
  }

  for (const { at, message } of withCallResults(turnsOf(request.messages))) {
    switch (message.role) {
      case "system":
      case "developer":
        for (const block of markedBlocks(message, at, refuse)) system.push(block)
        break
      case "user":
        say("user", markedBlocks(message, at, refuse))
        break
      case "assistant":
        say("assistant", withMark(turnBlocks(message, at, ids, omissions), markOfMessage(message)))
        break
      case "tool":
        if (typeof message.tool_call_id !== "string") refuse([...at, "tool_call_id"], "Missing key")
        say("user", withMark([ids.resultOf(blocksOf(message, at, refuse))], markOfMessage(message)))
        break
      case "function":
        refuse([...at, "role"], "Functions were replaced by tools; only tools are translated")
    }
  }
  refuseWhatHasNoForm(request, refuse)
  omissions.unread(request, ChatRequest)
  omissions.withoutForm(request, withoutForm)
  trimBeginning(turns)
  // Anthropic rejects a conversation that the model begins.
  if (turns[0]?.role !== "user") turns.unshift({ role: "user", content: beginningOf(turns, system) })

  const maxTokens = request.max_completion_tokens ?? request.max_tokens ?? target.maxOutputTokens
  const format = request.response_format
  if (format?.type === "json_object") system.push({ type: "text", text: onlyJson })
  const isMidway = turns.at(-1)?.content.some(({ type }) => type === "tool_result") ?? false
  const hasThoughts = isThought(turns.at(-2)?.content[0])
  const asked = thinkingOf(request, target.traits, maxTokens, isMidway && !hasThoughts)
  // Anthropic takes thoughts back only where it may think.
  const messages = asked.thinking === undefined ? withoutThoughts(turns) : turns
  const isSampled = takesSampling(target.traits, asked)
  const last = messages.at(-1)
  last?.content.push(...withMark(last.content.splice(-1), markOf(request.cache_control)))
  const translated: Record<string, unknown> = { model: target.model, max_tokens: maxTokens, messages }
  if (system.length > 0) translated.system = system
  if (typeof request.temperature === "number" && isSampled) translated.temperature = Math.min(1, request.temperature)
  // 1 is the default, and newer models reject two sampling parameters at once.
  if (typeof request.top_p === "number" && request.top_p !== 1 && isSampled) translated.top_p = request.top_p
  // Anthropic rejects stop sequences that consist of whitespace.
  const stop = (typeof request.stop === "string" ? [request.stop] : (request.stop ?? [])).filter(
    (sequence) => sequence.trim() !== ""
  )
  if (stop.length > 0) translated.stop_sequences = stop
  if (typeof request.stream === "boolean") translated.stream = request.stream
  const tools = toolsOf(request, refuse)
  if (tools.length > 0) translated.tools = tools
  if ((request.mcp_servers ?? []).length > 0) translated.mcp_servers = request.mcp_servers
  const choice = toolChoiceOf(request, refuse)
  if (tools.length > 0 && choice !== undefined) translated.tool_choice = choice
  const schema = format?.type === "json_schema" ? format.json_schema?.schema : undefined
  if (schema || asked.effort !== undefined) {
    translated.output_config = {
      ...(schema ? { format: { type: "json_schema", schema } } : {}),
      ...(asked.effort === undefined ? {} : { effort: asked.effort })
    }
  }
  if (asked.thinking !== undefined) translated.thinking = asked.thinking
  const user = request.safety_identifier ?? request.user
  if (typeof user === "string") translated.metadata = { user_id: user }
  return faults.length > 0 ? Result.fail(faults) : Result.succeed(withinMarks(translated, omissions))
}

/** What a conversation that the model begins has before it: instructions, if there is nothing else. */
const beginningOf = (turns: ReadonlyArray<Turn>, system: Array<Block>): Array<Block> =>
  turns.length === 0 && system.length > 0 ? system.splice(0) : [{ type: "text", text: "Begin." }]

/** Ids of calls as Anthropic takes them: other vendors use dots and colons in theirs, or the same id again. */
class CallIds {
  private readonly known = new Map<string, number>()
  private readonly open: Array<string> = []
  private answered = 0

  /** The id of the next call. */
  of(given: string): string {
    const plain = given.replaceAll(/[^a-zA-Z0-9_-]/g, "_") || "call"
    const id = distinctId(plain, this.known)
    this.open.push(id)
    return id
  }

  /** The result of the first call without one: results are in the order of the calls. */
  resultOf(content: ReadonlyArray<Block>): Block {
    return { type: "tool_result", tool_use_id: this.open[this.answered++] ?? "", content }
  }
}

/** The blocks of an assistant's turn, with the thoughts where they were. */
const turnBlocks = (
  message: ChatMessage,
  at: Fault["path"],
  ids: CallIds,
  omissions: Omissions
): ReadonlyArray<Block> => {
  // What else another provider's model gave means nothing to Anthropic's.
  const said = blocksOf(message, at, (_, __, part) => omissions.item(part?.type))
  const uses = (message.tool_calls ?? []).map(({ function: called, id }) => {
    return { id, part: { type: "tool_use", id: ids.of(id), name: called.name, input: argumentsIn(called.arguments) } }
  })
  const state = turnPiecesIn(message.turn_state)
  if (state.length === 0) return [...said, ...uses.map(({ part }) => part)]
  const text = partsOf(message.content)
    .map(({ refusal, text: words, type }) => (type === "text" ? words : type === "refusal" ? refusal : "") ?? "")
    .join("")
  const blocks = inTurnOrder<Block, TurnPiece>(
    { text, calls: uses, state },
    // Anthropic rejects blank texts, which its own models may write between thoughts.
    { text: textBlocks, call: (use) => use, own: (thought) => thought }
  )
  // Anthropic rejects a turn that ends in a thought.
  return blocks.slice(0, blocks.findLastIndex((block) => !isThought(block)) + 1)
}

const isThought = (block: Block | undefined): boolean => textIn(block?.type).endsWith("thinking")

const withoutThoughts = (turns: ReadonlyArray<Turn>): ReadonlyArray<Turn> =>
  turns
    .map(({ content, role }) => ({ role, content: content.filter((block) => !isThought(block)) }))
    .filter(({ content }) => content.length > 0)

/** Anthropic rejects a prefilled answer that ends in whitespace. */
const trimBeginning = (turns: Array<Turn>): void => {
  const last = turns.at(-1)
  const block = last?.role === "assistant" ? last.content.at(-1) : undefined
  if (last === undefined || block?.type !== "text") return
  last.content.splice(-1, 1, ...textBlocks(String(block.text).trimEnd()))
  if (last.content.length === 0) turns.pop()
}

type Refuse = (path: Fault["path"], message: string, part?: ChatPart) => void

/** Anthropic rejects texts that are blank. */
const textBlocks = (text: string): ReadonlyArray<Block> => (text.trim() === "" ? [] : [{ type: "text", text }])

const blocksOf = ({ content }: ChatMessage, at: Fault["path"], refuse: Refuse): ReadonlyArray<Block> =>
  partsOf(content).flatMap((part, index) => partBlocks(part, [...at, "content", index], refuse))

/** The blocks of a message, each with its mark of the prompt cache. */
const markedBlocks = (message: ChatMessage, at: Fault["path"], refuse: Refuse): ReadonlyArray<Block> => {
  const blocks = partsOf(message.content).flatMap((part, index) =>
    withMark(partBlocks(part, [...at, "content", index], refuse), markOf(part.cache_control))
  )
  return withMark(blocks, markOf(message.cache_control))
}

const partBlocks = (part: ChatPart, at: Fault["path"], refuse: Refuse): ReadonlyArray<Block> => {
  if (part.type === "text") return textBlocks(part.text ?? "")
  if (part.type === "refusal") return textBlocks(part.refusal ?? "")
  const block = toContentBlock(part)
  if (typeof block === "object") return [block]
  refuse([...at, "type"], block, part)
  return []
}

/** Tools that Anthropic runs. */
const ownTool = /^(?:web_search_\d{8}|code_execution_\d{8}|mcp_toolset)$/

const toolsOf = (request: ChatRequest, refuse: Refuse): ReadonlyArray<Block> =>
  (request.tools ?? []).flatMap((tool, index): ReadonlyArray<Block> => {
    if (ownTool.test(tool.type)) return [tool]
    if (tool.type !== "function" || !tool.function) {
      refuse(["tools", index, "type"], `Only tools of type function are translated, not ${tool.type}`)
      return []
    }
    const { description, name, parameters, strict } = tool.function
    const translated = {
      name,
      ...(typeof description === "string" ? { description } : {}),
      // A merged schema is wider than the one that the caller calls strict.
      ...(typeof strict === "boolean" && !isUnion(parameters ?? {}) ? { strict } : {}),
      // OpenAI accepts an empty schema for a tool without parameters; Anthropic requires its type to be `object`.
      input_schema: objectSchema(parameters)
    }
    return withMark([translated], markOf(tool.cache_control))
  })

/** A request that declares the tools alone that it allows, since Anthropic's API has no list of those. */
const withAllowedTools = (request: ChatRequest, refuse: Refuse): ChatRequest => {
  const { tool_choice: asked } = request
  if (typeof asked !== "object" || asked === null || !("allowed_tools" in asked)) return request
  const { mode, tools } = asked.allowed_tools
  const names = new Set(tools.map(({ function: called }) => called?.name))
  const { choice, tools: allowed } = allowedAlone(mode, request.tools ?? [], ({ function: called, name }) =>
    names.has(called?.name ?? name ?? "")
  )
  if (mode === "required" && choice === "none") {
    refuse(["tool_choice", "allowed_tools"], "None of the tools that may be called is declared")
  }
  return { ...request, tools: allowed, tool_choice: choice }
}

const toolChoiceOf = (request: ChatRequest, refuse: Refuse): Block | undefined => {
  const { parallel_tool_calls: parallel, tool_choice: asked } = request
  const alone = parallel === false ? { disable_parallel_tool_use: true } : {}
  if (typeof asked === "object" && asked !== null) {
    if (asked.type === "function" && asked.function) return { type: "tool", name: asked.function.name, ...alone }
    refuse(["tool_choice", "type"], `A choice of type ${asked.type} is not translated`)
    return undefined
  }
  if (asked === "none") return { type: "none" }
  if (asked === "required") return { type: "any", ...alone }
  return typeof asked === "string" || parallel === false ? { type: "auto", ...alone } : undefined
}

const refuseWhatHasNoForm = (request: ChatRequest, refuse: Refuse): void => {
  if ((request.n ?? 1) !== 1) refuse(["n"], "Anthropic's models give one choice")
  if (request.logprobs === true) refuse(["logprobs"], "Anthropic's models give no log probabilities")
  if (request.modalities?.some((modality) => modality !== "text")) refuse(["modalities"], "Only text is translated")
  if ((request.functions?.length ?? 0) > 0) refuse(["functions"], "Functions were replaced by tools")
  if (request.web_search_options !== undefined && request.web_search_options !== null) {
    refuse(["web_search_options"], "A provider's own tools are not translated")
  }
}
