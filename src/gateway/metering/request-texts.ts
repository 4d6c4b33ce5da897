import { isJson, listIn } from "../../kernel/json/parsed-json.ts"

/** The texts of a request that a tokenizer can count, and the minimum number of bytes that they take of its JSON. */
export interface RequestTexts {
  readonly texts: ReadonlyArray<string>
  readonly bytes: number
}

type Json = Readonly<Record<string, unknown>>

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

/** The definitions of tools, which are part of the prompt; their format differs between vendors. */
export const toolTextsOf = ({ tools }: Json): ReadonlyArray<string> => listIn(tools).map((tool) => JSON.stringify(tool))

/** The texts of messages and inputs; the rest of a request is bounded by its bytes. */
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
  // The canonical JSON of a string is the shortest, so this is a lower bound.
  return { texts, bytes: texts.reduce((sum, text) => sum + Buffer.byteLength(JSON.stringify(text)), 0) }
}
