import { Cause, Clock, Effect, Layer } from "effect"
import { SecureRandom } from "effect/crypto"
import { type Operation } from "../../gateway/formats/domain.ts"
import { loopbackId, loopbackModel, LoopbackProvider } from "../../gateway/providers/loopback.ts"
import {
  type Provider,
  type ProviderAnswer,
  ProviderFailure,
  type ProviderRequest
} from "../../gateway/providers/provider.ts"
import { isJson, type Json, listIn } from "../../kernel/json/parsed-json.ts"
import { utf8Text } from "../../kernel/utf8.ts"
import { images } from "./images.ts"
import { openEcho } from "./realtime.ts"
import { LoopbackResponses } from "./responses.ts"
import { transcript } from "./transcripts.ts"

const dimensions = 8

const list = (value: unknown): ReadonlyArray<Json> => (Array.isArray(value) ? value.filter(isJson) : [])

const textOf = (content: unknown): string =>
  typeof content === "string"
    ? content
    : list(content)
        .map(({ text }) => (typeof text === "string" ? text : ""))
        .join("")

/** The tokens of a text: words with the whitespace before them, and every other character on its own. */
const tokensOf = (text: string): ReadonlyArray<string> => text.match(/\s*[\p{L}\p{N}]+|\s*[^\p{L}\p{N}\s]|\s+$/gu) ?? []

const utf8 = new TextEncoder()
const bytes = (value: unknown): Uint8Array => utf8.encode(JSON.stringify(value))

interface Said {
  /** Unique, like the ids of the vendors' responses. */
  readonly id: string
  readonly tokens: ReadonlyArray<string>
  readonly call: { readonly id: string; readonly name: string; readonly arguments: string } | undefined
  readonly finishReason: string
  readonly usage: { readonly prompt_tokens: number; readonly completion_tokens: number }
}

/** A value that matches a JSON Schema, as far as the schema declares types. */
const sampleOf = (schema: unknown, text: string): unknown => {
  if (!isJson(schema)) return text
  if (Array.isArray(schema.enum)) return schema.enum[0]
  switch (schema.type) {
    case "object":
      return Object.fromEntries(
        Object.entries(isJson(schema.properties) ? schema.properties : {}).map(([name, member]) => [
          name,
          sampleOf(member, text)
        ])
      )
    case "array":
      return [sampleOf(schema.items, text)]
    case "integer":
    case "number":
      return 1
    case "boolean":
      return true
    case "null":
      return null
    default:
      return text
  }
}

const schemaOf = (body: Json): unknown => {
  const format = body.response_format
  return isJson(format) && isJson(format.json_schema) ? format.json_schema.schema : undefined
}

/** The tool to call: the one that the caller requires, or the first one that the message mentions by name. */
const calledTool = (body: Json, words: string): Json | undefined => {
  const tools = list(body.tools).flatMap(({ function: tool }) => (isJson(tool) ? [tool] : []))
  const { tool_choice: choice } = body
  const named = isJson(choice) && isJson(choice.function) ? choice.function.name : undefined
  if (choice === "none") return undefined
  if (named !== undefined) return tools.find(({ name }) => name === named)
  if (choice === "required") return tools[0]
  return tools.find(({ name }) => typeof name === "string" && words.includes(name))
}

const say = (body: Json, unique: string): Said => {
  const messages = list(body.messages)
  const last = messages.at(-1)
  const words = textOf(last?.content)
  const prompt = messages.reduce((count, { content }) => count + 4 + tokensOf(textOf(content)).length, 3)
  const tool = last?.role === "tool" ? undefined : calledTool(body, words)
  const schema = schemaOf(body)
  const limit = [body.max_completion_tokens, body.max_tokens].find((asked) => typeof asked === "number") ?? Infinity
  const text = schema === undefined ? words : JSON.stringify(sampleOf(schema, words))
  const whole = tokensOf(tool === undefined ? text : JSON.stringify(sampleOf(tool.parameters, words)))
  const tokens = whole.slice(0, Number(limit))
  const usage = { prompt_tokens: prompt, completion_tokens: tokens.length }
  const cut = tokens.length < whole.length
  const id = `chatcmpl-${unique}`
  return tool === undefined
    ? { id, tokens, call: undefined, finishReason: cut ? "length" : "stop", usage }
    : {
        id,
        tokens: [],
        call: { id: `call_${unique}`, name: String(tool.name), arguments: tokens.join("") },
        finishReason: cut ? "length" : "tool_calls",
        usage
      }
}

const usageOf = ({ completion_tokens: output, prompt_tokens: input }: Said["usage"]) => ({
  prompt_tokens: input,
  completion_tokens: output,
  total_tokens: input + output
})

const callOf = ({ arguments: text, id, name }: NonNullable<Said["call"]>) => ({
  id,
  type: "function",
  function: { name, arguments: text }
})

const completion = (said: Said, created: number): Json => ({
  id: said.id,
  object: "chat.completion",
  created,
  model: loopbackModel,
  choices: [
    {
      index: 0,
      message: {
        role: "assistant",
        content: said.call === undefined ? said.tokens.join("") : null,
        refusal: null,
        ...(said.call === undefined ? {} : { tool_calls: [callOf(said.call)] })
      },
      logprobs: null,
      finish_reason: said.finishReason
    }
  ],
  usage: usageOf(said.usage)
})

const event = (data: string) => utf8.encode(`data: ${data}\n\n`)

const chunks = (said: Said, created: number, includeUsage: boolean): ReadonlyArray<Uint8Array> => {
  const head = { id: said.id, object: "chat.completion.chunk", created, model: loopbackModel }
  const choice = (delta: Json, finishReason: string | null = null) =>
    event(JSON.stringify({ ...head, choices: [{ index: 0, delta, logprobs: null, finish_reason: finishReason }] }))
  const called = said.call === undefined ? [] : [choice({ tool_calls: [{ index: 0, ...callOf(said.call) }] })]
  return [
    choice({ role: "assistant", content: "" }),
    ...said.tokens.map((content) => choice({ content })),
    ...called,
    choice({}, said.finishReason),
    ...(includeUsage ? [event(JSON.stringify({ ...head, choices: [], usage: usageOf(said.usage) }))] : []),
    event("[DONE]")
  ]
}

/** A vector that depends only on the text. */
const vectorOf = (text: string): ReadonlyArray<number> => {
  const sums = Array.from({ length: dimensions }, (_, place) => place + 1)
  for (const byte of utf8.encode(text)) {
    for (const [place, sum] of sums.entries()) sums[place] = (sum * (31 + place) + byte) % 1009
  }
  const length = Math.hypot(...sums) || 1
  return sums.map((sum) => Math.fround(sum / length))
}

const embeddings = (body: Json): Json => {
  const inputs = (Array.isArray(body.input) ? body.input : [body.input]).map(String)
  const tokens = inputs.reduce((count, text) => count + Math.max(1, tokensOf(text).length), 0)
  return {
    object: "list",
    model: loopbackModel,
    data: inputs.map((text, index) => ({ object: "embedding", index, embedding: written(vectorOf(text), body) })),
    usage: { prompt_tokens: tokens, total_tokens: tokens }
  }
}

const written = (vector: ReadonlyArray<number>, body: Json) =>
  body.encoding_format === "base64" ? Buffer.from(Float32Array.from(vector).buffer).toString("base64") : vector

const json = (value: Json): ProviderAnswer => ({
  status: 200,
  headers: { "content-type": "application/json" },
  body: bytes(value)
})

const malformed = new ProviderFailure({
  reason: "status",
  sent: false,
  error: { status: 400, message: "The body is no JSON object.", code: "invalid_json" }
})

const noSuchOperation = new ProviderFailure({
  reason: "status",
  sent: false,
  error: { status: 400, message: "The loopback provider has no such operation.", code: "unsupported" }
})

/** The most bytes of a request: it is answered by the thread that serves all others. */
const maxBytes = 2_000_000

const tooLong = new ProviderFailure({
  reason: "status",
  sent: false,
  error: {
    status: 400,
    message: `The model ${loopbackModel} takes requests of at most ${maxBytes} bytes.`,
    code: "context_length_exceeded"
  }
})

const uniqueBytes = 16
const eventStream = { "content-type": "text/event-stream" }

/** The tokens of a completion without a limit, as OpenAI's API has it. */
const usualCompletionTokens = 16

const textChoices = (text: string, reason: string | null) => [{ index: 0, text, logprobs: null, finish_reason: reason }]

/** The text of a completion: the prompt, up to its limit. */
const textCompletion = (body: Json, unique: string, created: number) => {
  const prompt = Array.isArray(body.prompt) ? body.prompt.join("") : String(body.prompt)
  const whole = tokensOf(prompt)
  const tokens = whole.slice(0, typeof body.max_tokens === "number" ? body.max_tokens : usualCompletionTokens)
  const head = { id: `cmpl-${unique}`, object: "text_completion", created, model: loopbackModel }
  const finish_reason = tokens.length < whole.length ? "length" : "stop"
  const usage = usageOf({ prompt_tokens: whole.length, completion_tokens: tokens.length })
  if (body.stream !== true) return json({ ...head, choices: textChoices(tokens.join(""), finish_reason), usage })
  const includesUsage = isJson(body.stream_options) && body.stream_options.include_usage === true
  const first = [
    ...tokens.map((token) => event(JSON.stringify({ ...head, choices: textChoices(token, null) }))),
    event(JSON.stringify({ ...head, choices: textChoices("", finish_reason) })),
    ...(includesUsage ? [event(JSON.stringify({ ...head, choices: [], usage }))] : []),
    event("[DONE]")
  ]
  return { status: 200, headers: eventStream, body: { first, rest: Cause.done() } }
}

interface Asked {
  readonly body: Json
  readonly responses: LoopbackResponses
  readonly unique: string
  readonly created: number
}

const isStreamed = ({ stream }: Json): boolean => stream === true

/** Flags nothing: a text by itself, or each of a list of texts. */
const moderation = ({ input, model }: Json, unique: string): Json => {
  const parts = listIn(input)
  const count = parts.length > 0 && parts.every((part) => typeof part === "string") ? parts.length : 1
  const result = { flagged: false, categories: {}, category_scores: {}, category_applied_input_types: {} }
  return { id: `modr-${unique}`, model, results: Array.from({ length: count }, () => result) }
}

const countOf = (text: string): number => tokensOf(text).length
const wordsOf = (text: unknown): ReadonlySet<string> =>
  new Set(
    String(isJson(text) ? text.text : text)
      .toLowerCase()
      .match(/[\p{L}\p{N}]+/gu)
  )

/** Ranks documents by the share of the words of the query that they have. */
const reranking = ({ documents, query, top_n: most }: Json, unique: string): Json => {
  const asked = [...wordsOf(query)]
  const results = listIn(documents).map((document, index) => {
    const words = wordsOf(document)
    return { index, relevance_score: asked.filter((word) => words.has(word)).length / Math.max(1, asked.length) }
  })
  const tokens =
    results.length * tokensOf(String(query)).length + tokensOf(listIn(documents).map(String).join(" ")).length
  return {
    id: unique,
    model: loopbackModel,
    results: results
      .toSorted((one, other) => other.relevance_score - one.relevance_score)
      .slice(0, typeof most === "number" ? most : results.length),
    usage: { total_tokens: tokens }
  }
}

/** A quarter of a second for each token, of sixteen bits at eight kilohertz. */
const sampleRate = 8000
const bytesPerToken = 4000

/** The head of a WAV file (RIFF, "Multimedia Programming Interface") with so many bytes of samples. */
const wavHead = (samples: number): Buffer => {
  const head = Buffer.alloc(44)
  head.write("RIFF", 0)
  head.writeUInt32LE(36 + samples, 4)
  head.write("WAVEfmt ", 8)
  head.writeUInt32LE(16, 16)
  head.writeUInt16LE(1, 20)
  head.writeUInt16LE(1, 22)
  head.writeUInt32LE(sampleRate, 24)
  head.writeUInt32LE(2 * sampleRate, 28)
  head.writeUInt16LE(2, 32)
  head.writeUInt16LE(16, 34)
  head.write("data", 36)
  head.writeUInt32LE(samples, 40)
  return head
}

/** A silent frame of MP3 (ISO/IEC 11172-3): layer III, 128 kbit/s, 44.1 kHz; ten of them take a quarter of a second. */
const mp3Frame = Buffer.concat([Buffer.from([0xff, 0xfb, 0x90, 0x44]), Buffer.alloc(413)])
const framesPerToken = 10

/** Silence in each format that is made here, by its tokens. */
const silences: ReadonlyMap<unknown, (tokens: number) => Buffer> = new Map([
  ["mp3", (tokens) => Buffer.concat(Array.from({ length: framesPerToken * tokens }, () => mp3Frame))],
  ["wav", (tokens) => Buffer.concat([wavHead(bytesPerToken * tokens), Buffer.alloc(bytesPerToken * tokens)])],
  ["pcm", (tokens) => Buffer.alloc(bytesPerToken * tokens)]
])

const noSuchAudio = new ProviderFailure({
  reason: "status",
  sent: false,
  error: { status: 400, message: `The model ${loopbackModel} speaks mp3, wav and pcm.`, code: "unsupported" }
})

/** Silence in the place of a text, of a token for each of its own. */
const speech = ({ input, response_format: kind, stream_format: format }: Json) => {
  const silence = silences.get(kind ?? "mp3")
  if (silence === undefined) return Effect.fail(noSuchAudio)
  const tokens = Math.min(maxSpokenTokens, Math.max(1, tokensOf(String(input)).length))
  const audio = silence(tokens)
  if (format !== "sse") {
    const headers = { "content-type": "application/octet-stream" }
    return Effect.succeed({ status: 200, headers, body: { first: [audio], rest: Cause.done() } })
  }
  const usage = { input_tokens: tokens, output_tokens: tokens, total_tokens: 2 * tokens }
  const first = [
    { type: "speech.audio.delta", audio: audio.toString("base64") },
    { type: "speech.audio.done", usage }
  ].map((one) => event(JSON.stringify(one)))
  return Effect.succeed({ status: 200, headers: eventStream, body: { first, rest: Cause.done() } })
}

const maxSpokenTokens = 1000

/** How each operation is answered. */
const answers: Readonly<Record<Operation, (asked: Asked) => Effect.Effect<ProviderAnswer, ProviderFailure>>> = {
  embed: ({ body }) => Effect.succeed(json(embeddings(body))),
  moderate: ({ body, unique }) => Effect.succeed(json(moderation(body, unique))),
  "generate-image": ({ body, created }) =>
    Effect.succeed(images(body, "generation", { image: 0, text: tokensOf(String(body.prompt)).length }, created)),
  "edit-image": ({ body, created }) =>
    Effect.succeed(
      images(body, "edit", { image: [body.image].flat().length, text: tokensOf(String(body.prompt)).length }, created)
    ),
  transcribe: ({ body }) => Effect.succeed(transcript(body, countOf)),
  translate: ({ body }) => Effect.succeed(transcript(body, countOf)),
  rerank: ({ body, unique }) => Effect.succeed(json(reranking(body, unique))),
  speech: ({ body }) => speech(body),
  "count-responses": ({ body, responses }) => Effect.map(responses.count(body), json),
  "count-tokens": () => Effect.fail(noSuchOperation),
  realtime: () => Effect.fail(noSuchOperation),
  completions: ({ body, created, unique }) => Effect.succeed(textCompletion(body, unique, created)),
  compact: ({ body, created, responses, unique }) => Effect.map(responses.compact(body, unique, created), json),
  responses: ({ body, created, responses, unique }) =>
    Effect.map(responses.create(body, unique, created), ({ events, response }) => {
      if (!isStreamed(body)) return json(response)
      const first = events.map((one) => utf8.encode(`event: ${one.type}\ndata: ${JSON.stringify(one)}\n\n`))
      return { status: 200, headers: eventStream, body: { first, rest: Cause.done() } }
    }),
  chat: ({ body, created, unique }) => {
    const said = say(body, unique)
    if (!isStreamed(body)) return Effect.succeed(json(completion(said, created)))
    const includeUsage = isJson(body.stream_options) && body.stream_options.include_usage === true
    const first = chunks(said, created, includeUsage)
    return Effect.succeed({ status: 200, headers: eventStream, body: { first, rest: Cause.done() } })
  }
}

const answer = Effect.fnUntraced(function* (
  random: SecureRandom.SecureRandom["Service"],
  responses: LoopbackResponses,
  { body: raw, format }: ProviderRequest
) {
  if (raw.length > maxBytes) return yield* tooLong
  const body: unknown = yield* Effect.try({
    try: () => JSON.parse(typeof raw === "string" ? raw : utf8Text(raw)),
    catch: () => malformed
  })
  if (!isJson(body)) return yield* malformed
  const unique = Buffer.from(yield* random.randomBytes(uniqueBytes)).toString("hex")
  const created = Math.floor((yield* Clock.currentTimeMillis) / 1000)
  return yield* answers[format.operation]({ body, responses, unique, created })
})

/**
 * Echoes the last message in OpenAI's dialect with exact token counts; it needs no account. Everything but the id and the
 * time depends only on the request.
 */
export const makeLoopback = (random: SecureRandom.SecureRandom["Service"]): Provider => {
  const responses = new LoopbackResponses(say)
  return {
    id: loopbackId,
    send: (request) => answer(random, responses, request),
    stored: (request) => Effect.map(responses.stored(request), json),
    open: (_, model) => openEcho(random, model, tokensOf),
    listModels: Effect.succeed([{ id: loopbackModel, ownedBy: "application-manager", createdAt: null }])
  }
}

export const LoopbackLayer = Layer.effect(LoopbackProvider, Effect.map(SecureRandom.SecureRandom, makeLoopback))
