import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeAgent } from "../../../support/agents.ts"
import { makeKey, makeTenant } from "../../../support/authority.ts"
import { assertProblem, faultPaths } from "../../../support/problem.ts"
import { json, startProvider } from "../../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../../support/service.ts"
import { anthropicVendor, calledWith, openAiVendor, said, used } from "../../../support/vendors.ts"

type Service = TestService["Service"]

const complete = "/api/llm/complete"
const messages = [{ role: "user", content: "What time is it?" }]
const prices = { inputUsdPerMTok: 2, outputUsdPerMTok: 10, cacheReadUsdPerMTok: 0.5 }
const costUsd = ((used.input - used.cached) * 2000 + used.cached * 500 + used.output * 10_000) / 1e9

const configured = (id: string, provider: string, kind = "chat") => ({
  id,
  kind,
  prices,
  targets: [{ provider, model: `${id}-upstream` }]
})

const vendors = Effect.fnUntraced(function* (service: Service) {
  const openai = yield* startProvider(openAiVendor)
  const anthropic = yield* startProvider(anthropicVendor)
  const broken = yield* startProvider((_, response) => json(response, 500, { error: { message: "Out of order." } }))
  const written = yield* service.call("PUT", "/api/llm/admin/config", {
    body: {
      providers: [
        { id: "oa", dialect: "openai", baseUrl: `${openai.url}/v1` },
        { id: "an", dialect: "anthropic", baseUrl: anthropic.url },
        { id: "down", dialect: "openai", baseUrl: `${broken.url}/v1` }
      ],
      models: [
        configured("gpt", "oa"),
        configured("claude", "an"),
        configured("broken", "down"),
        configured("vectors", "oa", "embedding")
      ],
      routing: { retries: 0, breaker: { failures: 1000 } }
    }
  })
  assert.strictEqual(written.status, 200, written.text)
  return { openai, anthropic, broken }
})

const tools = [{ name: "weather", parameters: { type: "object", properties: { city: { type: "string" } } } }]

/** The events of an answer, each with its name and its data. */
const eventsIn = (text: string) =>
  text
    .split("\n\n")
    .filter((event) => event !== "")
    .map((event) => {
      const [, name = "", data = ""] = /^event: (\w+)\ndata: (.*)$/.exec(event) ?? []
      return [name, JSON.parse(data)] as const
    })

const stream = ({ serviceKey, url }: Service, body: object) =>
  Effect.promise(async () => {
    const response = await fetch(`${url}${complete}`, {
      method: "POST",
      headers: { "x-api-key": serviceKey, "content-type": "application/json" },
      body: JSON.stringify({ ...body, stream: true })
    })
    return { status: response.status, type: response.headers.get("content-type"), text: await response.text() }
  })

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("the gateway's own words", (it) => {
  it.effect("reach every dialect: words, tools and their results, and what it all cost", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      yield* vendors(service)
      for (const model of ["gpt", "claude"]) {
        const answer = yield* service.call("POST", complete, { body: { model, messages } })
        assert.strictEqual(answer.status, 200, answer.text)
        assert.deepInclude(answer.body, { text: said, finishReason: "stop", model: `${model}-upstream`, costUsd })
        assert.deepStrictEqual(answer.body.usage, {
          inputTokens: used.input,
          outputTokens: used.output,
          cachedInputTokens: used.cached,
          cacheWriteTokens: 0,
          reasoningTokens: used.reasoning,
          totalTokens: used.input + used.output
        })
        assert.lengthOf(answer.body.attempts, 1)
        const called = yield* service.call("POST", complete, { body: { model, messages, tools } })
        const [call] = called.body.toolCalls
        assert.strictEqual(called.body.finishReason, "tool_calls")
        assert.deepStrictEqual(JSON.parse(call.arguments), calledWith)
        const results = [
          ...messages,
          { role: "assistant", content: "", toolCalls: [{ ...call, arguments: calledWith }] },
          { role: "tool", toolCallId: call.id, content: "12:00" }
        ]
        const last = yield* service.call("POST", complete, { body: { model, messages: results, tools } })
        assert.strictEqual(last.body.text, said, last.text)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("take back what was answered as it is", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { anthropic, openai } = yield* vendors(service)
      for (const model of ["gpt", "claude"]) {
        const { content, toolCalls } = (yield* service.call("POST", complete, { body: { model, messages, tools } }))
          .body
        const result = { role: "tool", toolCallId: toolCalls[0].id, content: "12:00" }
        for (const said of [{ toolCalls }, { content, toolCalls }]) {
          const body = { model, messages: [...messages, { role: "assistant", ...said }, result], tools }
          const last = yield* service.call("POST", complete, { body })
          assert.strictEqual(last.status, 200, last.text)
        }
      }
      const asked = openai.requests.at(-1)?.body.messages[1]
      assert.isNull(asked.content)
      assert.deepStrictEqual(JSON.parse(asked.tool_calls[0].function.arguments), calledWith)
      const given = anthropic.requests.at(-1)?.body.messages[1]
      assert.deepStrictEqual(
        given.content.map(({ input }: { readonly input: object }) => input),
        given.content.map(() => calledWith)
      )
      for (const said of [{}, { toolCalls: [] }]) {
        const body = { model: "gpt", messages: [...messages, { role: "assistant", ...said }] }
        assert.deepStrictEqual(
          [...faultPaths(yield* service.call("POST", complete, { body }))],
          ["payload.messages.1.content"]
        )
      }
    }).pipe(Effect.scoped)
  )

  it.effect("stream from every dialect", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      yield* vendors(service)
      for (const model of ["gpt", "claude"]) {
        const answer = yield* stream(service, { model, messages })
        assert.strictEqual(answer.status, 200)
        assert.strictEqual(answer.type, "text/event-stream")
        const events = eventsIn(answer.text)
        const words = events.flatMap(([name, data]) => (name === "delta" ? [data.text] : []))
        assert.strictEqual(words.join(""), said)
        const usage = events.find(([name]) => name === "usage")?.[1]
        assert.deepInclude(usage, { totalTokens: used.input + used.output, costUsd })
        assert.deepStrictEqual(events.at(-1), ["done", { finishReason: "stop" }])
        const called = eventsIn((yield* stream(service, { model, messages, tools })).text)
        const parts = called.flatMap(([name, data]) => (name === "tool_call" ? [data] : []))
        assert.strictEqual(parts[0].name, "weather")
        assert.deepStrictEqual(JSON.parse(parts.map((part) => part.arguments).join("")), calledWith)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("fall back to other models, and tell of every attempt", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      yield* vendors(service)
      const answer = yield* service.call("POST", complete, {
        body: { model: "broken", messages, fallbacks: ["claude"] }
      })
      assert.strictEqual(answer.body.text, said, answer.text)
      assert.deepStrictEqual(
        answer.body.attempts.map(({ provider, status }: { readonly provider: string; readonly status: number }) => [
          provider,
          status
        ]),
        [
          ["down", 500],
          ["an", 200]
        ]
      )
    }).pipe(Effect.scoped)
  )

  it.effect("embed", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      yield* vendors(service)
      const answer = yield* service.call("POST", "/api/llm/embed", { body: { model: "vectors", input: ["a", "b"] } })
      assert.deepStrictEqual(answer.body.embeddings, [
        [0.5, -0.25, 1],
        [0.5, -0.25, 1]
      ])
      assert.deepStrictEqual(answer.body.usage, { inputTokens: 7 })
    }).pipe(Effect.scoped)
  )

  it.effect("are refused with problems", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      yield* vendors(service)
      const ask = (body: object, key = service.serviceKey) =>
        service.call("POST", complete, { key, body: { model: "gpt", messages, ...body } })
      assertProblem(yield* ask({ model: "nothing" }), 404, "model-not-found")
      assertProblem(yield* ask({ model: "broken" }), 502, "provider-unavailable")
      assert.deepStrictEqual([...faultPaths(yield* ask({ model: "vectors" }))], ["payload.model"])
      assert.deepStrictEqual([...faultPaths(yield* ask({ maxTokens: 0, temprature: 1 }))].toSorted(), [
        "payload.maxTokens",
        "payload.temprature"
      ])
      assertProblem(yield* ask({ agentId: "0198a5b0-7c00-7000-8000-00000000002a" }), 404, "agent-not-found")
      const { id: agentId } = yield* makeAgent(service)
      assert.strictEqual((yield* service.call("DELETE", `/api/agents/${agentId}`)).status, 204)
      assertProblem(yield* ask({ agentId }), 409, "agent-not-active")
      const tenantId = yield* makeTenant(service.database)
      const { key } = yield* makeKey(service, ["llm:*"], { tenantId })
      const cap = { tenantId, name: "a cap", unit: "usd", period: "total", limit: 0.0001 }
      assert.strictEqual((yield* service.call("POST", "/api/budgets/caps", { body: cap })).status, 201)
      const denied = yield* ask({ maxTokens: 1000 }, key)
      assertProblem(denied, 402, "budget-denied")
      assert.strictEqual(denied.body.reason, "exceeds-limit")
      const request = { model: "gpt", messages: [{ role: "user", content: [{ type: "document", data: "JVBERi0=" }] }] }
      // What a document is packed from may be any length, and the context of the model is not configured.
      assertProblem(yield* service.call("POST", complete, { key, body: request }), 403, "cost-unbounded")
    }).pipe(Effect.scoped)
  )
})
