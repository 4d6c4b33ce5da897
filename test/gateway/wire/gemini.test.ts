import { assert, layer } from "@effect/vitest"
import { GoogleGenAI } from "@google/genai"
import { Effect } from "effect"
import { configure, model, provider, spender, usageRows } from "../../support/gateway.ts"
import { assertNoDrift } from "../../support/plans.ts"
import { json, startProvider } from "../../support/provider.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { anthropicVendor, openAiVendor, said } from "../../support/vendors.ts"

const usageMetadata = { promptTokenCount: 90, candidatesTokenCount: 20, thoughtsTokenCount: 10, totalTokenCount: 120 }
const answer = (...parts: ReadonlyArray<object>) => ({
  candidates: [{ content: { role: "model", parts }, finishReason: "STOP", index: 0 }],
  usageMetadata,
  modelVersion: "gemini-3-pro",
  responseId: "r1"
})
const signed = { functionCall: { id: "a", name: "f", args: { x: 1 } }, thoughtSignature: "c2lnbmVk" }

/** A stand-in for Google's service. */
const google = Effect.gen(function* () {
  const standIn = yield* startProvider(({ body, path }, response) => {
    if (path.includes("mbed")) {
      const count = path.includes(":batch") ? body.requests.length : 1
      const embeddings = Array.from({ length: count }, (_, index) => ({ values: [index, 0.5] }))
      return json(response, 200, path.includes(":batch") ? { embeddings } : { embedding: embeddings[0] })
    }
    if (path.includes(":countTokens")) return json(response, 200, { totalTokens: 42 })
    if (path.startsWith("/v1beta/models?")) return json(response, 200, { models: [{ name: "models/gemini-3-pro" }] })
    if (!path.includes(":streamGenerateContent")) return json(response, 200, answer({ text: said }, signed))
    response.writeHead(200, { "content-type": "text/event-stream" })
    const first = { candidates: [{ content: { role: "model", parts: [{ text: said }] }, index: 0 }], responseId: "r1" }
    response.write(`data: ${JSON.stringify(first)}\r\n\r\n`)
    response.end(`data: ${JSON.stringify(answer(signed))}\r\n\r\n`)
  })
  return standIn
})

const setUp = Effect.gen(function* () {
  const service = yield* TestService
  const gemini = yield* google
  const openAi = yield* startProvider(openAiVendor)
  const anthropic = yield* startProvider(anthropicVendor)
  yield* configure(
    service,
    [
      { ...provider("goo", gemini), dialect: "gemini", baseUrl: `${gemini.url}/v1beta`, apiKey: "secret-of-google" },
      provider("oa", openAi),
      { ...provider("an", anthropic), dialect: "anthropic", baseUrl: anthropic.url }
    ],
    [
      model("vectors", ["goo"], { kind: "embedding" }),
      model("other-vectors", ["oa"], { kind: "embedding" }),
      model("gemini", ["goo"]),
      model("gpt", ["oa"]),
      model("claude", ["an"])
    ]
  )
  const { key, tenantId } = yield* spender(service, [{ limit: 10 }])
  const client = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: service.url } })
  return { anthropic, client, gemini, key, openAi, service, tenantId }
})

/** All that an SDK gives one after the other. */
const gathered = <A>(asked: () => Promise<AsyncIterable<A>>): Effect.Effect<ReadonlyArray<A>> =>
  Effect.promise(async () => {
    const found: Array<A> = []
    for await (const one of await asked()) found.push(one)
    return found
  })

const element = { candidates: [{ content: { role: "model", parts: [{ text: "It" }] }, index: 0 }], responseId: "r1" }
const chunk = { id: "c", choices: [{ index: 0, delta: { role: "assistant", content: "It" }, finish_reason: null }] }

const declared = { functionDeclarations: [{ name: "f", parametersJsonSchema: { type: "object", properties: {} } }] }
const config = { maxOutputTokens: 50, tools: [declared] }

layer(serviceLayer({}), { excludeTestServices: true, timeout: "60 seconds" })("Google's SDK", (it) => {
  for (const name of ["gemini", "gpt", "claude"]) {
    it.effect(`asks ${name}, whole and streamed, and is charged`, () =>
      Effect.gen(function* () {
        const { client, service, tenantId } = yield* setUp
        const request = { model: name, contents: "Hi", config: { maxOutputTokens: 50 } }
        const whole = yield* Effect.promise(() => client.models.generateContent(request))
        assert.strictEqual(whole.text, said)
        assert.isAbove(whole.usageMetadata?.totalTokenCount ?? 0, 0)
        const streamed = yield* gathered(() => client.models.generateContentStream(request))
        const last = streamed.at(-1)
        assert.strictEqual(streamed.map(({ text }) => text ?? "").join(""), said)
        assert.strictEqual(last?.candidates?.[0]?.finishReason, "STOP")
        assert.isAbove(last?.usageMetadata?.totalTokenCount ?? 0, 0)
        const rows = yield* usageRows(service, tenantId)
        assert.lengthOf(rows, 2)
        for (const row of rows) {
          assert.deepInclude(row, { dialect: "gemini", operation: "chat", modelAsked: name, method: "provider_usage" })
          assert.isAbove(Number(row.cost), 0)
        }
        yield* assertNoDrift(service.database)
      }).pipe(Effect.scoped)
    )
  }

  it.effect("gets the bytes of Google's answers, and Google those of its requests, but for the limit and the key", () =>
    Effect.gen(function* () {
      const { client, gemini, key, service } = yield* setUp
      const contents = [
        { role: "user", parts: [{ text: "Hi" }] },
        { role: "model", parts: [signed] },
        { role: "user", parts: [{ functionResponse: { id: "a", name: "f", response: { output: "1" } } }] }
      ]
      const found = yield* Effect.promise(() => client.models.generateContent({ model: "gemini", contents, config }))
      assert.deepStrictEqual(found.candidates?.[0]?.content?.parts?.[1], signed)
      const [sent] = gemini.requests
      assert.strictEqual(sent?.path, "/v1beta/models/gemini:generateContent")
      assert.strictEqual(sent?.headers["x-goog-api-key"], "secret-of-google")
      assert.deepStrictEqual(sent?.body.contents, contents)
      const url = `${service.url}/v1beta/models/gemini:generateContent?key=${key}`
      const body = '{"contents":[{"parts":[{"text":"Hi"}]}],"generation_config":{"temperature":0.50}}'
      const headers = { "content-type": "application/json" }
      const raw = yield* Effect.promise(() => fetch(url, { method: "POST", headers, body }))
      assert.strictEqual(raw.status, 200)
      const limited = gemini.requests.at(-1)?.body
      assert.hasAllKeys(limited, ["contents", "generation_config"])
      assert.strictEqual(limited.generation_config.temperature, 0.5)
      assert.isAbove(limited.generation_config.max_output_tokens, 0)
    }).pipe(Effect.scoped)
  )

  it.effect("has its answers limited under a hard cap by any provider where it sets no limit", () =>
    Effect.gen(function* () {
      const { anthropic, client, gemini, openAi } = yield* setUp
      const ask = (name: string) => Effect.promise(() => client.models.generateContent({ model: name, contents: "Hi" }))
      for (const name of ["gemini", "gpt", "claude"]) yield* ask(name)
      assert.isAbove(gemini.requests.at(-1)?.body.generationConfig.maxOutputTokens, 0)
      const { max_completion_tokens: newer, max_tokens: older } = openAi.requests.at(-1)?.body ?? {}
      assert.isAbove(newer ?? older, 0)
      assert.isAbove(anthropic.requests.at(-1)?.body.max_tokens, 0)
    }).pipe(Effect.scoped)
  )

  it.effect("gets a stream as one array where it asks for no events", () =>
    Effect.gen(function* () {
      const { key, service } = yield* setUp
      for (const name of ["gemini", "gpt"]) {
        const answered = yield* Effect.promise(async () => {
          const response = await fetch(`${service.url}/v1beta/models/${name}:streamGenerateContent`, {
            method: "POST",
            headers: { "x-goog-api-key": key, "content-type": "application/json" },
            body: JSON.stringify({ contents: [{ role: "user", parts: [{ text: "Hi" }] }] })
          })
          return { type: response.headers.get("content-type"), body: await response.json() }
        })
        assert.match(answered.type ?? "", /^application\/json/)
        const texts = answered.body.flatMap(
          ({
            candidates = []
          }: {
            candidates?: ReadonlyArray<{ content?: { parts?: ReadonlyArray<{ text?: string }> } }>
          }) => candidates.flatMap(({ content }) => (content?.parts ?? []).map(({ text = "" }) => text))
        )
        assert.strictEqual(texts.join(""), said)
      }
    }).pipe(Effect.scoped)
  )

  for (const name of ["gemini", "gpt"]) {
    it.effect(`is told where a stream of ${name} breaks off, in events and in an array`, () =>
      Effect.gen(function* () {
        const { client, gemini, key, openAi, service } = yield* setUp
        const first = name === "gpt" ? chunk : element
        for (const standIn of [gemini, openAi]) {
          standIn.answer = (_, response) => {
            response.writeHead(200, { "content-type": "text/event-stream" })
            response.write(`data: ${JSON.stringify(first)}\n\n`, () => setImmediate(() => response.destroy()))
          }
        }
        const failed = yield* Effect.promise(() =>
          Effect.runPromise(gathered(() => client.models.generateContentStream({ model: name, contents: "Hi" }))).then(
            () => assert.fail("no error"),
            (error: unknown) => String(error)
          )
        )
        assert.include(failed, "broke")
        const elements = yield* Effect.promise(async () => {
          const response = await fetch(`${service.url}/v1beta/models/${name}:streamGenerateContent`, {
            method: "POST",
            headers: { "x-goog-api-key": key, "content-type": "application/json" },
            body: JSON.stringify({ contents: [{ role: "user", parts: [{ text: "Hi" }] }] })
          })
          return (await response.json()) as ReadonlyArray<{ readonly error?: { readonly code: number } }>
        })
        assert.strictEqual(elements.at(-1)?.error?.code, 502)
        assert.isUndefined(elements[0]?.error)
      }).pipe(Effect.scoped)
    )
  }

  it.effect("counts, lists models, and reads errors", () =>
    Effect.gen(function* () {
      const { client, key, service } = yield* setUp
      const counted = yield* Effect.promise(() => client.models.countTokens({ model: "gemini", contents: "Hi" }))
      assert.strictEqual(counted.totalTokens, 42)
      const estimated = yield* Effect.promise(() => client.models.countTokens({ model: "gpt", contents: "Hi" }))
      assert.isAbove(estimated.totalTokens ?? 0, 0)
      const listed = yield* gathered(() => client.models.list())
      assert.includeMembers(
        listed.map(({ name }) => name),
        ["models/gemini", "models/gpt"]
      )
      const one = yield* Effect.promise(() => client.models.get({ model: "gpt" }))
      assert.strictEqual(one.name, "models/gpt")
      const refusal = yield* Effect.promise(() =>
        client.models.generateContent({ model: "none", contents: "Hi" }).then(
          () => assert.fail("found"),
          (error: { readonly status: number; readonly message: string }) => error
        )
      )
      assert.strictEqual(refusal.status, 404)
      assert.include(refusal.message, "MODEL_NOT_FOUND")
      const tuned = yield* service.call("POST", "/v1beta/models/gemini:generateAnswer", { key, body: {} })
      assert.deepStrictEqual([tuned.status, tuned.body.error.status], [404, "NOT_FOUND"])
      const two = yield* service.call("POST", "/v1beta/models/gemini:generateContent?key=amk_other", { key, body: {} })
      assert.deepStrictEqual([two.status, two.body.error.status], [401, "UNAUTHENTICATED"])
    }).pipe(Effect.scoped)
  )

  it.effect("makes vectors, of Google's models and of others, for callers of both formats", () =>
    Effect.gen(function* () {
      const { client, gemini, key, service, tenantId } = yield* setUp
      for (const name of ["vectors", "other-vectors"]) {
        const made = yield* Effect.promise(() => client.models.embedContent({ model: name, contents: ["a", "b"] }))
        assert.lengthOf(made.embeddings ?? [], 2, name)
        assert.isAbove(made.embeddings?.[0]?.values?.length ?? 0, 1)
      }
      assert.strictEqual(gemini.requests[0]?.path, "/v1beta/models/vectors:batchEmbedContents")
      const asked = { model: "vectors", input: ["a", "b", "c"], encoding_format: "float" }
      const chat = yield* service.call("POST", "/v1/embeddings", { key, body: asked })
      assert.deepStrictEqual(
        chat.body.data.map(({ embedding }: { embedding: unknown }) => embedding),
        [
          [0, 0.5],
          [1, 0.5],
          [2, 0.5]
        ],
        chat.text
      )
      for (const row of yield* usageRows(service, tenantId)) assert.isAbove(Number(row.cost), 0)
    }).pipe(Effect.scoped)
  )

  it.effect("serves callers of the other formats with Gemini's models", () =>
    Effect.gen(function* () {
      const { gemini, key, service } = yield* setUp
      const messages = [{ role: "user", content: "Hi" }]
      const chat = yield* service.call("POST", "/v1/chat/completions", { key, body: { model: "gemini", messages } })
      assert.strictEqual(chat.status, 200, chat.text)
      assert.strictEqual(chat.body.choices[0].message.content, said)
      assert.strictEqual(chat.body.choices[0].message.tool_calls[0].function.name, "f")
      assert.deepInclude(chat.body.usage, { prompt_tokens: 90, completion_tokens: 30 })
      assert.isAbove(gemini.requests[0]?.body.generationConfig.maxOutputTokens, 0)
      const message = yield* service.call("POST", "/v1/messages", {
        key,
        body: { model: "gemini", max_tokens: 50, messages }
      })
      assert.strictEqual(message.body.content[0].text, said, message.text)
      assert.strictEqual(message.body.stop_reason, "tool_use")
      const response = yield* service.call("POST", "/v1/responses", { key, body: { model: "gemini", input: "Hi" } })
      assert.strictEqual(response.body.output.at(-1).type, "function_call", response.text)
      const native = yield* service.call("POST", "/api/llm/complete", { key, body: { model: "gemini", messages } })
      assert.strictEqual(native.body.text, said, native.text)
    }).pipe(Effect.scoped)
  )
})
