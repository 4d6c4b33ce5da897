import Anthropic, { APIError as AnthropicError } from "@anthropic-ai/sdk"
import { assert, layer } from "@effect/vitest"
import { GoogleGenAI } from "@google/genai"
import { Effect } from "effect"
import * as crypto from "node:crypto"
import OpenAI, { APIError as OpenAiError } from "openai"
import { makeAgent } from "../../support/agents.ts"
import { makeKey } from "../../support/authority.ts"
import { spender } from "../../support/gateway.ts"
import { assertProblem } from "../../support/problem.ts"
import { make } from "../../support/scenarios.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

type Service = TestService["Service"]

/** What an SDK throws, as far as programs read it. */
interface Thrown {
  readonly status: number
  readonly message: string
  readonly details: Readonly<Record<string, unknown>>
}

const model = "loopback-1"
const content = "Which invoices are overdue?"

/** What each vendor's SDK throws for a call of 1,000 tokens at most. */
const sdks: Readonly<Record<string, (service: Service, key: string) => Promise<unknown>>> = {
  "OpenAI, chat": ({ url }, apiKey) =>
    new OpenAI({ apiKey, baseURL: `${url}/v1`, maxRetries: 0 }).chat.completions.create({
      model,
      max_tokens: 1000,
      messages: [{ role: "user", content }]
    }),
  "OpenAI, responses, streamed": ({ url }, apiKey) =>
    new OpenAI({ apiKey, baseURL: `${url}/v1`, maxRetries: 0 }).responses.create({
      model,
      max_output_tokens: 1000,
      input: content,
      stream: true
    }),
  Anthropic: ({ url }, apiKey) =>
    new Anthropic({ apiKey, baseURL: url, maxRetries: 0 }).messages.create({
      model,
      max_tokens: 1000,
      messages: [{ role: "user", content }]
    }),
  Google: ({ url }, apiKey) =>
    new GoogleGenAI({ apiKey, httpOptions: { baseUrl: url } }).models.generateContent({
      model,
      contents: content,
      config: { maxOutputTokens: 1000 }
    })
}

const detailsOf = (name: string, failed: unknown): Thrown["details"] => {
  if (failed instanceof OpenAiError) return (failed.error as { readonly details: Thrown["details"] }).details
  if (failed instanceof AnthropicError) return (failed.error as { error: { details: Thrown["details"] } }).error.details
  assert.strictEqual(name, "Google")
  const { error } = JSON.parse((failed as Error).message)
  const { metadata } = error.details.find((one: { readonly reason?: string }) => one.reason !== undefined)
  return metadata
}

const thrown = (name: string, service: Service, key: string) =>
  Effect.promise(async (): Promise<Thrown> => {
    const failed: unknown = await sdks[name]!(service, key).then(
      () => assert.fail("The call was not refused"),
      (error: unknown) => error
    )
    const { message, status } = failed as { readonly message: string; readonly status: number }
    return { status, message, details: detailsOf(name, failed) }
  })

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("a call that a cap refuses", (it) => {
  for (const name of Object.keys(sdks)) {
    it.effect(`names the cap, its figures and its reset in the exception of the SDK: ${name}`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { key } = yield* spender(service, [{ name: "A little, daily", limit: 0.0001, period: "day" }])
        const { details, message, status } = yield* thrown(name, service, key)
        assert.strictEqual(status, 402, message)
        const text =
          /The cap \\*"A little, daily\\*" has no room: .* Asked for: \$0\.00\d+; limit: \$0\.0001; spent: \$0\.00; reserved: \$0\.00; resets: \d{4}-\d\d-\d\dT00:00:00\.000Z\./
        assert.match(message, text)
        assert.deepInclude(
          { ...details, limit: Number(details.limit), spent: Number(details.spent) },
          { capName: "A little, daily", unit: "usd", limit: 0.0001, spent: 0, reason: "exceeds-limit" }
        )
        assert.isAbove(Number(details.requested), 0.0001)
        assert.match(String(details.resetsAt), /T00:00:00\.000Z$/)
      })
    )

    it.effect(`the same of a rate, as a limit that SDKs wait for: ${name}`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const cap = { name: "No calls", unit: "requests", limit: 0, period: "hour" }
        const { key } = yield* spender(service, [cap])
        const { details, message, status } = yield* thrown(name, service, key)
        assert.strictEqual(status, 429, message)
        assert.match(message, /The cap \\*"No calls\\*" has no room: .* Asked for: 1 request; limit: 0 requests;/)
        const figures = ["requested", "limit", "spent", "reserved", "headroom"].map((figure) => Number(details[figure]))
        assert.deepStrictEqual(figures, [1, 0, 0, 0, 0])
        assert.deepInclude(details, { capName: "No calls", unit: "requests", reason: "exceeds-limit" })
        assert.match(String(details.resetsAt), /:00:00\.000Z$/)
      })
    )
  }

  it.effect("by a cap over all tenants learns that one has no room, and nothing else of it, in every dialect", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const taskType = crypto.randomUUID()
      const all = { name: "everybody", unit: "usd", limit: 0, period: "day", scope: { taskType }, tenantId: null }
      yield* make(service, "/api/budgets/caps", all)
      const { key } = yield* spender(service, [])
      const messages = [{ role: "user", content }]
      for (const [path, body] of [
        ["/v1/chat/completions", { model, max_tokens: 1000, messages }],
        ["/v1/responses", { model, max_output_tokens: 1000, input: content }],
        ["/v1/messages", { model, max_tokens: 1000, messages }],
        [`/v1beta/models/${model}:generateContent`, { contents: [{ role: "user", parts: [{ text: content }] }] }],
        ["/api/llm/complete", { model, messages, taskType }]
      ] as const) {
        const refused = yield* service.call("POST", path, { key, headers: { "x-task-type": taskType }, body })
        assert.strictEqual(refused.status, 402, refused.text)
        assert.include(refused.text, "A budget cap has no room: ")
        for (const word of ["everybody", "Asked for", 'limit\\?":', 'spent\\?":', "requested"])
          assert.notMatch(refused.text, new RegExp(word))
      }
    })
  )

  it.effect("that waits for an approval names the cap that has too little left", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { key } = yield* spender(service, [{ name: "Ask first", limit: 0.0001, mode: "approval" }])
      const { details, message, status } = yield* thrown("OpenAI, chat", service, key)
      assert.strictEqual(status, 402, message)
      assert.match(message, /needs an approval: the cap "Ask first" has \$0\.0001 left of the \$0\.00\d+ asked for\./)
      assert.deepInclude(details, { capName: "Ask first", unit: "usd", headroom: 0.0001 })
    })
  )

  it.effect("in the native API has the members of the problem, also for a rate", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const body = { model, maxTokens: 1000, messages: [{ role: "user", content }] }
      const poor = yield* spender(service, [{ name: "Cents", limit: 0.0001 }])
      const refused = yield* service.call("POST", "/api/llm/complete", { key: poor.key, body })
      assertProblem(refused, 402, "budget-denied")
      assert.deepInclude(refused.body, { capName: "Cents", unit: "usd", limit: 0.0001, spent: 0, resetsAt: null })
      const slow = yield* spender(service, [{ name: "No calls", unit: "requests", limit: 0, period: "minute" }])
      const limited = yield* service.call("POST", "/api/llm/complete", { key: slow.key, body })
      assertProblem(limited, 429, "rate-limited")
      assert.match(limited.body.detail, /^The cap "No calls" has no room: .*limit: 0 requests;/)
      assert.deepInclude(limited.body, {
        capName: "No calls",
        unit: "requests",
        reason: "exceeds-limit",
        requested: 1,
        limit: 0,
        spent: 0,
        reserved: 0,
        headroom: 0
      })
      assert.isAbove(Date.parse(limited.body.resetsAt), 0)
      assert.strictEqual(limited.body.retryAfterSeconds, Number(limited.headers.get("retry-after")))
      const embedded = yield* service.call("POST", "/api/llm/embed", {
        key: slow.key,
        body: { model: "loopback-embed-1", input: ["a"] }
      })
      if (embedded.status === 429) assert.deepInclude(embedded.body, { capName: "No calls", limit: 0, spent: 0 })
      else assert.strictEqual(embedded.status, 404, embedded.text)
    })
  )

  it.effect("for an agent's budget of one turn says how much that is", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { tenantId } = yield* spender(service, [])
      const { key } = yield* makeKey(service, ["llm:*", "agents:*"], { tenantId })
      const agent = yield* makeAgent(service, { tenantId, scopeCeiling: ["llm:complete"], perTurnBudget: 0.0001 })
      const refused = yield* service.call("POST", "/v1/chat/completions", {
        key,
        headers: { "x-agent-id": agent.id },
        body: { model, max_tokens: 1000, messages: [{ role: "user", content }] }
      })
      assert.strictEqual(refused.status, 402, refused.text)
      assert.match(refused.body.error.message, /budget for one turn\. Asked for: \$0\.00\d+; limit: \$0\.0001\.$/)
    })
  )
})
