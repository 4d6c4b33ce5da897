import Anthropic from "@anthropic-ai/sdk"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import OpenAI from "openai"
import { type ProviderStandIn, json, sse, startProvider } from "../support/provider.ts"
import { serviceLayer, TestService } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"
import { anthropicVendor, calledWith, openAiVendor, said, used } from "../support/vendors.ts"
import { eventually } from "../support/waiting.ts"

type Service = TestService["Service"]

/** Both vendors' stand-ins, behind a service that knows them. */
class Vendors extends Context.Service<
  Vendors,
  { readonly openai: ProviderStandIn; readonly anthropic: ProviderStandIn }
>()("test/Vendors") {}

const prices = { inputUsdPerMTok: 2, outputUsdPerMTok: 10, cacheReadUsdPerMTok: 0.5 }
/** What the stand-ins' usage costs at these prices, in nano-dollars. */
const cost = BigInt((used.input - used.cached) * 2000 + used.cached * 500 + used.output * 10_000)

const configured = (id: string, provider: string, kind = "chat") => ({
  id,
  kind,
  prices: kind === "chat" ? prices : { inputUsdPerMTok: 1 },
  targets: [{ provider, model: `${id}-upstream` }]
})

const vendors = Layer.effect(
  Vendors,
  Effect.gen(function* () {
    const service = yield* TestService
    const openai = yield* startProvider(openAiVendor)
    const anthropic = yield* startProvider(anthropicVendor)
    const written = yield* service.call("PUT", "/api/llm/admin/config", {
      body: {
        providers: [
          { id: "oa", dialect: "openai", baseUrl: `${openai.url}/v1`, apiKey: "sk-openai" },
          { id: "an", dialect: "anthropic", baseUrl: anthropic.url, apiKey: "sk-anthropic" }
        ],
        models: [configured("gpt", "oa"), configured("claude", "an"), configured("vectors", "oa", "embedding")],
        routing: { retries: 1, breaker: { failures: 1000 } }
      }
    })
    assert.strictEqual(written.status, 200, written.text)
    return { openai, anthropic }
  })
)

const openAiClient = ({ serviceKey, url }: Service) =>
  new OpenAI({ apiKey: serviceKey, baseURL: `${url}/v1`, maxRetries: 0 })
const anthropicClient = ({ serviceKey, url }: Service) =>
  new Anthropic({ apiKey: serviceKey, baseURL: url, maxRetries: 0 })

const reservations = ({ database }: Service) =>
  asSuperuser(
    database,
    (sql) => sql<{ readonly state: string; readonly actual: string | null; readonly method: string | null }>`
      SELECT r.state, r.actual::text, u.method FROM budget_reservations r
      LEFT JOIN gateway_usage u ON u.tenant_id = r.tenant_id AND u.reservation_id = r.id
      ORDER BY r.id`
  )
const last = (service: Service) => Effect.map(reservations(service), (rows) => rows.at(-1))

const settled = { state: "settled", actual: String(cost), method: "provider_usage" }
const all = async <A>(items: AsyncIterable<A>) => {
  const gathered: Array<A> = []
  for await (const item of items) gathered.push(item)
  return gathered
}
const promised = <A>(work: () => Promise<A>) => Effect.promise(work)
const failing = (work: () => Promise<unknown>) =>
  Effect.promise(() =>
    work().then(
      () => assert.fail("it succeeded"),
      // oxlint-disable-next-line typescript/no-explicit-any -- errors of two SDKs
      (error: any) => error
    )
  )

const chat = (model: string) => ({ model, messages: [{ role: "user" as const, content: "What time is it?" }] })
const openAiTools = [
  {
    type: "function" as const,
    function: { name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } }
  }
]
const anthropicTools = [
  { name: "weather", input_schema: { type: "object" as const, properties: { city: { type: "string" } } } }
]

const service = serviceLayer()

layer(vendors.pipe(Layer.provideMerge(service)), { excludeTestServices: true, timeout: "60 seconds" })(
  "the SDKs",
  (it) => {
    for (const model of ["gpt", "claude"]) {
      it.effect(`openai: create, with a ${model}`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const answer = yield* promised(() => openAiClient(service).chat.completions.create(chat(model)))
          assert.strictEqual(answer.choices[0]?.message.content, said)
          assert.strictEqual(answer.choices[0]?.finish_reason, "stop")
          assert.strictEqual(answer.usage?.prompt_tokens, used.input)
          assert.strictEqual(answer.usage?.completion_tokens, used.output)
          assert.strictEqual(answer.usage?.prompt_tokens_details?.cached_tokens, used.cached)
          assert.deepStrictEqual(yield* last(service), settled)
        })
      )

      it.effect(`openai: streams, with a ${model}; usage is told to those who ask`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          for (const include_usage of [true, false]) {
            const stream = yield* promised(() =>
              openAiClient(service).chat.completions.create({
                ...chat(model),
                stream: true,
                ...(include_usage ? { stream_options: { include_usage } } : {})
              })
            )
            const chunks = yield* promised(() => all(stream))
            assert.strictEqual(chunks.map(({ choices }) => choices[0]?.delta.content ?? "").join(""), said)
            const told = chunks.flatMap(({ usage }) => usage ?? [])
            assert.lengthOf(told, include_usage ? 1 : 0)
            if (include_usage) assert.strictEqual(told[0]?.total_tokens, used.input + used.output)
            assert.deepStrictEqual(yield* last(service), settled)
          }
        })
      )

      it.effect(`openai: the stream helper, with tools and their results, with a ${model}`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const client = openAiClient(service)
          const first = yield* promised(() =>
            client.chat.completions.stream({ ...chat(model), tools: openAiTools }).finalChatCompletion()
          )
          const message = first.choices[0]?.message
          const call = message?.tool_calls?.[0]
          if (message === undefined || call === undefined) return assert.fail("no call")
          assert.strictEqual(first.choices[0]?.finish_reason, "tool_calls")
          assert.deepStrictEqual(JSON.parse(call.function.arguments), calledWith)
          const second = yield* promised(() =>
            client.chat.completions.create({
              model,
              tools: openAiTools,
              messages: [
                ...chat(model).messages,
                { role: "assistant", content: null, tool_calls: message.tool_calls ?? [] },
                { role: "tool", tool_call_id: call.id, content: "12:00" }
              ]
            })
          )
          assert.strictEqual(second.choices[0]?.message.content, said)
        })
      )

      it.effect(`anthropic: create, with a ${model}`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const answer = yield* promised(() =>
            anthropicClient(service).messages.create({ ...chat(model), max_tokens: 100 })
          )
          assert.deepInclude(answer.content[0], { type: "text", text: said })
          assert.strictEqual(answer.stop_reason, "end_turn")
          assert.strictEqual(answer.usage.input_tokens, used.input - used.cached)
          assert.strictEqual(answer.usage.cache_read_input_tokens, used.cached)
          assert.strictEqual(answer.usage.output_tokens, used.output)
          assert.deepStrictEqual(yield* last(service), settled)
        })
      )

      it.effect(`anthropic: the stream helper, with tools and their results, with a ${model}`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const client = anthropicClient(service)
          const plain = client.messages.stream({ ...chat(model), max_tokens: 100 })
          assert.strictEqual(yield* promised(() => plain.finalText()), said)
          const message = yield* promised(() => plain.finalMessage())
          assert.strictEqual(message.usage.output_tokens, used.output)
          assert.deepStrictEqual(yield* last(service), settled)
          const first = yield* promised(() =>
            client.messages.stream({ ...chat(model), max_tokens: 100, tools: anthropicTools }).finalMessage()
          )
          const use = first.content[0]
          if (use?.type !== "tool_use") return assert.fail("no call")
          assert.strictEqual(first.stop_reason, "tool_use")
          assert.deepStrictEqual(use.input, calledWith)
          const second = yield* promised(() =>
            client.messages.create({
              model,
              max_tokens: 100,
              tools: anthropicTools,
              messages: [
                ...chat(model).messages,
                { role: "assistant", content: [{ type: "tool_use", id: use.id, name: use.name, input: use.input }] },
                { role: "user", content: [{ type: "tool_result", tool_use_id: use.id, content: "12:00" }] }
              ]
            })
          )
          assert.deepInclude(second.content[0], { text: said })
        })
      )

      it.effect(`an abort reaches the provider of a ${model}, and is charged`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const standIns = yield* Vendors
          const standIn = model === "gpt" ? standIns.openai : standIns.anthropic
          const usual = standIn.answer
          const before = standIn.aborted
          standIn.answer = (_, response) =>
            sse(response, [
              model === "gpt"
                ? {
                    id: "c",
                    choices: [{ index: 0, delta: { role: "assistant", content: "It is" }, finish_reason: null }]
                  }
                : `event: message_start\ndata: ${JSON.stringify({ type: "message_start", message: { id: "m", role: "assistant", content: [], usage: { input_tokens: 30, output_tokens: 1 } } })}\n\n`
            ])
          const stream = yield* promised(() =>
            openAiClient(service).chat.completions.create({ ...chat(model), stream: true })
          )
          yield* promised(async () => {
            for await (const _ of stream) {
              stream.controller.abort()
              break
            }
          })
          yield* eventually(
            Effect.sync(() => standIn.aborted),
            (aborted) => aborted > before
          )
          const charged = yield* eventually(last(service), (row) => row?.state === "settled")
          assert.strictEqual(charged?.method, "aborted")
          assert.isAbove(Number(charged?.actual), 0)
          standIn.answer = usual
        })
      )

      it.effect(`errors of the provider of a ${model} are told in the SDK's own words, and cost nothing`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const standIns = yield* Vendors
          const standIn = model === "gpt" ? standIns.openai : standIns.anthropic
          const usual = standIn.answer
          for (const [status, name] of [
            [400, "BadRequestError"],
            [429, "RateLimitError"],
            [500, "InternalServerError"]
          ] as const) {
            const asked = standIn.requests.length
            const body = { type: "error", error: { type: "some_error", message: "No luck." } }
            standIn.answer = (_, response) => json(response, status, body)
            const one = yield* failing(() => openAiClient(service).chat.completions.create(chat(model)))
            const other = yield* failing(() =>
              anthropicClient(service).messages.create({ ...chat(model), max_tokens: 9 })
            )
            for (const error of [one, other]) {
              assert.strictEqual(error.constructor.name, name)
              assert.match(error.message, /No luck\./)
            }
            assert.strictEqual(standIn.requests.length - asked, status === 400 ? 2 : 4, "tries")
            assert.deepStrictEqual(yield* last(service), { state: "released", actual: null, method: "released" })
          }
          standIn.answer = usual
        })
      )

      it.effect(`an error in the middle of a stream of a ${model} is told as such`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const standIns = yield* Vendors
          const standIn = model === "gpt" ? standIns.openai : standIns.anthropic
          const usual = standIn.answer
          standIn.answer = (_, response) => {
            sse(
              response,
              model === "gpt"
                ? [
                    {
                      id: "c",
                      choices: [{ index: 0, delta: { role: "assistant", content: "It" }, finish_reason: null }]
                    }
                  ]
                : [
                    `event: message_start\ndata: ${JSON.stringify({ type: "message_start", message: { id: "m", type: "message", role: "assistant", content: [], usage: { input_tokens: 30, output_tokens: 1 } } })}\n\n`
                  ]
            )
            setImmediate(() => response.destroy())
          }
          const one = yield* failing(() =>
            openAiClient(service).chat.completions.stream(chat(model)).finalChatCompletion()
          )
          const other = yield* failing(() =>
            anthropicClient(service)
              .messages.stream({ ...chat(model), max_tokens: 9 })
              .finalMessage()
          )
          for (const error of [one, other]) assert.match(error.message, /broke/)
          const row = yield* eventually(last(service), (row) => row?.state === "settled")
          assert.strictEqual(row?.method, "estimated")
          standIn.answer = usual
        })
      )
    }

    it.effect("openai: embeddings, in base64 as the SDK asks for them", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const answer = yield* promised(() =>
          openAiClient(service).embeddings.create({ model: "vectors", input: ["a", "b"] })
        )
        assert.deepStrictEqual(
          answer.data.map(({ embedding }) => embedding),
          [
            [0.5, -0.25, 1],
            [0.5, -0.25, 1]
          ]
        )
        assert.deepStrictEqual(yield* last(service), { ...settled, actual: "7000" })
      })
    )

    it.effect("both: models and count_tokens", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const openai = yield* promised(() => all(openAiClient(service).models.list()))
        assert.includeMembers(
          openai.map(({ id }) => id),
          ["loopback-1", "gpt", "claude", "vectors"]
        )
        const anthropic = yield* promised(() => all(anthropicClient(service).models.list()))
        assert.sameMembers(
          anthropic.map(({ id }) => id),
          ["loopback-1", "gpt", "claude"]
        )
        const count = (model: string) => promised(() => anthropicClient(service).messages.countTokens(chat(model)))
        assert.strictEqual((yield* count("claude")).input_tokens, 42)
        assert.isAbove((yield* count("gpt")).input_tokens, 0)
      })
    )

    it.effect("both: the loopback model needs no account", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const asked = chat("loopback-1")
        const openai = yield* promised(() => openAiClient(service).chat.completions.create(asked))
        assert.strictEqual(openai.choices[0]?.message.content, "What time is it?")
        const text = yield* promised(() =>
          anthropicClient(service)
            .messages.stream({ ...asked, max_tokens: 100 })
            .finalText()
        )
        assert.strictEqual(text, "What time is it?")
      })
    )

    it.effect("both: what the gateway refuses itself", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        for (const error of [
          yield* failing(() => openAiClient(service).chat.completions.create(chat("nothing"))),
          yield* failing(() => anthropicClient(service).messages.create({ ...chat("nothing"), max_tokens: 1 }))
        ]) {
          assert.strictEqual(error.constructor.name, "NotFoundError")
          assert.isNotEmpty(error.requestID)
        }
        const nobody = { ...service, serviceKey: "amk_nobody" }
        for (const error of [
          yield* failing(() => openAiClient(nobody).chat.completions.create(chat("gpt"))),
          yield* failing(() => anthropicClient(nobody).messages.create({ ...chat("gpt"), max_tokens: 1 }))
        ]) {
          assert.strictEqual(error.constructor.name, "AuthenticationError")
        }
        const untranslatable = yield* failing(() =>
          openAiClient(service).chat.completions.create({ ...chat("claude"), n: 2 })
        )
        assert.strictEqual(untranslatable.constructor.name, "BadRequestError")
        assert.strictEqual(untranslatable.param, "n")
      })
    )

    it.effect("the provider sees its own key, and nothing of the caller's", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { openai } = yield* Vendors
        yield* promised(() =>
          openAiClient(service).chat.completions.create(chat("gpt"), {
            headers: { cookie: "a=b", "x-own": "1", "openai-beta": "x" }
          })
        )
        const { body, headers } = openai.requests.at(-1) ?? assert.fail("none")
        assert.strictEqual(headers.authorization, "Bearer sk-openai")
        assert.strictEqual(headers["openai-beta"], "x")
        for (const name of ["cookie", "x-own", "x-api-key", "traceparent", "x-stainless-lang"])
          assert.isUndefined(headers[name])
        assert.deepStrictEqual(body, { ...chat("gpt"), model: "gpt-upstream" })
      })
    )
  }
)
