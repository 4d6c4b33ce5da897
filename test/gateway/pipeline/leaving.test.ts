import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { reservationsOf } from "../../support/gateway-vendors.ts"
import { charges, configure, model, provider, spender, usageRows } from "../../support/gateway.ts"
import { type ProviderStandIn, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { openAiVendor } from "../../support/vendors.ts"
import { eventually, untilBlocked } from "../../support/waiting.ts"

const call = ({ url }: TestService["Service"], key: string, signal: AbortSignal | null = null) =>
  fetch(`${url}/v1/chat/completions`, {
    method: "POST",
    signal,
    headers: { "x-api-key": key, "content-type": "application/json", "idempotency-key": "once" },
    body: JSON.stringify({ model: "gpt", max_tokens: 30, messages: [{ role: "user", content: "What time is it?" }] })
  }).then(
    ({ status }) => status,
    (error: Error) => error.name
  )

/** Leaves a call once the provider has it; the row of its usage. */
const leftRow = Effect.fnUntraced(function* (
  service: TestService["Service"],
  standIn: ProviderStandIn,
  tenantId: string,
  controller: AbortController,
  called: Promise<unknown>
) {
  yield* eventually(
    Effect.sync(() => standIn.requests.length),
    (sent) => sent === 1
  )
  controller.abort()
  assert.strictEqual(yield* Effect.promise(() => called), "AbortError")
  const [row] = yield* eventually(usageRows(service, tenantId), (rows) => rows.length > 0)
  return row
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("callers that leave", (it) => {
  it.effect(
    "while their hold is being made leave nothing reserved, pay nothing, and may come again under the same key",
    () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const standIn = yield* startProvider(openAiVendor)
        yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
        const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
        const controller = new AbortController()
        const left = yield* asSuperuser(service.database, (sql) =>
          sql.withTransaction(
            Effect.gen(function* () {
              yield* sql`LOCK TABLE budget_reservations IN SHARE ROW EXCLUSIVE MODE`
              const called = call(service, key, controller.signal)
              yield* untilBlocked(sql)
              controller.abort()
              // What came after it is answered: so the service knows that the caller is gone.
              for (let times = 0; times < 3; times++) yield* service.call("GET", "/health")
              return yield* Effect.promise(() => called)
            })
          )
        )
        assert.strictEqual(left, "AbortError")
        const ended = yield* eventually(
          reservationsOf(service, tenantId),
          ([reservation]) => reservation !== undefined && reservation.state !== "open"
        )
        assert.deepStrictEqual(
          ended.map(({ state }) => state),
          ["released"]
        )
        assert.deepStrictEqual(yield* charges(service, tenantId), [
          { amount: "0", state: "released", method: "released" }
        ])
        assert.lengthOf(standIn.requests, 0)
        assert.strictEqual(yield* Effect.promise(() => call(service, key)), 200)
      }).pipe(Effect.scoped)
  )

  it.effect(
    "before an answer that is not streamed pay what can be written in that time, and what is reserved at most",
    () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const standIn = yield* startProvider(() => {})
        yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"], { maxTokensPerSecond: 100_000 })])
        const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
        const controller = new AbortController()
        const called = call(service, key, controller.signal)
        const row = yield* leftRow(service, standIn, tenantId, controller, called)
        assert.deepInclude(row, { method: "aborted", inputTokens: 6, outputTokens: 30, reasoningTokens: 0 })
      }).pipe(Effect.scoped)
  )

  it.effect("pay for the text of a document, which stands in no part of text", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(() => {})
      yield* configure(service, [provider("an", standIn, { dialect: "anthropic" })], [model("gpt", ["an"])])
      const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
      const controller = new AbortController()
      const source = { type: "text", media_type: "text/plain", data: "word ".repeat(3000) }
      const called = fetch(`${service.url}/v1/messages`, {
        method: "POST",
        signal: controller.signal,
        headers: { "x-api-key": key, "content-type": "application/json" },
        body: JSON.stringify({
          model: "gpt",
          max_tokens: 30,
          stream: true,
          messages: [{ role: "user", content: [{ type: "document", source }] }]
        })
      }).catch((error: Error) => error.name)
      const row = yield* leftRow(service, standIn, tenantId, controller, called)
      assert.deepInclude(row, { method: "aborted", inputTokens: 5000, outputTokens: 0 })
    }).pipe(Effect.scoped)
  )
})
