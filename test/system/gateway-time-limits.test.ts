import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { makeKey } from "../support/authority.ts"
import { holdBack } from "../support/gateway-vendors.ts"
import { configure, model, provider, spender } from "../support/gateway.ts"
import { type Answerer, sse, startProvider } from "../support/provider.ts"
import { makeResponsesVendor } from "../support/responses-vendor.ts"
import { type Answer, serviceLayer, TestService } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"
import { anthropicVendor } from "../support/vendors.ts"
import { eventually, untilBlocked } from "../support/waiting.ts"

const limited = serviceLayer({ Api__RequestTimeoutSeconds: "3", Database__AcquireTimeoutSeconds: "1" })

const credentialLate = "The credential was not checked in time."
const ledgerLate = "The ledger did not answer in time."
const storeLate = "The store of responses did not answer in time."
const uuid = "0198a5b0-7c00-7000-8000-00000000002a"
const messages = [{ role: "user", content: "What time is it?" }]
const chat = { model: "gpt", max_tokens: 30, messages }
const native = { model: "gpt", maxTokens: 30, messages }

const setUp = Effect.gen(function* () {
  const service = yield* TestService
  const openai = yield* startProvider(makeResponsesVendor())
  const anthropic = yield* startProvider(anthropicVendor)
  const chats = yield* startProvider(makeResponsesVendor())
  yield* configure(
    service,
    [
      provider("re", openai, { apis: ["responses", "chat"] }),
      provider("oa", chats),
      provider("an", anthropic, { dialect: "anthropic", baseUrl: anthropic.url })
    ],
    [
      model("native", ["re"], { contextTokens: 10_000 }),
      model("gpt", ["oa"]),
      model("claude", ["an"]),
      model("vectors", ["oa"], { kind: "embedding" })
    ],
    { retries: 1 }
  )
  const { key, tenantId } = yield* spender(service, [{ limit: 100 }])
  const post = (path: string, body: object, headers: Record<string, string> = {}) =>
    service.call("POST", path, { key, body, headers })
  return { service, openai, anthropic, chats, key, tenantId, post }
})

const choices = (delta: object, reason: string | null) => [{ index: 0, delta, finish_reason: reason }]

const messageIn = ({ body }: Answer): unknown => body.error?.message ?? body.detail

layer(limited, { excludeTestServices: true, timeout: "120 seconds" })("the time limits of a call", (it) => {
  it.effect("503 in time, which names what was late, wherever the database does not answer", () =>
    Effect.gen(function* () {
      const { key, post, service } = yield* setUp
      const stored = yield* post("/v1/responses", { model: "gpt", input: "Hi", max_output_tokens: 30 })
      assert.strictEqual(stored.status, 200, stored.text)
      const unseen = Effect.map(makeKey(service, ["llm:*", "trial-users:read"]), (made) => made.key)
      const fresh = yield* Effect.all([unseen, unseen, unseen])
      const { key: newTenants } = yield* spender(service, [])
      const { key: unmeasured } = yield* spender(service, [])
      const keyed = { "idempotency-key": "a key" }
      const cases: Readonly<Record<string, readonly [late: string, ReadonlyArray<Effect.Effect<Answer>>]>> = {
        api_keys: [
          credentialLate,
          [
            service.call("POST", "/v1/chat/completions", { key: fresh[0], body: chat }),
            service.call("GET", "/v1/models", { key: fresh[1] }),
            service.call("GET", "/api/trial-users", { key: fresh[2] })
          ]
        ],
        budget_plans: [
          ledgerLate,
          [
            post("/v1/chat/completions", chat, { "x-plan-id": uuid }),
            post("/v1/messages/count_tokens", { ...chat, model: "claude" }, { "x-plan-id": uuid }),
            post("/api/llm/complete", { ...native, planId: uuid })
          ]
        ],
        budget_caps: [ledgerLate, [service.call("POST", "/v1/chat/completions", { key: newTenants, body: chat })]],
        call_keys: [ledgerLate, [post("/v1/chat/completions", chat, keyed), post("/api/llm/complete", native, keyed)]],
        budget_reservations: [
          ledgerLate,
          [
            post("/v1/chat/completions", chat),
            post("/v1/completions", { model: "gpt", max_tokens: 30, prompt: "Hi" }),
            post("/v1/embeddings", { model: "vectors", input: "Hi" }),
            post("/v1/messages", { ...chat, model: "claude" }),
            post("/v1/responses", { model: "native", input: "Hi", max_output_tokens: 30 }),
            post("/api/llm/complete", native),
            post("/api/llm/embed", { model: "vectors", input: ["Hi"] })
          ]
        ],
        budget_counters: [ledgerLate, [post("/api/llm/complete", { ...native, dryRun: true })]],
        gateway_responses: [
          storeLate,
          [
            service.call("DELETE", `/v1/responses/${stored.body.id}`, { key }),
            service.call("POST", "/v1/responses", { key: unmeasured, body: { model: "gpt", input: "Hi", store: true } })
          ]
        ]
      }
      for (const [table, [late, calls]] of Object.entries(cases)) {
        const answers = yield* asSuperuser(service.database, (sql) =>
          sql.withTransaction(
            Effect.andThen(
              sql`LOCK TABLE ${sql(table)} IN ACCESS EXCLUSIVE MODE`,
              Effect.all(calls, { concurrency: "unbounded" })
            )
          )
        )
        for (const answer of answers) {
          assert.include([503, 529], answer.status, `${table}: ${answer.text}`)
          assert.strictEqual(messageIn(answer), late, table)
        }
        assert.strictEqual((yield* post("/v1/chat/completions", chat)).status, 200, table)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("503 in time where what was charged before is not yet written; only that is bounded as the ledger's", () =>
    Effect.gen(function* () {
      const { post, service } = yield* setUp
      const answer = yield* asSuperuser(service.database, (sql) =>
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`LOCK TABLE budget_entries IN ACCESS EXCLUSIVE MODE`
            assert.strictEqual((yield* post("/v1/chat/completions", chat)).status, 200)
            yield* untilBlocked(sql)
            return yield* service.call("GET", "/api/spend/reservations")
          })
        )
      )
      assert.deepStrictEqual([answer.status, messageIn(answer)], [503, ledgerLate])
      const listed = yield* asSuperuser(service.database, (sql) =>
        sql.withTransaction(
          Effect.andThen(
            sql`LOCK TABLE budget_reservations IN ACCESS EXCLUSIVE MODE`,
            service.call("GET", "/api/spend/reservations")
          )
        )
      )
      assert.deepStrictEqual([listed.status, messageIn(listed)], [503, "The request took too long and was stopped."])
    }).pipe(Effect.scoped)
  )

  it.effect("do not bound a provider that is slow", () =>
    Effect.gen(function* () {
      const { anthropic, chats, key, openai, post, service } = yield* setUp
      const made = yield* post("/v1/responses", { model: "native", input: "Hi", max_output_tokens: 30 })
      assert.strictEqual(made.status, 200, made.text)
      const body = { firstName: "Ada", lastName: "Lovelace", email: "ada@example.com" }
      const { body: user } = yield* service.call("POST", "/api/trial-users", { body })
      const slow = [openai, anthropic, chats].map(holdBack)
      const before = [openai, anthropic, chats].map(({ requests }) => requests.length)
      const calls = [
        post("/v1/chat/completions", chat),
        post("/v1/chat/completions", { ...chat, stream: true }),
        post("/v1/chat/completions", { ...chat, model: "claude" }),
        post("/v1/embeddings", { model: "vectors", input: "Hi" }),
        post("/v1/messages", { ...chat, model: "claude" }),
        post("/v1/messages/count_tokens", { ...chat, model: "claude" }),
        post("/v1/responses", { model: "native", input: "Hi", max_output_tokens: 30 }),
        post("/v1/responses/input_tokens", { model: "native", input: "Hi" }),
        service.call("GET", `/v1/responses/${made.body.id}`, { key }),
        post("/api/llm/complete", native)
      ]
      const waiting = yield* Effect.forkChild(Effect.all(calls, { concurrency: "unbounded" }), {
        startImmediately: true
      })
      const asked = () => [openai, anthropic, chats].map(({ requests }, at) => requests.length - before[at]!)
      yield* eventually(Effect.sync(asked), (all) => all.reduce((sum, one) => sum + one, 0) === calls.length)
      // What waits for the database itself is stopped, two times, and none of them is.
      yield* asSuperuser(service.database, (sql) =>
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`SELECT FROM trial_users WHERE id = ${user.id} FOR UPDATE`
            const patch = service.call("PATCH", `/api/trial-users/${user.id}`, { body: { firstName: "Grace" } })
            assert.strictEqual((yield* patch).status, 503)
            assert.strictEqual((yield* patch).status, 503)
          })
        )
      )
      assert.isUndefined(waiting.pollUnsafe())
      slow.forEach(({ letGo }) => letGo())
      for (const answer of yield* Fiber.join(waiting)) assert.strictEqual(answer.status, 200, answer.text)
    }).pipe(Effect.scoped)
  )

  it.effect("do not bound a stream that is assembled, nor the pause before a retry", () =>
    Effect.gen(function* () {
      const { chats, post, service } = yield* setUp
      const body = { firstName: "Alan", lastName: "Turing", email: "alan@example.com" }
      const { body: user } = yield* service.call("POST", "/api/trial-users", { body })
      const usual = chats.answer
      const rest: Array<() => void> = []
      const streams: Answerer = (_, response) => {
        const head = { id: "c", object: "chat.completion.chunk", created: 1, model: "gpt" }
        sse(response, [{ ...head, choices: choices({ role: "assistant", content: "It is" }, null) }])
        rest.push(() => {
          const last = { ...head, choices: choices({ content: " noon." }, "stop") }
          const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
          response.write(
            `data: ${JSON.stringify(last)}\n\ndata: ${JSON.stringify({ ...head, choices: [], usage })}\n\n`
          )
          response.end("data: [DONE]\n\n")
        })
      }
      chats.answer = streams
      const gathered = yield* Effect.forkChild(post("/v1/chat/completions", chat), { startImmediately: true })
      yield* eventually(
        Effect.sync(() => rest.length),
        (count) => count === 1
      )
      chats.answer = (_, response) => {
        response.writeHead(429, { "content-type": "application/json", "retry-after": "5" }).end("{}")
        chats.answer = usual
      }
      const retried = yield* Effect.forkChild(post("/v1/chat/completions", chat), { startImmediately: true })
      yield* asSuperuser(service.database, (sql) =>
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`SELECT FROM trial_users WHERE id = ${user.id} FOR UPDATE`
            const patch = service.call("PATCH", `/api/trial-users/${user.id}`, { body: { firstName: "Grace" } })
            assert.strictEqual((yield* patch).status, 503)
            assert.strictEqual((yield* patch).status, 503)
          })
        )
      )
      for (const end of rest) end()
      const whole = yield* Fiber.join(gathered)
      assert.deepStrictEqual([whole.status, whole.body.choices?.[0].message.content], [200, "It is noon."], whole.text)
      const again = yield* Fiber.join(retried)
      assert.strictEqual(again.status, 200, again.text)
    }).pipe(Effect.scoped)
  )
})
