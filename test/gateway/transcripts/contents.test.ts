import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeKey } from "../../support/authority.ts"
import { configureVendors } from "../../support/gateway-vendors.ts"
import { model, spender } from "../../support/gateway.ts"
import { assertProblem } from "../../support/problem.ts"
import { sse } from "../../support/provider.ts"
import { serviceLayer, sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser, countOf } from "../../support/statements.ts"
import { said } from "../../support/vendors.ts"
import { eventually } from "../../support/waiting.ts"

type Service = TestService["Service"]

const chat = "/v1/chat/completions"
const question = "What was the secret word?"
const body = { model: "gpt", messages: [{ role: "user", content: question }] }
const contents = (id: string | null) => `/api/llm/admin/contents/${id}`

const stored = ({ database }: Service) =>
  asSuperuser(
    database,
    (sql) => sql<{ readonly id: string; readonly row: string }>`
      SELECT reservation_id::text AS id, encode(sealed, 'escape') || c::text AS row FROM gateway_contents c`
  )

const options = { excludeTestServices: true, timeout: "60 seconds" } as const

layer(serviceLayer({ Llm__Gateway__LogContent: "true" }), options)("what is said in calls", (it) => {
  it.effect("is kept sealed where the settings say so, and shown to who may read it, with an audit entry", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      yield* configureVendors(service, [model("gpt", ["oa"])])
      const { key, tenantId } = yield* spender(service, [])
      const answer = yield* service.call("POST", chat, { key, body })
      const id = answer.headers.get("x-reservation-id")
      const shown = yield* service.call("GET", contents(id))
      assert.strictEqual(shown.status, 200, shown.text)
      assert.deepInclude(shown.body, { reservationId: id, tenantId, dialect: "openai", operation: "chat" })
      assert.deepInclude(shown.body, { request: JSON.stringify(body), response: answer.text, truncated: false })
      const rows = yield* stored(service)
      assert.isNotEmpty(rows)
      for (const { row } of rows) {
        assert.notInclude(row, "secret word")
        assert.notInclude(row, said)
      }
      const entries = yield* service.call("GET", "/api/audit-logs?actionType=GatewayContentRead")
      assert.deepInclude(entries.body.items[0], { entityId: id, tenantId })
    }).pipe(Effect.scoped)
  )

  it.effect("is kept of streams too, as far as they were heard", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { openai } = yield* configureVendors(service, [model("gpt", ["oa"])])
      const { key } = yield* spender(service, [])
      const ask = (signal: AbortSignal) =>
        fetch(`${service.url}${chat}`, {
          method: "POST",
          signal,
          headers: { "x-api-key": key, "content-type": "application/json" },
          body: JSON.stringify({ ...body, stream: true })
        })
      const whole = yield* Effect.promise(async (signal) => {
        const response = await ask(signal)
        return { id: response.headers.get("x-reservation-id"), text: await response.text() }
      })
      const kept = yield* eventually(service.call("GET", contents(whole.id)), ({ status }) => status === 200)
      assert.strictEqual(kept.body.response, whole.text)
      openai.answer = (_, response) =>
        sse(response, [{ id: "c", choices: [{ index: 0, delta: { role: "assistant", content: "It is" } }] }])
      const left = yield* Effect.promise(async () => {
        const leaving = new AbortController()
        const response = await ask(leaving.signal)
        await response.body?.getReader().read()
        leaving.abort()
        return response.headers.get("x-reservation-id")
      })
      const heard = yield* eventually(service.call("GET", contents(left)), ({ status }) => status === 200)
      assert.include(heard.body.response, "It is")
    }).pipe(Effect.scoped)
  )

  it.effect("is cut at a mebibyte", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      yield* configureVendors(service, [model("gpt", ["oa"])])
      const long = { ...body, messages: [{ role: "user", content: "a".repeat(1_100_000) }] }
      const answer = yield* service.call("POST", chat, { body: long })
      const shown = yield* service.call("GET", contents(answer.headers.get("x-reservation-id")))
      assert.strictEqual(shown.body.request.length, 1_048_576)
      assert.isTrue(shown.body.truncated)
    }).pipe(Effect.scoped)
  )

  it.effect("is read by administrators of the installation alone", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      yield* configureVendors(service, [model("gpt", ["oa"])])
      const { key } = yield* spender(service, [])
      const answer = yield* service.call("POST", chat, { key, body })
      const path = contents(answer.headers.get("x-reservation-id"))
      assertProblem(yield* service.call("GET", path, { key }), 403, "forbidden")
      const { key: reader } = yield* makeKey(service, ["llm:read"])
      assertProblem(yield* service.call("GET", path, { key: reader }), 403, "forbidden")
      const nothing = contents("0198a5b0-7c00-7000-8000-00000000002a")
      assertProblem(yield* service.call("GET", nothing), 404, "gateway-content-not-found")
    }).pipe(Effect.scoped)
  )
})

layer(sharedServiceLayer, options)("what is said in calls, unless the settings say so,", (it) => {
  it.effect("is kept nowhere", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      yield* configureVendors(service, [model("gpt", ["oa"])])
      const { key } = yield* spender(service, [])
      const answer = yield* service.call("POST", chat, { key, body })
      assert.strictEqual(answer.status, 200)
      assert.strictEqual(yield* countOf(service.database, "gateway_contents"), 0)
      const path = contents(answer.headers.get("x-reservation-id"))
      assertProblem(yield* service.call("GET", path), 404, "gateway-content-not-found")
    }).pipe(Effect.scoped)
  )
})
