import { Result } from "effect"
import { type Json } from "../../../kernel/json/parsed-json.ts"
import { type Fault } from "../../../kernel/problems/problem.ts"
import { hasMarks } from "../common-form/cache-marks.ts"
import { withCallResults } from "../common-form/call-results.ts"
import { type ChatMessage, type ChatPart, ChatRequest, openAiAlone } from "../common-form/domain.ts"
import { objectSchema } from "../common-form/object-schema.ts"
import { partsOf as contentParts, turnsOf } from "../common-form/turn-order.ts"
import { type Untranslatable } from "../domain.ts"
import { Omissions } from "../omissions.ts"
import { type ModelTraits } from "../traits-domain.ts"
import { thinkingOf } from "./members.ts"
import { toInlinePart } from "./members.ts"
import { resultOf } from "./request-to-chat.ts"
import { callPart, partsOfTurn, turnPartsIn, withSignedCall, type WrittenPart } from "./turn-parts.ts"

type Refuse = (path: Fault["path"], message: string) => void
type Role = "user" | "model"

/** The most stop sequences that Gemini takes. */
const maxStops = 5

/** Members of a chat completion that Gemini's models do not take. */
const withoutForm = [...openAiAlone, "user", "safety_identifier"]

/** Translates a chat request to one of Gemini's; the model and whether it streams are in the path of a request. */
export const chatToRequest = (
  request: ChatRequest,
  target: { readonly traits: ModelTraits },
  omissions = new Omissions()
): Result.Result<Json, Untranslatable> => {
  const faults: Array<Fault> = []
  const refuse: Refuse = (path, message) => faults.push({ path, message })
  const system: Array<WrittenPart> = []
  const contents: Array<{ readonly role: Role; readonly parts: Array<WrittenPart> }> = []
  /** The calls without a result, which come in their order. */
  const open: Array<OpenCall> = []
  let answered = 0
  const say = (role: Role, parts: ReadonlyArray<WrittenPart>) => {
    // Turns alternate, and the results of parallel calls are in one content.
    const last = contents.at(-1)
    if (parts.length === 0) return
    if (last?.role === role) for (const part of parts) last.parts.push(part)
    else contents.push({ role, parts: [...parts] })
  }
  for (const { at, message } of withCallResults(turnsOf(request.messages, () => true))) {
    switch (message.role) {
      case "system":
      case "developer":
        for (const part of partsOf(message, at, refuse)) system.push(part)
        break
      case "user":
        say("user", partsOf(message, at, refuse))
        break
      case "assistant":
        for (const { function: called, id } of message.tool_calls ?? []) open.push({ id, name: called.name })
        say("model", modelParts(message, omissions))
        break
      case "tool":
        say("user", resultParts(message, open[answered++], at, refuse))
        break
      case "function":
        refuse([...at, "role"], "Functions were replaced by tools; only tools are translated")
    }
  }
  refuseWhatHasNoForm(request, refuse)
  omissions.unread(request, ChatRequest)
  omissions.withoutForm(request, withoutForm)
  if (hasMarks(request)) omissions.member("cache_control")
  if (request.parallel_tool_calls === false) omissions.member("parallel_tool_calls")
  // Gemini refuses calls that no turn of the user precedes.
  if (contents[0]?.role === "model") contents.unshift({ role: "user", parts: [...beginning] })
  const translated: Record<string, unknown> =
    // Instructions alone are no conversation.
    contents.length === 0
      ? { contents: [{ role: "user", parts: system.length === 0 ? beginning : system }] }
      : { contents, ...(system.length === 0 ? {} : { systemInstruction: { parts: system } }) }
  const config = configOf(request, target.traits, refuse)
  if (Object.keys(config).length > 0) translated.generationConfig = config
  Object.assign(translated, toolMembers(request, refuse))
  return faults.length > 0 ? Result.fail(faults) : Result.succeed(translated)
}

/** What a conversation begins with in which a caller says nothing; Google refuses a turn without parts. */
const beginning: ReadonlyArray<WrittenPart> = [{ text: "Begin." }]

const textParts = (text: string): ReadonlyArray<WrittenPart> => (text === "" ? [] : [{ text }])

const partsOf = ({ content }: ChatMessage, at: Fault["path"], refuse: Refuse): ReadonlyArray<WrittenPart> => {
  if (typeof content === "string") return textParts(content)
  return (content ?? []).flatMap((part, index) => {
    if (part.type === "text" || part.type === "refusal") return textParts(textOf(part))
    const written = toInlinePart(part)
    if (typeof written === "object") return [written]
    refuse([...at, "content", index, "type"], written)
    return []
  })
}

const textOf = ({ refusal, text, type }: ChatPart): string =>
  (type === "text" ? text : type === "refusal" ? refusal : "") ?? ""

const modelParts = (message: ChatMessage, omissions: Omissions): ReadonlyArray<WrittenPart> => {
  const { content } = message
  const calls = (message.tool_calls ?? []).map(({ function: called, id }) => {
    return { id, part: callPart(id, called.name, called.arguments) }
  })
  // What else another provider's model gave means nothing to Gemini.
  for (const { type } of contentParts(content)) if (type !== "text" && type !== "refusal") omissions.item(type)
  return withSignedCall(
    partsOfTurn({
      text: contentParts(content).map(textOf).join(""),
      calls,
      state: turnPartsIn(message.turn_state)
    })
  )
}

interface OpenCall {
  readonly id: string
  readonly name: string
}

const resultParts = (
  message: ChatMessage,
  call: OpenCall | undefined,
  at: Fault["path"],
  refuse: Refuse
): ReadonlyArray<WrittenPart> => {
  if (typeof message.tool_call_id !== "string") refuse([...at, "tool_call_id"], "Missing key")
  const parts = partsOf(message, at, refuse)
  const texts = parts.flatMap(({ text }) => (typeof text === "string" ? [text] : []))
  const text = texts.join("\n")
  const response = resultOf(text) ?? { output: text }
  return [
    { functionResponse: { id: call?.id ?? "", name: call?.name ?? "", response } },
    ...parts.filter((part) => part.text === undefined)
  ]
}

const configOf = (request: ChatRequest, traits: ModelTraits, refuse: Refuse): Json => {
  const stop = typeof request.stop === "string" ? [request.stop] : (request.stop ?? [])
  if (stop.length > maxStops) refuse(["stop"], `Gemini's models take at most ${maxStops}`)
  const format = request.response_format
  const schema = format?.type === "json_schema" ? format.json_schema?.schema : undefined
  const isJsonAsked = format?.type === "json_schema" || format?.type === "json_object"
  const members = {
    temperature: request.temperature,
    topP: request.top_p,
    maxOutputTokens: request.max_completion_tokens ?? request.max_tokens,
    candidateCount: (request.n ?? 1) === 1 ? undefined : request.n,
    stopSequences: stop.length > 0 ? stop : undefined,
    seed: request.seed,
    presencePenalty: request.presence_penalty,
    frequencyPenalty: request.frequency_penalty,
    responseMimeType: isJsonAsked ? "application/json" : undefined,
    responseJsonSchema: schema,
    thinkingConfig: thinkingOf(request.reasoning_effort, traits)
  }
  return Object.fromEntries(Object.entries(members).filter(([, value]) => (value ?? null) !== null))
}

const toolMembers = (request: ChatRequest, refuse: Refuse): Json => {
  const functions = (request.tools ?? []).flatMap((tool, index) => {
    if (tool.type !== "function" || !tool.function) {
      refuse(["tools", index, "type"], `Only tools of type function are translated, not ${tool.type}`)
      return []
    }
    const { description, name, parameters } = tool.function
    return [
      {
        name,
        ...(typeof description === "string" ? { description } : {}),
        parametersJsonSchema: objectSchema(parameters)
      }
    ]
  })
  if (functions.length === 0) return {}
  const { mode, names } = choiceOf(request.tool_choice, refuse)
  for (const name of names ?? []) {
    if (!functions.some((one) => one.name === name)) refuse(["tool_choice"], `No function ${name} is declared`)
  }
  // Where a model may also answer in words, only what is allowed is declared.
  const declared = names === undefined ? functions : functions.filter(({ name }) => names.includes(name))
  if (declared.length === 0) return {}
  const config = { mode, ...(names === undefined || mode !== "ANY" ? {} : { allowedFunctionNames: names }) }
  return {
    tools: [{ functionDeclarations: mode === "ANY" ? functions : declared }],
    ...(mode === undefined ? {} : { toolConfig: { functionCallingConfig: config } })
  }
}

interface Choice {
  readonly mode?: "AUTO" | "ANY" | "NONE"
  readonly names?: ReadonlyArray<string>
}

const choiceOf = (asked: ChatRequest["tool_choice"], refuse: Refuse): Choice => {
  if (asked === undefined || asked === null) return {}
  if (asked === "none") return { mode: "NONE" }
  if (asked === "required") return { mode: "ANY" }
  if (asked === "auto") return { mode: "AUTO" }
  if ("allowed_tools" in asked) {
    const { mode, tools } = asked.allowed_tools
    const names = tools.flatMap((tool) => (tool.type === "function" && tool.function ? [tool.function.name] : []))
    if (names.length < tools.length) refuse(["tool_choice", "allowed_tools"], "Only functions are translated")
    return { mode: mode === "required" ? "ANY" : "AUTO", names }
  }
  if (asked.type === "function" && asked.function) return { mode: "ANY", names: [asked.function.name] }
  refuse(["tool_choice", "type"], `A choice of type ${asked.type} is not translated`)
  return {}
}

const refuseWhatHasNoForm = (request: ChatRequest, refuse: Refuse): void => {
  if (request.logprobs === true) refuse(["logprobs"], "Log probabilities are not translated")
  if (request.modalities?.some((modality) => modality !== "text")) refuse(["modalities"], "Only text is translated")
  if ((request.functions?.length ?? 0) > 0) refuse(["functions"], "Functions were replaced by tools")
  if ((request.mcp_servers?.length ?? 0) > 0) refuse(["mcp_servers"], "Gemini's models reach no MCP servers")
  if (request.web_search_options !== undefined && request.web_search_options !== null) {
    refuse(["web_search_options"], "A provider's own tools are not translated")
  }
}
