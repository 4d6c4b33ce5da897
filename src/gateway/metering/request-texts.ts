import { isJson, listIn } from "../../kernel/parsed-json.ts"

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
  for (const input of typeof body.input === "string" ? [body.input] : listIn(body.input)) {
    if (typeof input === "string") texts.push(input)
  }
  // The canonical JSON of a string is the shortest, so this is a lower bound.
  return { texts, bytes: texts.reduce((sum, text) => sum + Buffer.byteLength(JSON.stringify(text)), 0) }
}
