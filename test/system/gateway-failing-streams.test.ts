import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { charges, configure, costNanoUsd, model, provider, spender, usageRows } from "../support/gateway.ts"
import { type Answerer, sse, startProvider } from "../support/provider.ts"
import { sharedServiceLayer, TestService } from "../support/service.ts"
import { anthropicVendor, calledWith, openAiVendor, said, used } from "../support/vendors.ts"

const chunk = (content: string, finish_reason: string | null = null) => ({
  choices: [{ index: 0, delta: { content }, finish_reason }]
})
/** An event in several lines. */
const lines = (event: object) => `data: ${JSON.stringify(event, null, 1).replaceAll("\n", "\ndata: ")}\n\n`

const usage = { prompt_tokens: 10, completion_tokens: 5, total_tokens: 15 }

/** A vendor that streams whatever it is asked. */
const streaming =
  (vendor: Answerer, members: object = {}): Answerer =>
  (request, response) =>
    vendor({ ...request, body: { ...request.body, ...members, stream: true } }, response)

/** An answer that is read to its end. */
const stream = ({ url }: TestService["Service"], key: string, body: object = {}, path = "/v1/chat/completions") =>
  Effect.promise(async () => {
    const response = await fetch(`${url}${path}`, {
      method: "POST",
      headers: { "x-api-key": key, "content-type": "application/json" },
      body: JSON.stringify({ model: "gpt", stream: true, messages: [{ role: "user", content: "Hi" }], ...body })
    })
    return { status: response.status, text: await response.text() }
  })

const wordsOf = (text: string): string =>
  text
    .split("\n\n")
    .filter((event) => event.startsWith("data: {"))
    .map((event) => JSON.parse(event.slice(6).replaceAll("\ndata: ", "\n")).choices?.[0]?.delta?.content ?? "")
    .join("")

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "a provider whose streams are odd",
  (it) => {
    it.effect("is failed over from where its first event is an error, and charged nothing", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const failing = yield* startProvider((_, response) => {
          sse(response, [{ error: { message: "Overloaded", type: "overloaded_error" } }])
          response.end()
        })
        const good = yield* startProvider(openAiVendor)
        yield* configure(service, [provider("bad", failing), provider("oa", good)], [model("gpt", ["bad", "oa"])])
        const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
        const answer = yield* stream(service, key, { max_tokens: 30 })
        assert.strictEqual(answer.status, 200)
        assert.strictEqual(wordsOf(answer.text), said)
        const made = yield* charges(service, tenantId)
        assert.deepStrictEqual(
          made.map(({ amount, method }) => [amount, method]),
          [
            ["0", "released"],
            [String(costNanoUsd), "provider_usage"]
          ]
        )
      }).pipe(Effect.scoped)
    )

    it.effect("is told to have broken off where neither the model nor the stream ended, in each API", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const standIn = yield* startProvider((_, response) => {
          sse(response, [chunk("Noon.")])
          response.end()
        })
        yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
        const { key } = yield* spender(service, [{ limit: 1 }])
        for (const members of [{}, { stream_options: { include_usage: true } }]) {
          const { text } = yield* stream(service, key, members)
          assert.match(text, /Noon[^]*"error":\{"message":"[^"]*broke its answer off/)
          assert.notInclude(text, "[DONE]")
        }
        const responding = { input: "Hi", messages: undefined }
        const { text } = yield* stream(service, key, responding, "/v1/responses")
        assert.include(text, "event: response.failed")
        assert.notInclude(text, "response.completed")
      }).pipe(Effect.scoped)
    )

    it.effect("and tell no usage has it told for them, as it is charged, in a completion and in a response", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const standIn = yield* startProvider((_, response) => {
          sse(response, [chunk("Noon."), chunk("", "stop"), "data: [DONE]\n\n"])
          response.end()
        })
        yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
        const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
        const completion = yield* stream(service, key, { stream_options: { include_usage: true } })
        const response = yield* stream(service, key, { input: "Hi", messages: undefined }, "/v1/responses")
        const [row] = yield* usageRows(service, tenantId)
        assert.deepInclude(row, { method: "estimated", inputTokens: 1, outputTokens: 2 })
        assert.match(completion.text, /"usage":\{"prompt_tokens":1,"completion_tokens":2,[^\n]*\n\ndata: \[DONE\]\n\n$/)
        assert.match(response.text, /response\.completed[^]*"input_tokens":1,[^]*"output_tokens":2,/)
      }).pipe(Effect.scoped)
    )

    it.effect("is read to its last event, and not waited for beyond", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const standIn = yield* startProvider((_, response) =>
          sse(response, [chunk("Noon."), chunk("", "stop"), { choices: [], usage }, "data: [DONE]\n\n"])
        )
        yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
        const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
        const own = yield* stream(service, key, { max_tokens: 30 })
        assert.match(own.text, /data: \[DONE\]\n\n$/)
        const translated = yield* stream(service, key, { max_tokens: 30 }, "/v1/messages")
        assert.match(translated.text, /event: message_stop\ndata: {"type":"message_stop"}\n\n$/)
        assert.notInclude(own.text + translated.text, "error")
        assert.deepStrictEqual(
          (yield* charges(service, tenantId)).map(({ amount, method }) => `${amount} ${method}`),
          Array(2).fill("70000 provider_usage")
        )
      }).pipe(Effect.scoped)
    )

    it.effect("is put together where a whole answer was asked for, and failed where it breaks off", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const openai = yield* startProvider(streaming(openAiVendor, { stream_options: { include_usage: true } }))
        const anthropic = yield* startProvider(streaming(anthropicVendor))
        const cut = yield* startProvider((_, response) => (sse(response, [chunk("Noon.")]), response.end()))
        const providers = [
          provider("oa", openai),
          provider("an", anthropic, { baseUrl: anthropic.url, dialect: "anthropic" }),
          provider("cut", cut)
        ]
        yield* configure(service, providers, [model("gpt", ["oa"]), model("claude", ["an"]), model("cut", ["cut"])])
        const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
        const tools = [{ name: "a", input_schema: { type: "object", properties: {} } }]
        const messages = [{ role: "user", content: "Hi" }]
        const call = (path: string, body: object) =>
          service.call("POST", path, { key, body: { max_tokens: 30, messages, ...body } })
        for (const name of ["gpt", "claude"]) {
          const completion = yield* call("/v1/chat/completions", { model: name })
          assert.strictEqual(completion.status, 200, completion.text)
          assert.strictEqual(completion.body.choices[0].message.content, said)
          assert.strictEqual(completion.body.usage.completion_tokens, used.output)
          const message = yield* call("/v1/messages", { model: name, tools })
          assert.strictEqual(message.status, 200, message.text)
          const called = message.body.content.find(({ type }: { readonly type: string }) => type === "tool_use")
          assert.deepStrictEqual([called?.name, called?.input], ["a", calledWith])
          assert.strictEqual(message.body.stop_reason, "tool_use")
        }
        assert.strictEqual((yield* call("/v1/chat/completions", { model: "cut" })).status, 502)
        assert.deepStrictEqual(
          (yield* charges(service, tenantId)).map(({ method }) => method),
          [...Array(4).fill("provider_usage"), "estimated"]
        )
      }).pipe(Effect.scoped)
    )

    it.effect("may write an event in several lines, which stay one", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const standIn = yield* startProvider((_, response) => {
          sse(response, [lines(chunk("Noon.")), lines(chunk("", "stop")), "data: [DONE]\n\n"])
          response.end()
        })
        yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
        const { key } = yield* spender(service, [])
        const { text } = yield* stream(service, key)
        assert.strictEqual(wordsOf(text), "Noon.")
        for (const line of text.split("\n")) assert.match(line, /^(?:data: |$)/)
      }).pipe(Effect.scoped)
    )

    it.effect("may say that it is still there, and so it is said", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const ping = 'event: ping\ndata: {"type":"ping"}\n\n'
        const openai = yield* startProvider((_, response) => sse(response, [": one moment\n\n"]))
        const anthropic = yield* startProvider((_, response) => sse(response, [ping]))
        yield* configure(
          service,
          [provider("oa", openai), { id: "an", dialect: "anthropic", baseUrl: anthropic.url }],
          [model("gpt", ["oa"]), model("claude", ["an"])]
        )
        const { key } = yield* spender(service, [])
        for (const [path, name, sign] of [
          ["/v1/chat/completions", "gpt", ":\n\n"],
          ["/v1/messages", "gpt", ping],
          ["/v1/chat/completions", "claude", ":\n\n"],
          ["/v1/messages", "claude", ping],
          ["/api/llm/complete", "gpt", ":\n\n"]
        ] as const) {
          yield* Effect.promise(async () => {
            const response = await fetch(`${service.url}${path}`, {
              method: "POST",
              headers: { "x-api-key": key, "content-type": "application/json" },
              body: JSON.stringify({
                model: name,
                stream: true,
                ...(path === "/api/llm/complete" ? {} : { max_tokens: 30 }),
                messages: [{ role: "user", content: "Hi" }]
              })
            })
            const reader = response.body?.getReader()
            const { value } = (await reader?.read()) ?? {}
            assert.strictEqual(new TextDecoder().decode(value), sign, `${path} ${name}`)
            await reader?.cancel()
          })
        }
      }).pipe(Effect.scoped)
    )

    it.effect("is told of where an event has no end, whether its usage is hidden or not", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const standIn = yield* startProvider((_, response) => {
          sse(response, [chunk("Noon."), "data: "])
          const more = () => {
            while (!response.destroyed && response.write("x".repeat(1_048_576)));
            if (!response.destroyed) response.once("drain", more)
          }
          more()
        })
        yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
        const { key } = yield* spender(service, [])
        for (const include_usage of [false, true]) {
          const answer = yield* stream(service, key, { stream_options: { include_usage } })
          const last = answer.text.trimEnd().split("\n\n").at(-1) ?? ""
          assert.strictEqual(JSON.parse(last.slice(6)).error.code, "provider-error")
        }
      }).pipe(Effect.scoped)
    )
  }
)
