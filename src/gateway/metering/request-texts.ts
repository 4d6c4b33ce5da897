import { isJson, listIn, type Json } from "../../kernel/json/parsed-json.ts"

/** The texts of a request that a tokenizer can count, and the minimum number of bytes that they take of its JSON. */
export interface RequestTexts {
  readonly texts: ReadonlyArray<string>
  readonly bytes: number
}

/** Content that is nested more deeply is bounded by its bytes. */
const deepest = 8

const gather = (content: unknown, texts: Array<string>, depth = 0): void => {
  if (typeof content === "string") texts.push(content)
  for (const part of listIn(content)) {
    if (!isJson(part)) continue
    if (typeof part.text === "string") texts.push(part.text)
    if (part.type === "tool_result" && depth < deepest) gather(part.content, texts, depth + 1)
  }
}

const gatherArguments = (calls: unknown, texts: Array<string>): void => {
  for (const call of listIn(calls)) {
    const called = isJson(call) && isJson(call.function) ? call.function.arguments : undefined
    if (typeof called === "string") texts.push(called)
  }
}

/** An item of the Responses API. */
const gatherItem = (item: Json, texts: Array<string>): void => {
  gather(item.content, texts)
  gather(item.summary, texts)
  gather(item.output, texts)
  for (const said of [item.arguments, item.input]) if (typeof said === "string") texts.push(said)
}

/** The names and texts of a tool: models read these, written in fewer tokens than its JSON has. */
const gatherWords = (value: unknown, words: Array<string>, depth = 0): void => {
  if (typeof value === "string") words.push(value)
  else if (typeof value === "object" && value !== null && depth < deepestSchema) {
    for (const [name, member] of Object.entries(value)) {
      if (!Array.isArray(value)) words.push(name)
      gatherWords(member, words, depth + 1)
    }
  }
}

/** Around the words of all tools, and of each of them, OpenAI's models read this. */
const toolsFrame = "# Tools\n\n## functions\n\nnamespace functions {\n\n} // namespace functions"
const toolFrame = "type = () => any;"

/** Schemas that are nested more deeply are bounded by their bytes. */
const deepestSchema = 64

// The canonical JSON of a string is the shortest, so this is a lower bound.
const bytesOf = (texts: ReadonlyArray<string>): number =>
  texts.reduce((sum, text) => sum + Buffer.byteLength(JSON.stringify(text)), 0)

/** The texts of messages, inputs and tools; the rest of a request is bounded by its bytes. */
export const textsOf = (body: Json): RequestTexts => {
  const texts: Array<string> = []
  gather(body.system, texts)
  for (const message of listIn(body.messages)) {
    if (!isJson(message)) continue
    gather(message.content, texts)
    gatherArguments(message.tool_calls, texts)
  }
  gather(body.instructions, texts)
  for (const given of [body.input, body.prompt]) {
    for (const input of typeof given === "string" ? [given] : listIn(given)) {
      if (typeof input === "string") texts.push(input)
      else if (isJson(input)) gatherItem(input, texts)
    }
  }
  const tools = listIn(body.tools).map((tool) => {
    const words: Array<string> = []
    gatherWords(isJson(tool) && isJson(tool.function) ? tool.function : tool, words)
    return words
  })
  return {
    texts: [
      ...texts,
      ...(tools.length > 0 ? [toolsFrame] : []),
      ...tools.map((words) => [toolFrame, ...words].join(" "))
    ],
    bytes: bytesOf(texts) + tools.reduce((sum, words) => sum + bytesOf(words), 0)
  }
}
