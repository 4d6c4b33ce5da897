import { parsedJson } from "../../../src/kernel/json/parsed-json.ts"
import { type Json } from "./gists.ts"

/** What a request asks for, whatever its format. */
export interface RequestGist {
  readonly system: string
  /** What was said in its order: texts by who said them, calls with their inputs, and results. */
  readonly turns: ReadonlyArray<string>
  /** How many of each kind of media it has; results that have any may be followed by them. */
  readonly media: Readonly<Record<string, number>>
  readonly tools: ReadonlyArray<string>
  readonly schema: unknown
}

const list = (value: unknown): ReadonlyArray<Json> => (Array.isArray(value) ? value : value ? [value] : [])
const partsOf = (content: Json): ReadonlyArray<Json> =>
  typeof content === "string" ? [{ type: "text", text: content }] : list(content)

const bare = (text: string): string => text.replaceAll(/\s+/g, "")

/** Collects what is said, and joins texts of one role that stand in sequence. */
class Turns {
  private readonly said: Array<{ readonly who: string; text: string }> = []
  readonly media: Record<string, number> = {}
  system = ""

  text(who: string, text: unknown): void {
    if (typeof text !== "string" || text === "") return
    if (who === "system" || who === "developer") this.system += text
    else if (this.said.at(-1)?.who === who) this.said.at(-1)!.text += text
    else this.said.push({ who, text })
  }

  call(name: unknown, input: unknown): void {
    const value = typeof input === "string" ? (parsedJson(input || "{}") ?? input) : (input ?? {})
    this.said.push({ who: `call ${name}`, text: JSON.stringify(value) })
  }

  result(text: string): void {
    this.said.push({ who: "result", text })
  }

  medium(kind: string): void {
    this.media[kind] = (this.media[kind] ?? 0) + 1
  }

  gist(tools: ReadonlyArray<unknown>, schema: unknown): RequestGist {
    return {
      system: bare(this.system),
      turns: this.said.map(({ text, who }) => `${who}: ${bare(text)}`),
      media: Object.fromEntries(Object.entries(this.media).toSorted(([a], [b]) => (a < b ? -1 : 1))),
      tools: tools.map(String).toSorted(),
      schema
    }
  }
}

const kindOfType = (type: unknown): string =>
  /^(image|audio|video)\//.exec(String(type))?.[1] ?? (String(type).startsWith("text/") ? "text document" : "document")
const kindOfAddress = (url: unknown): string => {
  const type = /^data:([^;,]+)/.exec(String(url))?.[1]
  return type === undefined ? "image" : kindOfType(type)
}

const chatPart = (turns: Turns, who: string, part: Json): void => {
  switch (part.type) {
    case "image_url":
      return turns.medium(kindOfAddress(part.image_url?.url ?? part.image_url))
    case "file":
      return turns.medium(kindOfAddress(part.file?.file_data ?? "data:document"))
    case "input_audio":
      return turns.medium("audio")
    case "video_url":
      return turns.medium("video")
    case "thinking":
      return
    default:
      return turns.text(who, part.text ?? part.refusal)
  }
}

const chatGist = ({ functions, messages, response_format: format, tools }: Json): RequestGist => {
  const turns = new Turns()
  for (const { content, refusal, role, tool_calls: calls } of list(messages)) {
    if (role === "tool" || role === "function") {
      turns.result(
        partsOf(content)
          .map(({ text }) => text ?? "")
          .join("")
      )
      for (const part of partsOf(content)) if (part.type !== "text") chatPart(turns, "user", part)
      continue
    }
    for (const part of partsOf(content)) chatPart(turns, role, part)
    turns.text(role, refusal)
    for (const { custom, function: called } of list(calls))
      turns.call((called ?? custom)?.name, called?.arguments ?? custom?.input)
  }
  const names = list(tools).flatMap(({ custom, function: tool }) => (tool ?? custom)?.name ?? [])
  return turns.gist([...names, ...list(functions).map(({ name }) => name)], format?.json_schema?.schema)
}

const messageBlock = (turns: Turns, who: string, block: Json): void => {
  switch (block.type) {
    case "text":
      return turns.text(who, block.text)
    case "image":
      return turns.medium("image")
    case "document": {
      const { data, type } = block.source ?? {}
      return type === "text" ? turns.text(who, data) : turns.medium("document")
    }
    case "compaction":
      return turns.text(who, block.content)
    case "tool_use":
      return turns.call(block.name, block.input)
    case "tool_result":
      turns.result(
        partsOf(block.content)
          .map(({ text }) => text ?? "")
          .join("")
      )
      for (const part of partsOf(block.content)) if (part.type !== "text") messageBlock(turns, "user", part)
  }
}

const messagesGist = ({ messages, output_config: output, output_format: format, system, tools }: Json): RequestGist => {
  const turns = new Turns()
  for (const { text } of partsOf(system)) turns.text("system", text)
  for (const { content, role } of list(messages)) for (const block of partsOf(content)) messageBlock(turns, role, block)
  const names = list(tools).flatMap(({ name, type = "custom" }) => (type === "custom" ? [name] : []))
  return turns.gist(names, (output?.format ?? format)?.schema)
}

const responsePart = (turns: Turns, who: string, part: Json): void => {
  if (part.type === "input_image") turns.medium(kindOfAddress(part.image_url))
  else if (part.type === "input_file") turns.medium(kindOfAddress(part.file_data ?? "data:document"))
  else if (part.type === "input_audio") turns.medium("audio")
  else turns.text(who, part.text ?? part.refusal)
}

const responsesGist = ({ input, instructions, text, tools }: Json): RequestGist => {
  const turns = new Turns()
  turns.text("system", instructions)
  for (const item of typeof input === "string" ? [{ role: "user", content: input }] : list(input)) {
    const { arguments: called, content, input: given, name, output, role, type = "message" } = item
    if (type === "message") for (const part of partsOf(content)) responsePart(turns, role, part)
    else if (type === "function_call" || type === "custom_tool_call") turns.call(name, called ?? given)
    else if (type === "function_call_output" || type === "custom_tool_call_output") {
      turns.result(
        partsOf(output)
          .map((part) => part.text ?? "")
          .join("")
      )
      for (const part of partsOf(output)) if (!String(part.type).endsWith("text")) responsePart(turns, "user", part)
    }
  }
  // Newer clients send tools among the items.
  const all = [...list(tools), ...list(typeof input === "string" ? [] : input).flatMap((item) => list(item.tools))]
  const names = all.flatMap(({ name, tools: inner, type }) =>
    type === "namespace" ? list(inner).map((tool) => tool.name) : type === "function" || type === "custom" ? [name] : []
  )
  return turns.gist([...new Set(names)], text?.format?.schema)
}

const generateGist = ({ contents, generationConfig: config, systemInstruction, tools }: Json): RequestGist => {
  const turns = new Turns()
  for (const { text } of list(systemInstruction?.parts)) turns.text("system", text)
  for (const { parts, role } of list(contents))
    for (const { fileData, functionCall, functionResponse, inlineData, text, thought } of list(parts)) {
      const medium = inlineData ?? fileData
      if (medium !== undefined) turns.medium(kindOfType(medium.mimeType))
      else if (functionCall !== undefined) turns.call(functionCall.name, functionCall.args)
      else if (functionResponse !== undefined) {
        const { output, ...members } = functionResponse.response ?? {}
        turns.result(typeof output === "string" ? output : JSON.stringify(output ?? members))
        for (const { inlineData: part } of list(functionResponse.parts)) turns.medium(kindOfType(part?.mimeType))
      } else if (thought !== true) turns.text(role === "model" ? "assistant" : "user", text)
    }
  const names = list(tools).flatMap(({ functionDeclarations }) => list(functionDeclarations).map(({ name }) => name))
  return turns.gist(names, config?.responseJsonSchema ?? config?.responseSchema)
}

export const requestGists = { chat: chatGist, messages: messagesGist, responses: responsesGist, gemini: generateGist }
