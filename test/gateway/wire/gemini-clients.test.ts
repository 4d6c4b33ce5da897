import { assert, layer } from "@effect/vitest"
import { GoogleGenAI } from "@google/genai"
import { Effect } from "effect"
import { configure, model, provider, readAll, spender, usageRows } from "../../support/gateway.ts"
import { json, sse, startProvider } from "../../support/provider.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { openAiVendor, said } from "../../support/vendors.ts"

const answer = {
  candidates: [{ content: { role: "model", parts: [{ text: said }] }, finishReason: "STOP", index: 0 }],
  usageMetadata: { promptTokenCount: 90, candidatesTokenCount: 20, totalTokenCount: 110 }
}
const contents = [{ role: "user", parts: [{ text: "Hi" }] }]

const setUp = Effect.fnUntraced(function* (limit = 10) {
  const service = yield* TestService
  const gemini = yield* startProvider(({ path }, response) => {
    if (path.includes(":countTokens")) return json(response, 200, { totalTokens: 42 })
    if (path.includes("mbed")) return json(response, 200, { embeddings: [{ values: [0.5] }] })
    if (!path.includes("alt=sse")) return json(response, 200, answer)
    sse(response, [answer])
    response.end()
  })
  const openAi = yield* startProvider(openAiVendor)
  yield* configure(
    service,
    [provider("goo", gemini, { dialect: "gemini", baseUrl: `${gemini.url}/v1beta` }), provider("oa", openAi)],
    [
      model("gem", [], { targets: [{ provider: "goo", model: "gemini-3-pro" }] }),
      model("vectors", [], { kind: "embedding", targets: [{ provider: "goo", model: "embedding-1" }] }),
      model("ft:gpt:org/a", ["oa"])
    ]
  )
  const { key, tenantId } = yield* spender(service, [{ limit }])
  const send = (method: string, path: string, body?: object, headers: Record<string, string> = {}) =>
    service.call(method, path, {
      key: null,
      headers: { "x-goog-api-key": key, ...headers },
      ...(body === undefined ? {} : { body })
    })
  return { gemini, key, openAi, send, service, tenantId }
})

const statusOf = (failed: Promise<unknown>) =>
  Effect.promise(() =>
    failed.then(
      () => assert.fail("no error"),
      (error: { readonly name: string; readonly status: number; readonly message: string }) => error
    )
  )

layer(serviceLayer({}), { excludeTestServices: true, timeout: "60 seconds" })("a client of Gemini's API", (it) => {
  it.effect("finds a model by any name that it has, in either version, with the colon encoded or not", () =>
    Effect.gen(function* () {
      const { openAi, send } = yield* setUp()
      for (const path of [
        "/v1beta/models/ft:gpt:org/a:generateContent",
        "/v1beta/models/ft%3Agpt%3Aorg%2Fa%3AgenerateContent",
        "/v1/models/ft:gpt:org%2Fa:generateContent",
        "/v1/models/ft%3Agpt%3Aorg/a%3AgenerateContent",
        "/v1beta/models/oa/ft%3Agpt%3Aorg/a:generateContent"
      ]) {
        const { body, status, text } = yield* send("POST", path, { contents })
        assert.strictEqual(status, 200, `${path} ${text}`)
        assert.strictEqual(body.candidates[0].content.parts[0].text, said)
        assert.strictEqual(openAi.requests.at(-1)?.body.model, "ft:gpt:org/a")
      }
    }).pipe(Effect.scoped)
  )

  it.effect("is refused in Google's form at any path and by any method that is not served, with those that are", () =>
    Effect.gen(function* () {
      const { gemini, send } = yield* setUp()
      const models = "GET, HEAD, OPTIONS"
      const methods = "POST, OPTIONS"
      for (const [method, path, status, allow] of [
        ["GET", "/v1beta/models/gem:generateContent", 405, methods],
        ["GET", "/v1/models/gem%3AstreamGenerateContent?alt=sse", 405, methods],
        ["PUT", "/v1beta/models/gem:countTokens", 405, methods],
        ["DELETE", "/v1/models/gem:embedContent", 405, methods],
        ["PATCH", "/v1beta/models/gem", 405, models],
        ["POST", "/v1beta/models", 405, models],
        ["POST", "/v1beta/models/", 405, models],
        ["POST", "/v1/models", 405, models],
        ["POST", "/v1beta/models/gem", 405, models],
        ["POST", "/v1/models/gem", 405, models],
        ["POST", "/v1beta/models/gem:GenerateContent", 404, null],
        ["POST", "/v1beta/models/gem:generateContent/", 404, null],
        ["POST", "/v1beta/models/gem:predict", 404, null],
        ["POST", "/v1/models/gem%3Apredict", 404, null],
        ["POST", "/v1beta/models/:generateContent", 404, null],
        ["POST", "/v1beta/models/none:generateContent", 404, null],
        ["POST", "/v1beta/models/tunedModels/x:generateContent", 404, null],
        ["POST", "/v1beta/tunedModels/x:generateContent", 404, null],
        ["POST", "/v1beta/cachedContents", 404, null],
        ["POST", "/models/gem:generateContent", 404, null],
        ["GET", "/v1beta/models/none", 404, null],
        ["GET", "/v1beta", 404, null]
      ] as const) {
        const given = yield* send(method, path, method === "GET" ? undefined : { contents })
        assert.strictEqual(given.status, status, `${method} ${path} ${given.text}`)
        assert.strictEqual(given.headers.get("allow"), allow, `${method} ${path}`)
        assert.strictEqual(given.body.error.code, status, `${method} ${path} ${given.text}`)
        assert.isString(given.body.error.status)
      }
      assert.isEmpty(gemini.requests)
    }).pipe(Effect.scoped)
  )

  it.effect("gets HEAD as GET without a body, and OPTIONS with the methods of a path", () =>
    Effect.gen(function* () {
      const { send } = yield* setUp()
      for (const path of ["/v1beta/models", "/v1beta/models/", "/v1beta/models/gem", "/v1/models/gem"]) {
        const head = yield* send("HEAD", path)
        assert.deepStrictEqual([head.status, head.text], [200, ""], path)
        const options = yield* send("OPTIONS", path)
        assert.deepStrictEqual([options.status, options.headers.get("allow")], [204, "GET, HEAD, OPTIONS"], path)
      }
      for (const path of ["/v1beta/models/gem:generateContent", "/v1/models/gem%3AcountTokens"]) {
        const options = yield* send("OPTIONS", path)
        assert.deepStrictEqual([options.status, options.headers.get("allow")], [204, "POST, OPTIONS"], path)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("sends one key, wherever it stands; two that differ are refused", () =>
    Effect.gen(function* () {
      const { key, send, service } = yield* setUp()
      const bearer = { authorization: `Bearer ${key}` }
      const none = { "x-goog-api-key": "" }
      const path = "/v1beta/models/gem:generateContent"
      for (const [query, headers] of [
        ["", {}],
        ["", { ...none, ...bearer }],
        ["", { ...none, "x-api-key": key }],
        [`?key=${key}`, none],
        [`?%6Bey=${key}`, none],
        [`?key=${key}&key=${key}`, bearer],
        ["?key=", {}]
      ] as const) {
        const { status, text } = yield* send("POST", path + query, { contents }, headers)
        assert.strictEqual(status, 200, `${query} ${text}`)
      }
      const other = "amk_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ01"
      for (const [query, headers] of [
        [`?key=${other}`, {}],
        [`?key=${key}&key=${other}`, none],
        [`?key=${other}&key=${key}`, {}],
        ["", { "x-api-key": other }],
        ["", { authorization: `Bearer ${other}` }],
        [`?key=${other}`, { ...none, ...bearer }]
      ] as const) {
        const { body, status, text } = yield* send("POST", path + query, { contents }, headers)
        assert.strictEqual(status, 401, `${query} ${text}`)
        assert.strictEqual(body.error.status, "UNAUTHENTICATED")
        assert.notInclude(text, other)
      }
      const elsewhere = yield* service.call("GET", `/v1/responses/x?key=${key}`, { key: null })
      assert.strictEqual(elsewhere.status, 401)
    }).pipe(Effect.scoped)
  )

  it.effect("lists models in Google's form where its key stands in the query alone", () =>
    Effect.gen(function* () {
      const { key, service } = yield* setUp()
      const list = yield* service.call("GET", `/v1/models?key=${key}`, { key: null })
      assert.include(
        list.body.models.map(({ name }: { readonly name: string }) => name),
        "models/gem",
        list.text
      )
      const one = yield* service.call("GET", `/v1/models/gem?key=${key}`, { key: null })
      assert.strictEqual(one.body.name, "models/gem", one.text)
      const absent = yield* service.call("GET", `/v1/models/none?key=${key}`, { key: null })
      assert.deepStrictEqual([absent.status, absent.body.error.status], [404, "NOT_FOUND"])
      assert.notInclude(absent.text, key)
    }).pipe(Effect.scoped)
  )

  it.effect("names the model in its body as it likes, and the provider gets its own name of the path's model", () =>
    Effect.gen(function* () {
      const { gemini, send } = yield* setUp()
      const dear = "models/gemini-ultra"
      const cases = [
        ["gem:generateContent", { contents, model: dear }, ["model"], "gemini-3-pro"],
        [
          "gem:countTokens",
          { generateContentRequest: { contents, model: dear } },
          ["generateContentRequest", "model"],
          "gemini-3-pro"
        ],
        [
          "gem:countTokens",
          { generate_content_request: { contents, model: 1 } },
          ["generate_content_request", "model"],
          "gemini-3-pro"
        ],
        ["gem:countTokens", { contents, model: dear }, ["model"], "gemini-3-pro"],
        ["vectors:embedContent", { content: contents[0], model: dear }, ["model"], "embedding-1"],
        [
          "vectors:batchEmbedContents",
          { requests: [{ content: contents[0], model: dear }] },
          ["requests", 0, "model"],
          "embedding-1"
        ],
        [
          "vectors:batchEmbedContents",
          { requests: { content: contents[0], model: dear } },
          ["requests", 0, "model"],
          "embedding-1"
        ]
      ] as const
      for (const [path, body, place, name] of cases) {
        yield* send("POST", `/v1beta/models/${path}`, body)
        const sent = gemini.requests.at(-1)
        assert.include(sent?.path, `/v1beta/models/${name}:`)
        const found = place.reduce<unknown>((value, member) => Reflect.get(Object(value), member), sent?.body)
        assert.strictEqual(found, `models/${name}`, `${path} ${JSON.stringify(sent?.body)}`)
      }
      yield* send("POST", "/v1beta/models/gem:countTokens", { contents })
      assert.deepStrictEqual(gemini.requests.at(-1)?.body, { contents })
    }).pipe(Effect.scoped)
  )

  it.effect("gets an array that is JSON for whatever it calls the framing, and events for alt=sse alone", () =>
    Effect.gen(function* () {
      const { gemini, key, send, service, tenantId } = yield* setUp()
      for (const query of ["", "?alt=json", "?alt=", "?alt=SSE2", `?key=${key}`]) {
        const { headers, text } = yield* send("POST", `/v1beta/models/gem:streamGenerateContent${query}`, { contents })
        assert.match(headers.get("content-type") ?? "", /^application\/json/)
        assert.strictEqual(JSON.parse(text)[0].candidates[0].content.parts[0].text, said)
      }
      const path = "/v1beta/models/gem:streamGenerateContent?key=&alt=sse"
      const events = yield* readAll(service, key, path, { contents })
      assert.match(events.headers.get("content-type") ?? "", /^text\/event-stream/)
      assert.strictEqual(JSON.parse(events.text.replace("data: ", "")).candidates[0].content.parts[0].text, said)
      for (const { path } of gemini.requests) assert.notInclude(path, "key")
      assert.lengthOf(yield* usageRows(service, tenantId), 6)
    }).pipe(Effect.scoped)
  )

  it.effect("gets an error's status and reason by the SDK: what no budget has room for, whole and streamed", () =>
    Effect.gen(function* () {
      const { gemini, key, service } = yield* setUp(0.000001)
      const client = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: service.url } })
      const request = { model: "gem", contents: "Hi" }
      for (const called of [
        () => client.models.generateContent(request),
        () => client.models.generateContentStream(request)
      ]) {
        const failed = yield* statusOf(called())
        assert.deepStrictEqual([failed.name, failed.status], ["ApiError", 402], failed.message)
        assert.include(failed.message, "RESOURCE_EXHAUSTED")
        assert.match(failed.message, /"reason":"[A-Z_]+"/)
      }
      // What does not fit by its bytes was counted, which is free.
      assert.isTrue(gemini.requests.every(({ path }) => path.includes(":countTokens")))
    }).pipe(Effect.scoped)
  )

  for (const status of [429, 500, 503]) {
    it.effect(`gets a provider's ${status} by the SDK, from models of Google's and of others`, () =>
      Effect.gen(function* () {
        const { gemini, key, openAi, service } = yield* setUp()
        gemini.answer = (_, response) => json(response, status, [{ error: { code: status, message: "Not now" } }])
        openAi.answer = (_, response) => json(response, status, { error: { message: "Not now", type: "x" } })
        const client = new GoogleGenAI({ apiKey: key, httpOptions: { baseUrl: service.url } })
        for (const name of ["gem", "ft:gpt:org/a"]) {
          const request = { model: name, contents: "Hi" }
          for (const called of [
            () => client.models.generateContent(request),
            () => client.models.generateContentStream(request)
          ]) {
            const failed = yield* statusOf(called())
            assert.deepStrictEqual([failed.name, failed.status], ["ApiError", status], failed.message)
            assert.include(failed.message, "Not now", name)
          }
        }
      }).pipe(Effect.scoped)
    )
  }

  it.effect("may write its body in snake case, for models of every provider", () =>
    Effect.gen(function* () {
      const { openAi, send } = yield* setUp()
      const body = {
        contents: { parts: { text: "Hi" } },
        system_instruction: { parts: [{ text: "Be brief." }] },
        generation_config: { max_output_tokens: 30, stop_sequences: ["x"] },
        tools: [{ function_declarations: [{ name: "f", parameters_json_schema: { type: "object" } }] }]
      }
      for (const name of ["gem", "ft:gpt:org/a"]) {
        const { status, text } = yield* send("POST", `/v1beta/models/${name}:generateContent`, body)
        assert.strictEqual(status, 200, text)
      }
      assert.deepInclude(openAi.requests.at(-1)?.body, { stop: ["x"] })
      const both = yield* send("POST", "/v1beta/models/gem:generateContent", {
        ...body,
        generationConfig: { maxOutputTokens: 1_000_000 }
      })
      assert.deepStrictEqual([both.status, both.body.error.status], [400, "INVALID_ARGUMENT"])
    }).pipe(Effect.scoped)
  )
})
