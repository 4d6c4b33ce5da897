import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { assertProblem } from "../support/problem.ts"
import { exchange, requestText } from "../support/raw-http.ts"
import { serviceLayer, TestService } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"
import { untilBlocked, untilIdle } from "../support/waiting.ts"

const impatient = serviceLayer({ Api__RequestTimeoutSeconds: "1", Database__MaxConnections: "4" })

layer(impatient, { excludeTestServices: true, timeout: "60 seconds" })("requests that take too long", (it) => {
  it.effect("503: stopped while they wait; nothing is changed and no other request is delayed", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { body: user } = yield* service.call("POST", "/api/trial-users", {
        body: { firstName: "Ada", lastName: "Lovelace", email: "ada@example.com" }
      })
      const path = `/api/trial-users/${user.id}`
      yield* asSuperuser(service.database, (sql) =>
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`SELECT FROM trial_users WHERE id = ${user.id} FOR UPDATE`
            const patch = service.call("PATCH", path, { body: { firstName: "Grace" } })
            // More of them than the pool has connections.
            const waiting = yield* Effect.forkChild(
              Effect.forEach(Array.from({ length: 8 }), () => patch, { concurrency: "unbounded" }),
              { startImmediately: true }
            )
            yield* untilBlocked(sql)
            assert.strictEqual((yield* service.call("GET", "/health")).status, 200)
            for (const answer of yield* Fiber.join(waiting)) {
              assertProblem(answer, 503, "overloaded")
              assert.match(answer.headers.get("retry-after") ?? "", /^[1-9]\d*$/u)
              assert.include(answer.body.detail, "too long")
            }
            // The row is still locked, yet no statement of the service waits for it any more.
            yield* untilIdle(sql)
            assert.strictEqual((yield* service.call("GET", "/api/sessions")).status, 200)
            assert.strictEqual((yield* service.call("GET", "/api/audit-logs")).status, 200)
          })
        )
      )
      assert.deepStrictEqual((yield* service.call("GET", path)).body, user)
      const changed = yield* service.call("PATCH", path, { body: { firstName: "Grace" } })
      assert.strictEqual(changed.body.firstName, "Grace", changed.text)
    })
  )

  it.effect("503 or 408: a body that never arrives, and the end of its connection", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const lines = [`X-Api-Key: ${service.serviceKey}`, "Content-Type: application/json", "Content-Length: 100"]
      const sent = (path: string) =>
        Effect.map(
          exchange(service.url, requestText("POST", path, lines), { untilClosed: true }),
          ({ answers: [first] }) => first ?? assert.fail("no answer")
        )
      const paths = ["/api/trial-users", "/api/spend/reserve", "/api/llm/complete", "/v1/chat/completions"]
      const [user, reservation, native, call] = yield* Effect.forEach(paths, sent, { concurrency: "unbounded" })
      for (const answer of [user!, reservation!, native!]) {
        assertProblem(answer, 503, "overloaded")
        assert.include(answer.body.detail, "The request took too long")
      }
      // The service itself waits for the body of this one as long as it takes.
      assertProblem(call!, 408, "request-timeout")
      assert.strictEqual((yield* service.call("GET", "/health")).status, 200)
    })
  )
})
