import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { configure, model, provider, spender } from "../../support/gateway.ts"
import { type Answerer, json, startProvider } from "../../support/provider.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { said } from "../../support/vendors.ts"

/** Four thousand bytes, of which a token is four. */
const long = "The quick brown fox jumps over the lazy dog. ".repeat(90)
const turn = (role: string, ...parts: ReadonlyArray<object>) => ({ role, parts })
const text = (words: string) => ({ text: words })

const answer = {
  candidates: [{ content: { role: "model", parts: [text(said)] }, finishReason: "STOP", index: 0 }],
  usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 20, totalTokenCount: 120 }
}
const counts: Answerer = (_, response) => json(response, 200, { totalTokens: 1000 })
const refuses =
  (status: number): Answerer =>
  (_, response) =>
    json(response, status, { error: { code: status, message: "No.", status: "NOT_FOUND" } })

/** A provider with Gemini's API and this count, a model of it, and a key whose cap the bytes of `long` are too many for. */
const setUp = Effect.fnUntraced(function* (counting: Answerer, limit = 0.005, id = "goo") {
  const service = yield* TestService
  const standIn = yield* startProvider((request, response) => {
    if (request.path.includes(":countTokens")) return counting(request, response)
    if (request.path.includes("alt=sse")) {
      response.writeHead(200, { "content-type": "text/event-stream" })
      return response.end(`data: ${JSON.stringify(answer)}\r\n\r\n`)
    }
    return json(response, 200, answer)
  })
  const gemini = provider(id, standIn, { dialect: "gemini", baseUrl: `${standIn.url}/v1beta` })
  const target = { provider: id, model: "gemini-3-pro" }
  yield* configure(service, [gemini], [model("gem", [], { targets: [target], contextTokens: 100_000 })])
  const { key } = yield* spender(service, [{ limit }])
  const counted = () => standIn.requests.filter(({ path }) => path.includes(":countTokens"))
  const generate = (body: object, method = "generateContent") =>
    service.call("POST", `/v1beta/models/gem:${method}`, {
      key,
      body: { generationConfig: { maxOutputTokens: 30 }, ...body }
    })
  return { counted, generate, key, service, standIn }
})

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })(
  "calls of Gemini's models that do not fit by their bytes",
  (it) => {
    it.effect("are admitted by Google's own count, of what Google takes and what a model reads alone", () =>
      Effect.gen(function* () {
        const { counted, generate } = yield* setUp(counts)
        const first = yield* generate({
          contents: [turn("user", text(long))],
          systemInstruction: turn("user", text("Be brief.")),
          tools: [{ functionDeclarations: [{ name: "f" }] }],
          toolConfig: { functionCallingConfig: { mode: "AUTO" } },
          safetySettings: [{ category: "HARM_CATEGORY_HARASSMENT", threshold: "BLOCK_NONE" }],
          labels: { team: "a" },
          model: "models/other"
        })
        assert.strictEqual(first.status, 200, first.text)
        assert.deepStrictEqual(
          counted().map(({ body, path }) => [path, body]),
          [
            [
              "/v1beta/models/gemini-3-pro:countTokens",
              {
                generateContentRequest: {
                  contents: [turn("user", text(long))],
                  systemInstruction: turn("user", text("Be brief.")),
                  tools: [{ functionDeclarations: [{ name: "f" }] }],
                  toolConfig: { functionCallingConfig: { mode: "AUTO" } },
                  model: "models/gemini-3-pro"
                }
              }
            ]
          ]
        )
      }).pipe(Effect.scoped)
    )

    it.effect("are counted in snake case, in a stream, and for callers of other formats, too", () =>
      Effect.gen(function* () {
        const { counted, generate, key, service } = yield* setUp(counts)
        const snake = yield* generate({
          generationConfig: undefined,
          generation_config: { max_output_tokens: 30 },
          contents: { role: "user", parts: { text: long } },
          system_instruction: { parts: [text("Be brief.")] },
          safety_settings: []
        })
        assert.strictEqual(snake.status, 200, snake.text)
        const [request] = counted()
        assert.deepStrictEqual(request?.body.generateContentRequest, {
          contents: [turn("user", text(long))],
          systemInstruction: { parts: [text("Be brief.")] },
          model: "models/gemini-3-pro"
        })
        const streamed = yield* generate({ contents: [turn("user", text(`1 ${long}`))] }, "streamGenerateContent")
        assert.strictEqual(streamed.status, 200, streamed.text)
        const chat = yield* service.call("POST", "/v1/chat/completions", {
          key,
          body: { model: "gem", max_tokens: 30, messages: [{ role: "user", content: `2 ${long}` }] }
        })
        assert.strictEqual(chat.status, 200, chat.text)
        assert.lengthOf(counted(), 3)
      }).pipe(Effect.scoped)
    )

    it.effect("are counted where they do not fit alone, and once for each conversation", () =>
      Effect.gen(function* () {
        const wide = yield* setUp(counts, 10, "wide")
        assert.strictEqual((yield* wide.generate({ contents: [turn("user", text(long))] })).status, 200)
        assert.isEmpty(wide.counted())
        const { counted, generate } = yield* setUp(counts)
        const before = [turn("user", text(long)), turn("model", text("Yes."))]
        assert.strictEqual((yield* generate({ contents: before.slice(0, 1) })).status, 200)
        const next = yield* generate({ contents: [...before, turn("user", text("And now?"))] })
        assert.strictEqual(next.status, 200, next.text)
        assert.lengthOf(counted(), 1)
        // A picture is more tokens than its bytes.
        for (const [count, data] of [
          [2, { inlineData: { mimeType: "image/png", data: "aGk=" } }],
          [3, { inline_data: { mime_type: "image/png", data: "aG8=" } }]
        ] as const) {
          yield* generate({ contents: [...before, turn("user", data)] })
          assert.lengthOf(counted(), count)
        }
      }).pipe(Effect.scoped)
    )

    it.effect(
      "are refused by their bytes where Google's count fails, which is asked again unless it is not served",
      () =>
        Effect.gen(function* () {
          for (const [status, asked] of [
            [404, 1],
            [501, 1],
            [400, 2],
            [429, 2],
            [500, 2]
          ] as const) {
            const { counted, generate, standIn } = yield* setUp(refuses(status), 0.005, `goo-${status}`)
            for (const words of ["1", "2"]) {
              const refused = yield* generate({ contents: [turn("user", text(words + long))] })
              assert.strictEqual(refused.status, 402, refused.text)
              assert.strictEqual(refused.body.error.status, "RESOURCE_EXHAUSTED")
            }
            assert.lengthOf(counted(), asked, String(status))
            assert.lengthOf(standIn.requests, asked)
          }
        }).pipe(Effect.scoped)
    )

    it.effect("are refused by their bytes where a count says nothing, or more than they can have", () =>
      Effect.gen(function* () {
        for (const [index, told] of [
          {},
          [],
          { totalTokens: -1 },
          { totalTokens: "x" },
          { totalTokens: 1e6 }
        ].entries()) {
          const odd: Answerer = (_, response) => json(response, 200, told)
          const { generate } = yield* setUp(odd, 0.005, `odd-${index}`)
          const refused = yield* generate({ contents: [turn("user", text(long))] })
          assert.strictEqual(refused.status, 402, JSON.stringify(told))
        }
      }).pipe(Effect.scoped)
    )

    it.effect("are not counted with the schema of an answer, which no count is known to cover", () =>
      Effect.gen(function* () {
        const { counted, generate } = yield* setUp(counts)
        const contents = [turn("user", text(long))]
        const schema = { type: "object", properties: {} }
        for (const members of [
          { generationConfig: { maxOutputTokens: 30, responseJsonSchema: schema } },
          { generationConfig: undefined, generation_config: { max_output_tokens: 30, response_schema: schema } }
        ]) {
          const refused = yield* generate({ contents, ...members })
          assert.strictEqual(refused.status, 402, refused.text)
        }
        assert.isEmpty(counted())
      }).pipe(Effect.scoped)
    )
  }
)
