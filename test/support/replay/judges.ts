import Anthropic from "@anthropic-ai/sdk"
import { GoogleGenAI } from "@google/genai"
import OpenAI from "openai"
import { type Gist, gistOfCompletion, gistOfGenerated, gistOfMessage, gistOfResponse, type Json } from "./gists.ts"

/** Where a client calls. */
export interface Address {
  readonly url: string
  readonly key: string
  readonly headers?: Readonly<Record<string, string>>
}

/** An answer as a vendor's SDK gives it: what arrives, in its order, and what it amounts to. */
export interface Judged {
  readonly events: ReadonlyArray<Json>
  readonly gist: Gist
}

/** A vendor's SDK, unchanged. */
export interface Judge {
  /** What is asked where a test has no request of its own. */
  readonly question: Json
  readonly ask: (address: Address, request: Json, isStreamed: boolean) => Promise<Judged>
}

const openAi = ({ headers = {}, key, url }: Address) =>
  new OpenAI({ baseURL: `${url}/v1`, apiKey: key, maxRetries: 0, defaultHeaders: headers })
const anthropic = ({ headers = {}, key, url }: Address) =>
  new Anthropic({ baseURL: url, apiKey: key, maxRetries: 0, timeout: 60_000, defaultHeaders: headers })

const collected = async (stream: AsyncIterable<Json>): Promise<ReadonlyArray<Json>> => {
  const events: Array<Json> = []
  for await (const event of stream) events.push(event)
  return events
}

/** Members of a streamed object put together: texts one after another, and each of its calls by itself. */
const addTo = (whole: Json, piece: Json): void => {
  for (const [name, value] of Object.entries<Json>(piece ?? {})) {
    if (value === null || value === "") continue
    if (name === "tool_calls")
      for (const [place, { index = place, ...call }] of value.entries()) addTo((whole.tool_calls[index] ??= {}), call)
    else if (name === "function") addTo((whole[name] ??= {}), value)
    else if (Array.isArray(value)) whole[name] = [...(whole[name] ?? []), ...value]
    else if (typeof value === "string" && !["id", "role", "type", "name"].includes(name))
      whole[name] = (whole[name] ?? "") + value
    else whole[name] = value
  }
}

/** The message of a choice so far, with content in parts where a provider streams parts. */
class MessageOfDeltas {
  private readonly message: Json = { tool_calls: [] }
  private readonly parts: Array<Json> = []

  add(delta: Json): void {
    // Some providers write a text in the place of a delta.
    const { content, ...others } = typeof delta === "string" ? { content: delta } : (delta ?? {})
    this.parts.push(...(Array.isArray(content) ? content : [{ type: "text", text: content ?? "" }]))
    addTo(this.message, others)
  }

  get whole(): Json {
    return { ...this.message, content: this.parts, tool_calls: this.message.tool_calls.filter(Boolean) }
  }
}

const completionOf = (chunks: ReadonlyArray<Json>): Json => {
  const message = new MessageOfDeltas()
  let [finish_reason, usage]: ReadonlyArray<Json> = []
  for (const { choices, usage: reported } of chunks) {
    const choice = choices?.find(({ index }: Json) => (index ?? 0) === 0)
    message.add(choice?.delta ?? choice?.text)
    finish_reason = choice?.finish_reason ?? finish_reason
    usage = reported ?? usage
  }
  return { choices: [{ message: message.whole, finish_reason }], usage }
}

const chat: Judge = {
  question: { messages: [{ role: "user", content: "Hi" }] },
  ask: async (address, request, isStreamed) => {
    const { completions } = openAi(address).chat
    if (!isStreamed) {
      const { stream: _, stream_options: _options, ...whole } = request
      const completion = await completions.create(whole)
      return { events: [completion], gist: gistOfCompletion(completion) }
    }
    const asked = { ...request, stream: true, stream_options: { include_usage: true } }
    const events = await collected((await completions.create(asked)) as unknown as AsyncIterable<Json>)
    return { events, gist: gistOfCompletion(completionOf(events)) }
  }
}

const messages: Judge = {
  question: { max_tokens: 1000, messages: [{ role: "user", content: "Hi" }] },
  ask: async (address, request, isStreamed) => {
    const client = anthropic(address)
    if (!isStreamed) {
      const message = await client.messages.create({ ...request, stream: false })
      return { events: [message], gist: gistOfMessage(message) }
    }
    const stream = client.messages.stream({ ...request, stream: true })
    // The SDK keeps what it is given: each event is copied before the message grows.
    const events: Array<Json> = []
    stream.on("streamEvent", (event) => events.push(structuredClone(event)))
    const message = await stream.finalMessage()
    return { events, gist: gistOfMessage(message) }
  }
}

const responses: Judge = {
  question: { input: "Hi", store: false },
  ask: async (address, request, isStreamed) => {
    const client = openAi(address)
    if (!isStreamed) {
      const response = await client.responses.create({ ...request, stream: false })
      return { events: [response], gist: gistOfResponse(response) }
    }
    const events = await collected(
      (await client.responses.create({ ...request, stream: true })) as unknown as AsyncIterable<Json>
    )
    const last = events.findLast(({ type }) => /^response\.(?:completed|incomplete|failed)$/.test(type))
    return { events, gist: gistOfResponse(last?.response ?? {}) }
  }
}

const generatedOf = (answers: ReadonlyArray<Json>): Json => {
  const first = answers.flatMap(({ candidates }) => candidates?.find(({ index = 0 }: Json) => index === 0) ?? [])
  const parts = first.flatMap(({ content }) => content?.parts ?? [])
  const candidate = Object.assign({}, ...first, { content: { parts } })
  return {
    candidates: [candidate],
    usageMetadata: answers.findLast(({ usageMetadata }) => usageMetadata)?.usageMetadata
  }
}

const gemini: Judge = {
  question: {
    contents: [{ role: "user", parts: [{ text: "Hi" }] }],
    config: { thinkingConfig: { includeThoughts: true } }
  },
  ask: async ({ headers = {}, key, url }, request, isStreamed) => {
    const { models } = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: url, headers } })
    if (!isStreamed) {
      const answer = await models.generateContent(request)
      return { events: [answer], gist: gistOfGenerated(answer) }
    }
    const events = await collected(await models.generateContentStream(request))
    return { events, gist: gistOfGenerated(generatedOf(events)) }
  }
}

const nothingSaid = { thought: "", refusal: "", calls: [], sources: [] }

const completions: Judge = {
  question: { prompt: "Hi" },
  ask: async (address, request, isStreamed) => {
    const client = openAi(address).completions
    const asked = { ...request, stream: isStreamed, ...(isStreamed ? { stream_options: { include_usage: true } } : {}) }
    const given: Json = await client.create(asked)
    const events = isStreamed ? await collected(given) : [given]
    const choices = events.flatMap(({ choices }) => choices?.[0] ?? [])
    const { usage } = events.findLast((event) => event.usage) ?? {}
    const finish = choices.findLast(({ finish_reason: finish }) => finish)?.finish_reason ?? "stop"
    const text = choices.map((choice) => choice.text ?? "").join("")
    return { events, gist: { ...gistOfCompletion({ choices: [], usage }), text, finish } }
  }
}

/** An answer that is compared whole. */
const whole = (question: Json, ask: (address: Address, request: Json) => Promise<Json>): Judge => ({
  question,
  ask: async (address, request) => {
    const answer = await ask(address, request)
    return {
      events: [answer],
      gist: { ...nothingSaid, text: "", finish: "stop", usage: gistOfCompletion({ usage: answer.usage }).usage }
    }
  }
})

const embeddings = whole({ input: "Hi", encoding_format: "float" }, (address, request) =>
  openAi(address).embeddings.create(request)
)
const compaction = whole({ input: "Hi" }, (address, request) => openAi(address).responses.compact(request))
const inputTokens = whole({ input: "Hi" }, (address, request) => openAi(address).responses.inputTokens.count(request))
const countTokens = whole({ messages: [{ role: "user", content: "Hi" }] }, (address, request) =>
  anthropic(address).messages.countTokens(request)
)

/** The formats that are translated into each other. */
export const translated = { chat, messages, responses, gemini }
export type TranslatedName = keyof typeof translated

export const judges = { ...translated, completions, embeddings, compaction, inputTokens, countTokens }
export type JudgeName = keyof typeof judges

/** The judge of each recorded dialect. */
export const judgeOf: Readonly<Record<string, JudgeName>> = {
  "openai-chat": "chat",
  "anthropic-messages": "messages",
  "openai-responses": "responses",
  "openai-completions": "completions",
  "openai-embeddings": "embeddings",
  "openai-responses-compact": "compaction",
  "openai-responses-input-tokens": "inputTokens",
  "anthropic-count-tokens": "countTokens"
}
