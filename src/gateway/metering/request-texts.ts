import { isJson, listIn } from "../../kernel/parsed-json.ts"

/** The texts of a request that a tokenizer can count, and how many bytes of its JSON they are at least. */
export interface RequestTexts {
  readonly texts: ReadonlyArray<string>
  readonly bytes: number
}

type Json = Readonly<Record<string, unknown>>

/** What is nested more deeply is bounded by its bytes. */
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

/** The definitions of tools, which a model reads as well; each vendor writes them in its own way. */
export const toolTextsOf = ({ tools }: Json): ReadonlyArray<string> => listIn(tools).map((tool) => JSON.stringify(tool))

/** What messages and inputs say; everything else of a request is bounded by its bytes. */
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
  // No JSON of a text is shorter than the canonical one.
  return { texts, bytes: texts.reduce((sum, text) => sum + Buffer.byteLength(JSON.stringify(text)), 0) }
}
