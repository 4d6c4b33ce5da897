import { assert, describe, it } from "@effect/vitest"
import { ApiError, FunctionCallingConfigMode, GoogleGenAI, Type } from "@google/genai"
import { Effect, Result, Schema } from "effect"
import { readChunk, readCompletion } from "../../../../src/gateway/formats/common-form/domain.ts"
import { sealedPrefix } from "../../../../src/gateway/formats/common-form/turn-state.ts"
import {
  BatchEmbedRequest,
  embedToCommon,
  commonToEmbedAnswer
} from "../../../../src/gateway/formats/gemini-embeddings/translation.ts"
import { completionToAnswer } from "../../../../src/gateway/formats/gemini/answers.ts"
import { countedRequest, toCountAnswer } from "../../../../src/gateway/formats/gemini/counts.ts"
import { camelCasedRequest, GenerateRequest } from "../../../../src/gateway/formats/gemini/domain.ts"
import { geminiErrors } from "../../../../src/gateway/formats/gemini/errors.ts"
import { geminiModel, geminiModels } from "../../../../src/gateway/formats/gemini/models.ts"
import { readPath } from "../../../../src/gateway/formats/gemini/paths.ts"
import { asksForThoughts, requestToChat } from "../../../../src/gateway/formats/gemini/request-to-chat.ts"
import {
  AnswerWriter,
  ChunksToAnswers,
  framingOf,
  framingTypes
} from "../../../../src/gateway/formats/gemini/stream.ts"
import { type Answerer, json, startProvider } from "../../../support/provider.ts"
import { type Any } from "./forms.ts"

const models = ["vendor/model:free", "m"].map(
  (id) => ({ id, kind: "chat", contextTokens: 100, maxOutputTokens: 10 }) as const
)

const call = (index: number, id: string, city: string, signature?: string) => ({
  tool_calls: [{ index, id, function: { name: "weather", arguments: JSON.stringify({ city }) } }],
  ...(signature === undefined ? {} : { turn_state: sealedPrefix + signature })
})

const chunk = (delta: object, finish_reason: string | null = null) => ({
  id: "c1",
  choices: [{ index: 0, delta, finish_reason }]
})

/** What the models of this test say, as chunks of a chat completion. */
const script = (chat: Any): ReadonlyArray<Any> => {
  const asked = JSON.stringify(chat.messages)
  const usage = {
    choices: [],
    usage: { prompt_tokens: 9, completion_tokens: 5, completion_tokens_details: { reasoning_tokens: 2 } }
  }
  const last = chat.messages.at(-1)
  if (last.role === "tool") {
    return [
      chunk({ content: `It is ${last.content} ` }),
      chunk({ content: `after ${chat.messages.length} messages.` }),
      chunk({}, "stop"),
      usage
    ]
  }
  return asked.includes("weather")
    ? [
        chunk({ reasoning_content: "Two cities." }),
        chunk(call(0, "x", "A", "SIG")),
        chunk(call(1, "y", "B")),
        chunk({}, "tool_calls"),
        usage
      ]
    : [chunk({ content: "Hello " }), chunk({ content: "you." }), chunk({}, "stop"), usage]
}

const completionOf = (chunks: ReadonlyArray<Any>) => {
  const deltas = chunks.flatMap(({ choices }) => choices.map((choice: Any) => choice.delta))
  const joined = (name: string) => deltas.map((delta) => delta[name] ?? "").join("")
  const lists = (name: string) => deltas.flatMap((delta) => delta[name] ?? [])
  return {
    id: "c1",
    choices: [
      {
        index: 0,
        message: {
          content: joined("content"),
          reasoning_content: joined("reasoning_content"),
          tool_calls: lists("tool_calls"),
          turn_state: joined("turn_state")
        },
        finish_reason: chunks.findLast(({ choices }) => choices[0]?.finish_reason)?.choices[0].finish_reason
      }
    ],
    usage: chunks.at(-1).usage
  }
}

/** The requests that were translated, as the models got them. */
const seen: Array<Any> = []

/** Answers as the gateway would, with its readers and writers. */
const gateway: Answerer = ({ body, method, path }, response) => {
  const { pathname, searchParams } = new URL(path, "http://127.0.0.1")
  const read = readPath(method === "GET" ? "GET" : "POST", pathname)
  const fail = (status: number, message: string, code: string) => {
    const quota = { unit: "requests", limit: 1n, remaining: 0n, resetsAt: 2000 } as const
    json(response, status, geminiErrors.answer({ status, message, code }, quota, "q1", 0).body)
  }
  if (read?.kind === "models") return json(response, 200, Result.getOrThrow(geminiModels(models, searchParams)))
  if (read?.kind === "model") return json(response, 200, geminiModel({ ...models[0]!, id: read.model }))
  if (read?.kind !== "method") return fail(404, "Not served", "not-found")
  const { method: asked, model } = read
  if (model === "spent") return fail(402, "The cap is spent.", "budget-exceeded")
  if (model === "busy") return fail(429, "Too many requests.", "rate-limited")
  if (asked === "countTokens") {
    return json(response, 200, toCountAnswer(JSON.stringify(countedRequest(body).body.contents).length))
  }
  if (asked === "embedContent" || asked === "batchEmbedContents") {
    const { requests } = Schema.decodeUnknownSync(BatchEmbedRequest)(camelCasedRequest(body).body)
    const common: Any = Result.getOrThrow(embedToCommon(requests, { model }, ["requests"]))
    const data = common.input.map((text: string) => ({ embedding: [text.length, common.dimensions ?? 0] }))
    return json(response, 200, commonToEmbedAnswer({ data }, true))
  }
  const request = Schema.decodeUnknownSync(GenerateRequest)(camelCasedRequest(body).body)
  const isStreamed = asked === "streamGenerateContent"
  const chat = Result.getOrThrow(requestToChat(request, { model, stream: isStreamed }))
  seen.push(chat)
  const head = { model, id: "id", createdSeconds: 17, includesThoughts: asksForThoughts(request) }
  if (!isStreamed)
    return json(response, 200, completionToAnswer(readCompletion(completionOf(script(chat))) ?? {}, head))
  const framing = framingOf(searchParams.get("alt"))
  const writer = new AnswerWriter(framing)
  const machine = new ChunksToAnswers(head)
  response.writeHead(200, { "content-type": framingTypes[framing] })
  for (const chunk of script(chat)) response.write(writer.write(machine.push(readChunk(chunk) ?? {})))
  if (model !== "broken") return response.end(writer.write(machine.end()) + writer.end())
  const error = { status: 503, message: "Broken off.", code: "provider-unavailable" }
  // A read of its own: what was written before has been read when it is sent.
  onRead = () => response.end(writer.fail(geminiErrors.event(error, "q1")))
}

/** Ends the stream that breaks off, once its client has read what it says. */
let onRead = () => {}

const withClient = <A>(use: (client: GoogleGenAI, url: string) => Promise<A>) =>
  Effect.scoped(
    Effect.flatMap(startProvider(gateway), ({ url }) =>
      Effect.promise(() => use(new GoogleGenAI({ apiKey: "key", httpOptions: { baseUrl: url } }), url))
    )
  )

const rejected = async (given: Promise<unknown>): Promise<ApiError> => {
  try {
    await given
  } catch (error) {
    assert.instanceOf(error, ApiError)
    return error
  }
  return assert.fail("Expected an error")
}

const weatherTool = {
  functionDeclarations: [
    {
      name: "weather",
      parameters: { type: Type.OBJECT, properties: { city: { type: Type.STRING } }, required: ["city"] }
    },
    { name: "other" }
  ]
}

describe("Google's SDK", () => {
  it.effect("reads a whole answer and a streamed one, from a model whose name has a slash and a colon", () =>
    withClient(async (client) => {
      const asked = {
        model: "models/vendor/model:free",
        contents: "Hi",
        config: { systemInstruction: "S", maxOutputTokens: 5 }
      }
      const whole = await client.models.generateContent(asked)
      assert.deepStrictEqual(
        [whole.text, whole.modelVersion, whole.responseId],
        ["Hello you.", "vendor/model:free", "c1"]
      )
      assert.deepInclude(whole.usageMetadata, {
        promptTokenCount: 9,
        candidatesTokenCount: 3,
        thoughtsTokenCount: 2,
        totalTokenCount: 14
      })
      assert.deepInclude(seen.at(-1), { model: "vendor/model:free", max_completion_tokens: 5 })
      const texts: Array<string | undefined> = []
      let reason: unknown
      for await (const chunk of await client.models.generateContentStream(asked)) {
        texts.push(chunk.text)
        reason = chunk.candidates?.[0]?.finishReason ?? reason
      }
      assert.deepStrictEqual([texts.join(""), reason], ["Hello you.", "STOP"])
      assert.strictEqual(seen.at(-1).stream, true)
    })
  )

  it.effect.each([false, true])("sends back calls with results and signatures, in a chat; streamed: %s", (isStreamed) =>
    withClient(async (client) => {
      const chat = client.chats.create({
        model: "m",
        config: {
          tools: [weatherTool],
          toolConfig: {
            functionCallingConfig: { mode: FunctionCallingConfigMode.ANY, allowedFunctionNames: ["weather"] }
          },
          thinkingConfig: { includeThoughts: true, thinkingBudget: 1000 }
        }
      })
      const send = async (message: Any) => {
        if (!isStreamed) return chat.sendMessage({ message })
        let last
        for await (const chunk of await chat.sendMessageStream({ message })) last = chunk
        return last
      }
      const first = await send("The weather?")
      assert.deepStrictEqual(
        first?.functionCalls?.map(({ args, id, name }) => [id, name, args]),
        [
          ["x", "weather", { city: "A" }],
          ["y", "weather", { city: "B" }]
        ]
      )
      assert.isTrue(chat.getHistory(true)[1]?.parts?.some(({ thought }) => thought))
      const results = ["x", "y"].map((id) => ({
        functionResponse: { id, name: "weather", response: { output: `rain at ${id}` } }
      }))
      await send(results)
      const request = seen.at(-1)
      assert.deepInclude(request, { tool_choice: "required", reasoning_effort: "low" })
      assert.deepStrictEqual(
        request.tools.map((tool: Any) => tool.function.name),
        ["weather"]
      )
      assert.strictEqual(request.tools[0].function.parameters.type, "object")
      const [, ...rest] = request.messages
      assert.deepStrictEqual(
        rest.filter(({ role }: Any) => role === "tool").map((message: Any) => [message.tool_call_id, message.content]),
        [
          ["x", "rain at x"],
          ["y", "rain at y"]
        ]
      )
      assert.deepStrictEqual(
        rest.map(({ role }: Any) => role),
        ["assistant", "tool", "tool"]
      )
      assert.deepStrictEqual(rest[0].turn_state, [`${sealedPrefix}SIG`])
    })
  )

  it.effect("reads errors with their status and reason, before a stream and within one", () =>
    withClient(async (client) => {
      const spent = await rejected(client.models.generateContent({ model: "spent", contents: "Hi" }))
      assert.strictEqual(spent.status, 402)
      assert.include(spent.message, "BUDGET_EXCEEDED")
      const busy = await rejected(client.models.generateContentStream({ model: "busy", contents: "Hi" }))
      assert.strictEqual(busy.status, 429)
      assert.include(busy.message, '"retryDelay":"2s"')
      const texts: Array<string | undefined> = []
      const broken = await rejected(
        (async () => {
          for await (const chunk of await client.models.generateContentStream({ model: "broken", contents: "Hi" })) {
            texts.push(chunk.text)
            if (texts.join("") === "Hello you.") onRead()
          }
        })()
      )
      assert.strictEqual(broken.status, 503)
      assert.include(broken.message, "Broken off.")
      assert.strictEqual(texts.join(""), "Hello you.")
    })
  )

  it.effect("lists models, counts tokens and embeds texts", () =>
    withClient(async (client, url) => {
      const names: Array<string | undefined> = []
      for await (const model of await client.models.list({ config: { pageSize: 1 } })) names.push(model.name)
      assert.deepStrictEqual(names, ["models/vendor/model:free", "models/m"])
      const one = await client.models.get({ model: "vendor/model:free" })
      assert.deepInclude(one, { name: "models/vendor/model:free", inputTokenLimit: 100, outputTokenLimit: 10 })
      const { totalTokens } = await client.models.countTokens({ model: "m", contents: "Hello" })
      assert.isAbove(totalTokens ?? 0, 5)
      const { embeddings } = await client.models.embedContent({
        model: "m",
        contents: ["a", "bcd"],
        config: { outputDimensionality: 7, taskType: "RETRIEVAL_QUERY" }
      })
      assert.deepStrictEqual(
        embeddings?.map(({ values }) => values),
        [
          [1, 7],
          [3, 7]
        ]
      )
      // Without `alt`, as other clients ask, a stream is one JSON array.
      const answered = await fetch(`${url}/v1beta/models/m:streamGenerateContent`, {
        method: "POST",
        body: JSON.stringify({ contents: [{ parts: [{ text: "Hi" }] }] })
      })
      const elements: Any = await answered.json()
      assert.strictEqual(
        elements.map((element: Any) => element.candidates[0].content.parts[0].text).join(""),
        "Hello you."
      )
    })
  )
})
