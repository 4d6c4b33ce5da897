import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { configureVendors, holdBack, reservationsOf } from "../../support/gateway-vendors.ts"
import { costNanoUsd, model, spender } from "../../support/gateway.ts"
import { assertProblem } from "../../support/problem.ts"
import { json, sse } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

type Service = TestService["Service"]

const chat = "/v1/chat/completions"
const complete = "/api/llm/complete"
const messages = [{ role: "user", content: "What time is it?" }]

const post = (service: Service, key: string, idempotencyKey: string, path = chat, body: object = {}) =>
  service.call("POST", path, {
    key,
    headers: { "idempotency-key": idempotencyKey },
    body: { model: "gpt", messages, ...body }
  })

const costUsd = String(costNanoUsd / 1e9)

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "calls under an Idempotency-Key",
  (it) => {
    it.effect("are made once: a repetition is told what the first did cost", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { openai } = yield* configureVendors(service, [model("gpt", ["oa"])])
        const { key, tenantId } = yield* spender(service, [])
        const first = yield* post(service, key, "one")
        assert.strictEqual(first.status, 200, first.text)
        const again = yield* post(service, key, "one")
        assert.strictEqual(again.status, 409)
        assert.strictEqual(again.body.error.code, "already_completed")
        assert.strictEqual(again.headers.get("x-reservation-id"), first.headers.get("x-reservation-id"))
        assert.strictEqual(again.headers.get("x-cost-usd"), costUsd)
        assert.strictEqual(again.headers.get("x-should-retry"), "false")
        const other = yield* post(service, key, "one", chat, { temperature: 1 })
        assert.deepStrictEqual([other.status, other.body.error.code], [422, "idempotency_key_reused"])
        assert.lengthOf(openai.requests, 1)
        assert.lengthOf(yield* reservationsOf(service, tenantId), 1)
      }).pipe(Effect.scoped)
    )

    it.effect("are problems in the gateway's own words", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { openai } = yield* configureVendors(service, [
          model("gpt", ["oa"]),
          model("vectors", ["oa"], { kind: "embedding" })
        ])
        const { key } = yield* spender(service, [])
        const first = yield* post(service, key, "one", complete)
        const again = yield* post(service, key, "one", complete)
        assertProblem(again, 409, "already-completed")
        assert.deepInclude(again.body, { reservationId: first.body.reservationId, costUsd: costNanoUsd / 1e9 })
        const other = yield* post(service, key, "one", complete, { temperature: 1 })
        assertProblem(other, 422, "idempotency-key-reused")
        const headers = { "idempotency-key": "one" }
        const embed = { key, headers, body: { model: "vectors", input: "a" } }
        assert.strictEqual((yield* service.call("POST", "/api/llm/embed", embed)).status, 200)
        assertProblem(yield* service.call("POST", "/api/llm/embed", embed), 409, "already-completed")
        assertProblem(yield* post(service, key, "k".repeat(256), complete), 400, "idempotency-key-invalid")
        assert.lengthOf(openai.requests, 2)
      }).pipe(Effect.scoped)
    )

    it.effect("are one of many that arrive at once", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { openai } = yield* configureVendors(service, [model("gpt", ["oa"])])
        const { key } = yield* spender(service, [])
        const held = holdBack(openai)
        const first = yield* Effect.forkChild(post(service, key, "one"), { startImmediately: true })
        yield* eventually(
          Effect.sync(() => held.waiting.length),
          (count) => count === 1
        )
        for (const again of yield* Effect.all([post(service, key, "one"), post(service, key, "one")])) {
          assert.deepStrictEqual([again.status, again.body.error.code], [409, "idempotency_in_progress"])
          assert.strictEqual(again.headers.get("retry-after"), "1")
        }
        const elsewhere = yield* Effect.forkChild(post(service, key, "one", complete), { startImmediately: true })
        const { key: another } = yield* spender(service, [])
        const theirs = yield* Effect.forkChild(post(service, another, "one"), { startImmediately: true })
        yield* eventually(
          Effect.sync(() => held.waiting.length),
          (count) => count === 3
        )
        held.letGo()
        for (const fiber of [first, elsewhere, theirs]) assert.strictEqual((yield* Fiber.join(fiber)).status, 200)
      }).pipe(Effect.scoped)
    )

    it.effect("give their key back where they got no answer", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { openai } = yield* configureVendors(service, [model("gpt", ["oa"])])
        const { key } = yield* spender(service, [])
        const usual = openai.answer
        openai.answer = (_, response) => json(response, 500, { error: { message: "No luck." } })
        assert.strictEqual((yield* post(service, key, "one")).status, 500)
        assert.strictEqual((yield* post(service, key, "one", chat, { model: "none" })).status, 404)
        openai.answer = usual
        assert.strictEqual((yield* post(service, key, "one")).status, 200)
        assert.strictEqual((yield* post(service, key, "one")).status, 409)
      }).pipe(Effect.scoped)
    )

    it.effect("that stream are completed when their client left, since they are charged", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { openai } = yield* configureVendors(service, [model("gpt", ["oa"])])
        const { key, tenantId } = yield* spender(service, [])
        openai.answer = (_, response) =>
          sse(response, [{ id: "c", choices: [{ index: 0, delta: { role: "assistant", content: "It is" } }] }])
        const body = { model: "gpt", messages, stream: true }
        yield* Effect.promise(async () => {
          const leaving = new AbortController()
          const response = await fetch(`${service.url}${chat}`, {
            method: "POST",
            signal: leaving.signal,
            headers: { "x-api-key": key, "content-type": "application/json", "idempotency-key": "one" },
            body: JSON.stringify(body)
          })
          await response.body?.getReader().read()
          leaving.abort()
        })
        yield* eventually(reservationsOf(service, tenantId), ([row]) => row?.state === "settled")
        const again = yield* post(service, key, "one", chat, { stream: true })
        assert.deepStrictEqual([again.status, again.body.error.code], [409, "already_completed"])
        assert.lengthOf(openai.requests, 1)
      }).pipe(Effect.scoped)
    )

    it.effect("whose process is gone are what their reservation is", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { openai } = yield* configureVendors(service, [model("gpt", ["oa"])])
        const { key } = yield* spender(service, [])
        yield* post(service, key, "one")
        // Lost before it came to its reservation: for a minute it may still be under way.
        const left = (age: string) =>
          asSuperuser(
            service.database,
            (sql) => sql`
            UPDATE call_keys SET reservation_id = NULL, created_at = now() - ${age}::interval WHERE key = 'one'`
          )
        yield* left("50 seconds")
        assert.strictEqual((yield* post(service, key, "one")).body.error.code, "idempotency_in_progress")
        yield* left("70 seconds")
        assert.strictEqual((yield* post(service, key, "one")).status, 200)
        // Given up at no cost.
        yield* asSuperuser(
          service.database,
          (sql) => sql`UPDATE call_keys SET reservation_id = gen_random_uuid() WHERE key = 'one'`
        )
        assert.strictEqual((yield* post(service, key, "one")).status, 200)
        assert.strictEqual((yield* post(service, key, "one")).status, 409)
        // A day is over.
        yield* asSuperuser(
          service.database,
          (sql) => sql`UPDATE call_keys SET created_at = now() - interval '25 hours' WHERE key = 'one'`
        )
        assert.strictEqual((yield* post(service, key, "one")).status, 200)
        assert.lengthOf(openai.requests, 4)
      }).pipe(Effect.scoped)
    )

    it.effect("keep nothing of what was said", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        yield* configureVendors(service, [model("gpt", ["oa"])])
        const { key } = yield* spender(service, [])
        yield* post(service, key, "kept", chat, { messages: [{ role: "user", content: "a-secret-question" }] })
        const rows = yield* asSuperuser(
          service.database,
          (sql) => sql<{ readonly row: string }>`SELECT r::text AS row FROM call_keys r WHERE key = 'kept'`
        )
        assert.lengthOf(rows, 1)
        assert.notInclude(rows[0]?.row, "a-secret-question")
      }).pipe(Effect.scoped)
    )
  }
)
