import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import OpenAI from "openai"
import { zodTextFormat } from "openai/helpers/zod"
import { z } from "zod"
import { registration } from "../../support/agents.ts"
import {
  acknowledgeBounds,
  charges,
  configure,
  costNanoUsd,
  model,
  prices,
  provider,
  spender,
  usageRows
} from "../../support/gateway.ts"
import { json, sse, startProvider } from "../../support/provider.ts"
import { makeResponsesVendor, responseEvents } from "../../support/responses-vendor.ts"
import { make } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { anthropicVendor, openAiVendor, said, thought, used } from "../../support/vendors.ts"

const setUp = Effect.gen(function* () {
  const service = yield* TestService
  const native = yield* startProvider(makeResponsesVendor())
  const other = yield* startProvider(makeResponsesVendor())
  const chat = yield* startProvider(openAiVendor)
  const anthropic = yield* startProvider(anthropicVendor)
  const apis = ["chat", "responses", "completions"]
  yield* configure(
    service,
    [
      provider("re", native, { apis, requestMembers: ["unknown"], sharedIds: ["f"] }),
      provider("other", other, { apis }),
      provider("oa", chat, { apis: ["chat", "completions"] }),
      provider("an", anthropic, { dialect: "anthropic", baseUrl: anthropic.url }),
      provider("loop", chat, { dialect: "loopback", apis })
    ],
    [
      model("native", ["re"], { contextTokens: 10_000, aliases: ["o-native"] }),
      model("elsewhere", ["other"], { contextTokens: 10_000 }),
      model("unbounded", ["re"]),
      model("searching", ["re"], { contextTokens: 10_000, prices: { ...prices, toolUses: { webSearch: 0.01 } } }),
      model("bridged", ["oa"]),
      model("claude", ["an"]),
      model("loop", ["loop"]),
      {
        ...model("mixed", []),
        targets: [
          { provider: "re", model: "mixed" },
          { provider: "oa", model: "mixed", priority: 1 }
        ]
      }
    ]
  )
  const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
  const clientOf = (apiKey: string) => new OpenAI({ baseURL: `${service.url}/v1`, apiKey, maxRetries: 0 })
  return { anthropic, chat, client: clientOf(key), clientOf, key, native, other, service, tenantId }
})

const ask = <A>(call: () => PromiseLike<A>) => Effect.promise(() => Promise.resolve(call()))
const failure = (call: () => PromiseLike<unknown>) =>
  Effect.promise(() =>
    Promise.resolve(call()).then(
      () => assert.fail("it was answered"),
      (error: InstanceType<typeof OpenAI.APIError>) => error
    )
  )

const charged = { amount: String(costNanoUsd), state: "settled", method: "provider_usage" }
const upstream = (id: string) => id.slice(0, -36)
/** The gateway's ids: a provider's, and a seal. */
const sealed = /^[a-z]+_[0-9a-f]{50}[0-9a-f]{36}$/

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "a provider's own Responses API",
  (it) => {
    it.effect("gets a request as it came, but for the model and an output limit", () =>
      Effect.gen(function* () {
        const { key, native, service, tenantId } = yield* setUp
        const text = `{"model": "o-native",  "input":"Hi",\n"unknown":{"a":[1,2.50]}, "stream":false}`
        const answer = yield* service.call("POST", "/v1/responses", { key, body: text })
        assert.strictEqual(answer.status, 200, answer.text)
        assert.deepStrictEqual(native.requests.at(-1)?.path, "/v1/responses")
        const { max_output_tokens: limit, ...rest } = native.requests.at(-1)!.body
        assert.deepStrictEqual(rest, { model: "native", input: "Hi", unknown: { a: [1, 2.5] }, stream: false })
        assert.isNumber(limit)
        assert.strictEqual(answer.headers.get("x-upstream-request-id"), "u")
        assert.strictEqual(answer.headers.get("x-cost-usd"), "0.00034")
        assert.deepStrictEqual(yield* charges(service, tenantId), [charged])
        const [row] = yield* usageRows(service, tenantId)
        assert.deepInclude(row, {
          operation: "responses",
          modelServed: "native",
          provider: "re",
          cachedInputTokens: used.cached,
          reasoningTokens: used.reasoning,
          status: 200
        })
      }).pipe(Effect.scoped)
    )

    it.effect("answers with the gateway's ids, whole and streamed, and is charged exactly", () =>
      Effect.gen(function* () {
        const { client, service, tenantId } = yield* setUp
        const request = { model: "native", input: "Hi", reasoning: { effort: "high" as const }, max_output_tokens: 100 }
        const whole = yield* ask(() => client.responses.create(request))
        const [streamed, ids] = yield* ask(async () => {
          const stream = client.responses.stream(request)
          const seen = new Set<string>()
          for await (const event of stream) if ("item_id" in event) seen.add(event.item_id)
          return [await stream.finalResponse(), seen] as const
        })
        for (const response of [whole, streamed]) {
          assert.strictEqual(response.output_text, said)
          assert.match(response.id, sealed)
          for (const item of response.output) assert.match(item.id ?? "", sealed)
          assert.deepInclude(response.output[0], { encrypted_content: "sealed thoughts" })
          assert.deepInclude(response.output[0], { summary: [{ type: "summary_text", text: thought }] })
        }
        assert.deepStrictEqual(
          [...ids],
          streamed.output.map(({ id }) => id)
        )
        assert.deepStrictEqual(yield* charges(service, tenantId), [charged, charged])
      }).pipe(Effect.scoped)
    )

    it.effect("keeps its state: the next turn, references, GET, input items, cancel and DELETE go to it", () =>
      Effect.gen(function* () {
        const { client, native, other } = yield* setUp
        const first = yield* ask(() => client.responses.create({ model: "native", input: "One" }))
        const second = yield* ask(() =>
          client.responses.create({
            model: "native",
            previous_response_id: first.id,
            input: "Two",
            max_output_tokens: 9
          })
        )
        assert.strictEqual(native.requests.at(-1)?.body.previous_response_id, upstream(first.id))
        assert.strictEqual(second.previous_response_id, first.id)
        const [item] = first.output
        yield* ask(() =>
          client.responses.create({
            model: "native",
            input: [
              { role: "user", content: "One" },
              { type: "item_reference", id: item?.id ?? "" },
              ...second.output
            ] as OpenAI.Responses.ResponseInput
          })
        )
        const sent = native.requests.at(-1)?.body.input
        assert.deepStrictEqual(sent[1], { type: "item_reference", id: upstream(item?.id ?? "") })
        assert.deepInclude(sent[2], { id: upstream(second.output[0]?.id ?? "") })
        const shown = yield* ask(() => client.responses.retrieve(second.id))
        assert.deepInclude(shown, { id: second.id, previous_response_id: first.id })
        assert.strictEqual(shown.output[0]?.id, second.output[0]?.id)
        const items = yield* ask(() => client.responses.inputItems.list(second.id, { limit: 5, after: item?.id ?? "" }))
        assert.match(items.data[0]?.id ?? "", /^msg_in0[0-9a-f]{36}$/)
        assert.strictEqual(
          native.requests.at(-1)?.path,
          `/v1/responses/${upstream(second.id)}/input_items?limit=5&after=${upstream(item?.id ?? "")}`
        )
        const cancelled = yield* failure(() => client.responses.cancel(second.id))
        assert.strictEqual(cancelled.status, 400)
        assert.include(cancelled.message, "synchronous")
        const resumed = yield* failure(() => client.responses.retrieve(second.id, { stream: true }))
        assert.strictEqual(resumed.param, "stream")
        yield* ask(() => client.responses.delete(first.id))
        const gone = yield* failure(() => client.responses.retrieve(first.id))
        assert.deepInclude(gone, { status: 404, code: "response_not_found" })
        assert.isEmpty(other.requests)
      }).pipe(Effect.scoped)
    )

    it.effect("is not asked about what is not the caller's", () =>
      Effect.gen(function* () {
        const { client, clientOf, native, service, tenantId } = yield* setUp
        const response = yield* ask(() => client.responses.create({ model: "native", input: "One" }))
        const [item] = response.output
        const stranger = clientOf((yield* spender(service, [])).key)
        const made = yield* make(service, "/api/agents", registration({ tenantId, scopeCeiling: ["llm:*"] }))
        const { accessToken } = (yield* service.call("POST", `/api/agents/${made.id}/credentials`, { body: {} })).body
        const agent = clientOf(accessToken)
        const before = native.requests.length
        const guessed = `${response.id.slice(0, -36)}`
        for (const [caller, id, itemId] of [
          [stranger, response.id, item?.id],
          [agent, response.id, item?.id],
          [client, guessed, guessed],
          [client, `${guessed}${"0".repeat(36)}`, `${guessed}${"a".repeat(36)}`]
        ] as const) {
          for (const call of [
            () => caller.responses.retrieve(id),
            () => caller.responses.delete(id),
            () => caller.responses.cancel(id),
            () => caller.responses.inputItems.list(id),
            () => caller.responses.create({ model: "native", previous_response_id: id, input: "Hi" }),
            () => caller.responses.create({ model: "native", input: [{ type: "item_reference", id: itemId ?? "" }] })
          ]) {
            assert.strictEqual((yield* failure(call)).status, 404)
          }
        }
        assert.strictEqual(native.requests.length, before)
        // An item that comes with its content loses an id that is not the caller's; thoughts are of no use without it.
        yield* ask(() =>
          stranger.responses.create({
            model: "native",
            input: [
              { role: "user", content: "One" },
              { type: "reasoning", id: "rs_1", summary: [], encrypted_content: "x" },
              item,
              { role: "user", content: "Two" }
            ] as OpenAI.Responses.ResponseInput
          })
        )
        const { id: _, ...rest } = item as object as Record<string, unknown>
        assert.deepStrictEqual(native.requests.at(-1)?.body.input, [
          { role: "user", content: "One" },
          rest,
          { role: "user", content: "Two" }
        ])
        // An agent opens its own.
        const own = yield* ask(() => agent.responses.create({ model: "native", input: "One" }))
        assert.strictEqual((yield* ask(() => agent.responses.retrieve(own.id))).id, own.id)
        assert.strictEqual((yield* ask(() => client.responses.retrieve(own.id))).id, own.id)
      }).pipe(Effect.scoped)
    )

    it.effect("refuses what it cannot do by the name of the member, and holds nothing", () =>
      Effect.gen(function* () {
        const { client, service, tenantId } = yield* setUp
        const stored = yield* ask(() => client.responses.create({ model: "elsewhere", input: "One" }))
        const cases: ReadonlyArray<readonly [body: object, status: number, named: string]> = [
          [{ background: true }, 400, "background"],
          [{ conversation: "conv_1" }, 400, "conversation"],
          [{ max_output_tokens: 0 }, 400, "max_output_tokens"],
          [{ input: [1] }, 400, "input.0"],
          [{ stream: "yes" }, 400, "stream"],
          [{ Max_Output_Tokens: 3 }, 400, "Max_Output_Tokens"],
          [{ previous_response_id: stored.id }, 400, "previous_response_id"],
          [{ model: "bridged", previous_response_id: stored.id }, 400, "previous_response_id"],
          [{ previous_response_id: "resp_nope" }, 404, "previous_response_id"],
          [{ input: [{ type: "item_reference", id: "msg_nope" }] }, 404, "input.0.id"],
          [{ tools: [{ type: "web_search" }] }, 403, "tools.0"],
          [{ service_tier: "priority" }, 403, "service_tier"],
          [
            { input: [{ role: "user", content: [{ type: "input_audio", input_audio: {} }] }] },
            403,
            "input.0.content.0"
          ],
          [
            { model: "unbounded", input: [{ role: "user", content: [{ type: "input_file", file_id: "f" }] }] },
            403,
            "input.0.content.0"
          ]
        ]
        for (const [body, status, named] of cases) {
          const error = yield* failure(() =>
            client.responses.create({ model: "native", input: "Hi", ...body } as OpenAI.Responses.ResponseCreateParams)
          )
          assert.deepStrictEqual([error.status, error.param], [status, named], error.message)
        }
        assert.lengthOf(yield* charges(service, tenantId), 1)
      }).pipe(Effect.scoped)
    )

    it.effect("runs its own tools within a limit, at their fee", () =>
      Effect.gen(function* () {
        const { client, native, service, tenantId } = yield* setUp
        const vendor = native.answer
        native.answer = (request, response) => {
          const search = { type: "web_search_call", id: "ws_1", status: "completed", action: { type: "search" } }
          const body = { ...request.body, also: [search, { ...search, id: "ws_2" }] }
          vendor({ ...request, body }, response)
        }
        const request = {
          model: "searching",
          input: "Hi",
          tools: [{ type: "web_search" as const }],
          max_output_tokens: 9
        }
        const whole = yield* ask(() => client.responses.create(request))
        assert.deepInclude(whole.output[0], { type: "web_search_call" })
        assert.match(whole.output[0]?.id ?? "", /^ws_1[0-9a-f]{36}$/)
        assert.strictEqual(native.requests.at(-1)?.body.max_tool_calls, 5)
        yield* ask(() => client.responses.stream({ ...request, max_tool_calls: 2 }).finalResponse())
        assert.strictEqual(native.requests.at(-1)?.body.max_tool_calls, 2)
        const searched = { ...charged, amount: String(costNanoUsd + 2 * 10_000_000) }
        assert.deepStrictEqual(yield* charges(service, tenantId), [searched, searched])
      }).pipe(Effect.scoped)
    )

    it.effect("has what it stores bounded by what the model can read", () =>
      Effect.gen(function* () {
        const { client, clientOf, native, service } = yield* setUp
        const { key } = yield* spender(service, [{ limit: 0.019 }])
        const poor = clientOf(key)
        // The provider cannot say how long the conversation is.
        const vendor = native.answer
        native.answer = (request, response) =>
          request.path.endsWith("/input_tokens")
            ? json(response, 400, { error: { message: "No." } })
            : vendor(request, response)
        const first = yield* ask(() => poor.responses.create({ model: "native", input: "One", max_output_tokens: 9 }))
        const denied = yield* failure(() =>
          poor.responses.create({ model: "native", previous_response_id: first.id, input: "Two", max_output_tokens: 9 })
        )
        // 10,000 tokens at 2 dollars per million.
        assert.deepInclude(denied, { status: 402, code: "request_exceeds_budget" })
        const rich = yield* ask(() => client.responses.create({ model: "native", input: "One", max_output_tokens: 9 }))
        yield* ask(() =>
          client.responses.create({
            model: "native",
            previous_response_id: rich.id,
            input: "Two",
            max_output_tokens: 9
          })
        )
      }).pipe(Effect.scoped)
    )

    it.effect(
      "is left for one that is translated when it fails, and answers a conversation that the gateway stores",
      () =>
        Effect.gen(function* () {
          const { chat, client, native, service, tenantId } = yield* setUp
          const { answer } = native
          native.answer = (_, response) => json(response, 503, { error: { message: "Busy" } })
          const response = yield* ask(() => client.responses.create({ model: "mixed", input: "One" }))
          assert.strictEqual(response.output_text, said)
          assert.strictEqual(chat.requests.at(-1)?.path, "/v1/chat/completions")
          native.answer = answer
          const next = yield* ask(() =>
            client.responses.create({ model: "mixed", previous_response_id: response.id, input: "Two" })
          )
          assert.strictEqual(native.requests.at(-1)?.path, "/v1/chat/completions")
          assert.strictEqual(next.output_text, said)
          assert.deepStrictEqual(
            (yield* charges(service, tenantId)).filter(({ state }) => state === "settled"),
            [charged, charged]
          )
        }).pipe(Effect.scoped)
    )

    it.effect("charges failed and incomplete responses, and a stream that breaks off", () =>
      Effect.gen(function* () {
        const { client, native, service, tenantId } = yield* setUp
        const cut = yield* ask(() => client.responses.create({ model: "native", input: "Hi", max_output_tokens: 3 }))
        assert.deepInclude(cut, { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } })
        // It was charged more than three tokens.
        yield* acknowledgeBounds(service)
        const failed = {
          id: "resp_1",
          object: "response",
          status: "failed",
          error: { code: "server_error", message: "It failed." },
          output: [],
          usage: {
            input_tokens: used.input,
            input_tokens_details: { cached_tokens: used.cached },
            output_tokens: used.output
          }
        }
        native.answer = (_, response) => json(response, 200, failed)
        const told = yield* ask(() => client.responses.create({ model: "native", input: "Hi", max_output_tokens: 30 }))
        assert.deepInclude(told, { status: "failed" })
        const types = (input: string) =>
          ask(async () => {
            const seen: Array<string> = []
            const stream = await client.responses.create({
              model: "native",
              input,
              max_output_tokens: 30,
              stream: true
            })
            for await (const event of stream) seen.push(event.type)
            return seen
          })
        native.answer = (_, response) => {
          sse(response, responseEvents(failed))
          response.end()
        }
        assert.strictEqual((yield* types("Hi")).at(-1), "response.failed")
        native.answer = (_, response) => {
          const output = [
            { id: "m", type: "message", role: "assistant", content: [{ type: "output_text", text: said }] }
          ]
          sse(response, responseEvents({ ...failed, status: "completed", error: null, output }).slice(0, 6))
          response.end()
        }
        assert.strictEqual((yield* types("Hi")).at(-1), "response.failed")
        const all = yield* charges(service, tenantId)
        assert.deepStrictEqual(all.slice(0, 3), [charged, charged, charged])
        assert.strictEqual(all[3]?.method, "estimated")
        const rows = yield* usageRows(service, tenantId)
        assert.deepStrictEqual(
          rows.map(({ status }) => status),
          [200, 200, 502, 502]
        )
        assert.isAtMost(rows[3].outputTokens, 3)
        assert.isAbove(rows[3].outputTokens, 0)
      }).pipe(Effect.scoped)
    )

    it.effect("may answer as a whole what is to be streamed, and stream what is to be whole", () =>
      Effect.gen(function* () {
        const { client, native, service, tenantId } = yield* setUp
        const vendor = native.answer
        native.answer = ({ body, ...request }, response) =>
          vendor({ ...request, body: { ...body, stream: body.stream !== true } }, response)
        const whole = yield* ask(() => client.responses.create({ model: "native", input: "Hi" }))
        assert.strictEqual(whole.output_text, said)
        const [text, final] = yield* ask(async () => {
          let deltas = ""
          const stream = client.responses.stream({ model: "native", input: "Hi" })
          for await (const event of stream) if (event.type === "response.output_text.delta") deltas += event.delta
          return [deltas, await stream.finalResponse()] as const
        })
        assert.deepStrictEqual([text, final.output_text], [said, said])
        assert.match(final.id, sealed)
        const structured = { format: zodTextFormat(z.object({ city: z.string() }), "place") }
        const parsed = yield* ask(() => client.responses.parse({ model: "native", input: "Hi", text: structured }))
        assert.deepStrictEqual(parsed.output_parsed, { city: "Oslo" })
        assert.deepStrictEqual(yield* charges(service, tenantId), [charged, charged, charged])
      }).pipe(Effect.scoped)
    )

    it.effect("counts input tokens, and compacts a conversation for its price", () =>
      Effect.gen(function* () {
        const { client, service, tenantId } = yield* setUp
        const counted = yield* ask(() => client.responses.inputTokens.count({ model: "native", input: "Hi" }))
        assert.deepStrictEqual(counted, { object: "response.input_tokens", input_tokens: 42 })
        const own = yield* ask(() => client.responses.inputTokens.count({ model: "claude", input: "Hi" }))
        // Anthropic counts for its own models, and the gateway where nobody does.
        assert.deepStrictEqual(own, { object: "response.input_tokens", input_tokens: 42 })
        const estimated = yield* ask(() => client.responses.inputTokens.count({ model: "bridged", input: "Hi" }))
        assert.isAbove(estimated.input_tokens, 0)
        assert.isEmpty(yield* charges(service, tenantId))
        const bounded = { ...model("bounded", ["re"]), maxOutputTokens: 1000 }
        const native = yield* startProvider(makeResponsesVendor())
        yield* configure(service, [provider("re", native, { apis: ["responses"] })], [bounded, model("native", ["re"])])
        const short = yield* ask(() => client.responses.compact({ model: "bounded", input: "Hi" } as never))
        assert.match(short.output[0]?.id ?? "", sealed)
        assert.deepStrictEqual(yield* charges(service, tenantId), [charged])
        const denied = yield* failure(() => client.responses.compact({ model: "native", input: "Hi" } as never))
        assert.strictEqual(denied.status, 403)
        // Chats are translated, and text completions have no other form.
        const text = yield* failure(() => client.completions.create({ model: "native", prompt: "Hi" }))
        assert.deepInclude(text, { status: 400, code: "model_not_supported" })
      }).pipe(Effect.scoped)
    )

    it.effect("is none for a conversation that is to be compacted", () =>
      Effect.gen(function* () {
        const { client } = yield* setUp
        const error = yield* failure(() => client.responses.compact({ model: "claude", input: "Hi" } as never))
        assert.deepInclude(error, { status: 400, code: "model_not_supported" })
        const unknown = yield* failure(() => client.responses.compact({ model: "nope", input: "Hi" } as never))
        assert.strictEqual(unknown.status, 404)
      }).pipe(Effect.scoped)
    )

    it.effect("is spoken by the loopback provider where it is configured to", () =>
      Effect.gen(function* () {
        const { client, service, tenantId } = yield* setUp
        const first = yield* ask(() => client.responses.create({ model: "loop", input: "Hello" }))
        assert.strictEqual(first.output_text, "Hello")
        assert.match(first.id, /^resp_[0-9a-f]{32}[0-9a-f]{36}$/)
        const shown = yield* ask(() => client.responses.retrieve(first.id))
        assert.deepStrictEqual(shown.output, first.output)
        const streamed = yield* ask(() => client.responses.stream({ model: "loop", input: "Again" }).finalResponse())
        assert.strictEqual(streamed.output_text, "Again")
        const items = yield* ask(() => client.responses.inputItems.list(first.id))
        assert.deepInclude(items.data[0] as object, { content: "Hello" })
        const counted = yield* ask(() => client.responses.inputTokens.count({ model: "loop", input: "Hello" }))
        assert.strictEqual(counted.input_tokens, first.usage?.input_tokens)
        yield* ask(() => client.responses.delete(first.id))
        assert.strictEqual((yield* failure(() => client.responses.retrieve(first.id))).status, 404)
        const [{ amount } = { amount: "" }] = yield* charges(service, tenantId)
        const { input_tokens: input = 0, output_tokens: output = 0 } = first.usage ?? {}
        assert.strictEqual(amount, String(input * 2000 + output * 10_000))
      }).pipe(Effect.scoped)
    )
  }
)
