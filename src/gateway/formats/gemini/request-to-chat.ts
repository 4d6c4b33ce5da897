import { Result } from "effect"
import { hasInexactInteger, isJson, type Json } from "../../../kernel/json/parsed-json.ts"
import { type Fault } from "../../../kernel/problems/problem.ts"
import { isStrict } from "../common-form/strict-schema.ts"
import { isSealedState } from "../common-form/turn-state.ts"
import { type Untranslatable } from "../domain.ts"
import { Omissions } from "../omissions.ts"
import { type Content, type GenerateRequest, type GenerationConfig, type Part } from "./domain.ts"
import { effortOf } from "./members.ts"
import { toChatPart } from "./members.ts"
import { toJsonSchema } from "./members.ts"

type Refuse = (path: Fault["path"], message: string) => void

/** The members of a request that are in its path. */
export interface ChatTarget {
  readonly model: string
  readonly stream: boolean
}

/** Translates a request of a caller to a chat request; a stream always requests its usage. */
export const requestToChat = (
  request: GenerateRequest,
  { model, stream }: ChatTarget,
  omissions = new Omissions()
): Result.Result<Json, Untranslatable> => {
  const faults: Array<Fault> = []
  const refuse: Refuse = (path, message) => faults.push({ path, message })
  if (request.cachedContent) refuse(["cachedContent"], "Cached contents are not kept here; send all contents")
  const system = systemOf(request.systemInstruction, refuse)
  const conversation = new Conversation(request.contents, refuse, omissions)
  for (const { isModel, placed } of turnsOf(request.contents, refuse)) {
    if (isModel) conversation.model(placed)
    else conversation.user(placed)
  }
  const translated: Record<string, unknown> = {
    model,
    messages: [...(system === "" ? [] : [{ role: "system", content: system }]), ...conversation.messages],
    ...configMembers(request.generationConfig ?? {}, refuse),
    ...toolMembers(request, refuse)
  }
  if (stream) {
    translated.stream = true
    translated.stream_options = { include_usage: true }
  }
  return faults.length > 0 ? Result.fail(faults) : Result.succeed(translated)
}

/** Whether a caller asked for the thoughts of the model. */
export const asksForThoughts = ({ generationConfig }: GenerateRequest): boolean =>
  generationConfig?.thinkingConfig?.includeThoughts === true

const systemOf = (given: GenerateRequest["systemInstruction"], refuse: Refuse): string => {
  if (typeof given === "string") return given
  const parts = given?.parts ?? []
  for (const [index, { text }] of parts.entries()) {
    if (typeof text !== "string") refuse(["systemInstruction", "parts", index], "Only text instructs a model")
  }
  return parts.map(({ text }) => text ?? "").join("\n\n")
}

interface Placed {
  readonly part: Part
  readonly at: Fault["path"]
}

interface PlacedTurn {
  readonly isModel: boolean
  readonly placed: Array<Placed>
}

/** Roles of what is not the model's; results were once in contents of their own. */
const userRoles: ReadonlySet<string> = new Set(["user", "function", "tool"])

/**
 * The turns of a conversation. Google's SDK keeps a streamed turn as one content for each element, and some clients send a
 * content for each result: parallel calls, and their results, belong together.
 */
const turnsOf = (contents: ReadonlyArray<Content>, refuse: Refuse): ReadonlyArray<PlacedTurn> => {
  const turns: Array<PlacedTurn> = []
  for (const [index, { parts, role }] of contents.entries()) {
    const isModel = role === "model"
    if (role && !isModel && !userRoles.has(role)) {
      refuse(["contents", index, "role"], `Expected user or model, not ${role}`)
    }
    const last = turns.at(-1)
    const turn = last?.isModel === isModel ? last : { isModel, placed: [] }
    if (turn !== last) turns.push(turn)
    for (const [place, part] of (parts ?? []).entries()) {
      turn.placed.push({ part, at: ["contents", index, "parts", place] })
    }
  }
  return turns
}

interface OpenCall {
  readonly id: string
  readonly name: string
}

/** Calls that have no result yet, in their order, by their ids and names. */
class OpenCalls {
  private readonly byName = new Map<string, Set<string>>()
  private readonly names = new Map<string, string>()

  add({ id, name }: OpenCall): void {
    this.names.set(id, name)
    const known = this.byName.get(name) ?? new Set()
    this.byName.set(name, known.add(id))
  }

  close(id: string): void {
    this.byName.get(this.names.get(id) ?? "")?.delete(id)
  }

  /** The first one of a name, which it closes. */
  first(name: string): string | undefined {
    const [id] = this.byName.get(name) ?? []
    if (id !== undefined) this.close(id)
    return id
  }
}

/** Parts of a model that mean nothing to another provider. */
const leftOut = ["executableCode", "codeExecutionResult", "toolCall", "toolResponse", "inlineData", "fileData"] as const

/** Members of a part that say how a medium is read. */
const hints = ["videoMetadata", "mediaResolution"] as const

/** The messages of a conversation. Results find their calls by id, or else by name and order. */
class Conversation {
  readonly messages: Array<Json> = []
  /** Calls that have no result yet, and the ids of all. */
  private readonly open = new OpenCalls()
  private readonly ids = new Set<string>()
  /** The ids that the caller gave, which no other call may get. */
  private readonly given: ReadonlySet<string | null | undefined>
  private readonly refuse: Refuse
  private readonly omissions: Omissions

  constructor(contents: ReadonlyArray<Content>, refuse: Refuse, omissions: Omissions) {
    this.omissions = omissions
    this.given = new Set(contents.flatMap(({ parts }) => (parts ?? []).map((part) => part.functionCall?.id)))
    this.refuse = refuse
  }

  model(placed: ReadonlyArray<Placed>): void {
    const states: Array<string> = []
    const calls: Array<Json> = []
    let text = ""
    for (const { part, at } of placed) {
      const { functionCall: called } = part
      const id = called ? this.idOf(called.id, at) : undefined
      if (called && id !== undefined) {
        this.open.add({ id, name: called.name })
        const args = JSON.stringify(called.args ?? {})
        calls.push({ id, type: "function", function: { name: called.name, arguments: args } })
      }
      // Thoughts, what Google's own tools did, and what the model drew mean nothing to another provider.
      else if (part.thought !== true) text += part.text ?? ""
      for (const name of leftOut) if ((part[name] ?? null) !== null) this.omissions.item(name)
      if (isSealedState(part.thoughtSignature)) states.push(part.thoughtSignature)
    }
    if (text === "" && calls.length === 0) return
    this.messages.push({
      role: "assistant",
      content: text === "" ? null : text,
      ...(calls.length === 0 ? {} : { tool_calls: calls }),
      ...(states.length === 0 ? {} : { turn_state: states })
    })
  }

  /** The id of a call; a call without one gets one by its place, which is the same in each turn. */
  private idOf(given: string | null | undefined, [, content, , part]: Fault["path"]): string {
    let id = `call_${content}_${part}`
    while (this.given.has(id)) id += "_"
    this.ids.add(given || id)
    return given || id
  }

  user(placed: ReadonlyArray<Placed>): void {
    const results: Array<Json> = []
    const parts: Array<Json> = []
    const media = (data: NonNullable<Part["inlineData"]>, at: Fault["path"]) => {
      const part = toChatPart(data)
      if (typeof part === "object") parts.push(part)
      else this.refuse(at, part)
    }
    for (const { part, at } of placed) {
      const { functionResponse: result, inlineData, text } = part
      for (const name of hints) if ((part[name] ?? null) !== null) this.omissions.item(name)
      if (result) {
        const call = this.answered(result)
        results.push({ role: "tool", tool_call_id: call, content: resultText(result.response ?? {}) })
        // A tool message holds text only, so images follow the results.
        for (const [index, { fileData, inlineData }] of (result.parts ?? []).entries()) {
          const place = [...at, "functionResponse", "parts", index]
          if (inlineData) media(inlineData, [...place, "inlineData"])
          else if (fileData) this.refuse([...place, "fileData"], byReference)
        }
      } else if (inlineData) media(inlineData, [...at, "inlineData"])
      else if (part.fileData) this.refuse([...at, "fileData"], byReference)
      else if (typeof text === "string") parts.push({ type: "text", text })
      else this.refuse(at, "Only text, data and results of functions are translated")
    }
    for (const message of results) this.messages.push(message)
    if (parts.length > 0) this.messages.push({ role: "user", content: parts })
  }

  /** The id of the call that a result answers; of a call that is missing, what is known of it. */
  private answered({ id, name }: NonNullable<Part["functionResponse"]>): string {
    if (id && this.ids.has(id)) {
      this.open.close(id)
      return id
    }
    return this.open.first(name ?? "") ?? (id || (name ?? ""))
  }
}

const byReference = "Files are not fetched here; send the data as inlineData"

/** The text of a result: that of its `output`, if it is a text that is not read as another result. */
const resultText = (response: Json): string => {
  const { output, ...rest } = response
  const isPlain = typeof output === "string" && Object.keys(rest).length === 0 && resultOf(output) === undefined
  return isPlain ? output : JSON.stringify(response)
}

/** The result that a text holds as an object; undefined for any other text, and where its numbers would lose digits. */
export const resultOf = (text: string): Json | undefined => {
  if (!text.trimStart().startsWith("{")) return undefined
  try {
    const value: unknown = JSON.parse(text)
    return isJson(value) && !hasInexactInteger(value) ? value : undefined
  } catch {
    return undefined
  }
}

const untranslated = ["responseFormat", "routingConfig", "modelSelectionConfig"] as const

const at = (name: string): Fault["path"] => ["generationConfig", name]

const configMembers = (config: GenerationConfig, refuse: Refuse): Json => {
  for (const name of untranslated) {
    if ((config[name] ?? null) !== null) refuse(at(name), "This member is not translated; leave it out")
  }
  if (config.responseLogprobs === true) refuse(at("responseLogprobs"), "Log probabilities are not translated")
  if (config.responseModalities?.some((modality) => modality.toUpperCase() !== "TEXT")) {
    refuse(at("responseModalities"), "Only text is translated")
  }
  const { candidateCount, frequencyPenalty, maxOutputTokens, presencePenalty, seed, temperature, topP } = config
  const effort = effortOf(config.thinkingConfig)
  const format = formatOf(config, refuse)
  const members = {
    temperature,
    top_p: topP,
    max_completion_tokens: numberOf(maxOutputTokens),
    n: numberOf(candidateCount),
    stop: (config.stopSequences ?? []).length > 0 ? config.stopSequences : undefined,
    seed: numberOf(seed),
    presence_penalty: presencePenalty,
    frequency_penalty: frequencyPenalty,
    response_format: format,
    reasoning_effort: effort,
    reasoning_summary: config.thinkingConfig?.includeThoughts === true ? "auto" : undefined
  }
  return Object.fromEntries(Object.entries(members).filter(([, value]) => (value ?? null) !== null))
}

const numberOf = (value: number | string | null | undefined): number | undefined =>
  value === undefined || value === null ? undefined : Number(value)

const formatOf = (config: GenerationConfig, refuse: Refuse): Json | undefined => {
  const { responseJsonSchema, responseMimeType, responseSchema } = config
  const schema = responseJsonSchema ?? (responseSchema ? toJsonSchema(responseSchema) : undefined)
  const type = responseMimeType ?? (schema ? "application/json" : "text/plain")
  if (type === "text/plain") return undefined
  if (type !== "application/json") {
    refuse(["generationConfig", "responseMimeType"], `Expected text/plain or application/json, not ${type}`)
  }
  return schema
    ? { type: "json_schema", json_schema: { name: "answer", schema, strict: isStrict(schema) } }
    : { type: "json_object" }
}

const toolMembers = (request: GenerateRequest, refuse: Refuse): Json => {
  const functions = (request.tools ?? []).flatMap(({ functionDeclarations, ...others }, index) => {
    for (const name in others) {
      if ((others[name] ?? null) !== null) refuse(["tools", index, name], "A tool that Google runs is not translated")
    }
    return (functionDeclarations ?? []).map(({ description, name, parameters, parametersJsonSchema }) => ({
      type: "function",
      function: {
        name,
        ...(typeof description === "string" ? { description } : {}),
        parameters: parametersJsonSchema ?? (parameters ? toJsonSchema(parameters) : { type: "object", properties: {} })
      }
    }))
  })
  if (functions.length === 0) return {}
  const { allowedFunctionNames, mode } = request.toolConfig?.functionCallingConfig ?? {}
  const path = ["toolConfig", "functionCallingConfig"]
  const choice = toolChoices[mode ?? "AUTO"]
  if (choice === undefined) refuse([...path, "mode"], `Expected AUTO, ANY, NONE or VALIDATED, not ${mode}`)
  const names = allowedFunctionNames ?? []
  for (const [index, name] of names.entries()) {
    if (!functions.some((tool) => tool.function.name === name)) {
      refuse([...path, "allowedFunctionNames", index], `No function ${name} is declared`)
    }
  }
  // Only what is allowed is declared, which every provider understands and none reads more widely.
  const allowed = names.length === 0 ? functions : functions.filter((tool) => names.includes(tool.function.name))
  return { tools: allowed, ...(choice === undefined || (mode ?? null) === null ? {} : { tool_choice: choice }) }
}

const toolChoices: Readonly<Record<string, string | undefined>> = {
  MODE_UNSPECIFIED: "auto",
  AUTO: "auto",
  VALIDATED: "auto",
  ANY: "required",
  NONE: "none"
}
