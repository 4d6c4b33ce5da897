import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { assertSafe, sent } from "../../support/http-answers.ts"
import { assertProblem } from "../../support/problem.ts"
import { requestText } from "../../support/raw-http.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("headers of requests", (it) => {
  for (const id of ["a", "A-Z.a_z-09", "x".repeat(128)]) {
    it.effect(`X-Request-Id ${id.slice(0, 20)} is echoed, with 200 and with 404`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        for (const path of ["/health", "/nothing"]) {
          const answer = yield* service.call("GET", path, { headers: { "x-request-id": id } })
          assert.strictEqual(answer.headers.get("x-request-id"), id)
        }
      })
    )
  }

  for (const id of [
    "",
    "a b",
    "a,b",
    "a;b",
    "<script>",
    "a%0d%0aSet-Cookie:b",
    "é",
    "\t",
    "x".repeat(129),
    "${jndi:x}"
  ]) {
    it.effect(`X-Request-Id ${JSON.stringify(id.slice(0, 20))} is replaced`, () =>
      Effect.gen(function* () {
        const answer = yield* sent(requestText("GET", "/health", [`X-Request-Id: ${id}`]))
        assert.strictEqual(answer.status, 200)
        assert.notStrictEqual(answer.headers.get("x-request-id"), id)
        assertSafe(answer)
      })
    )
  }

  it.effect("two X-Request-Id headers count as none", () =>
    Effect.gen(function* () {
      const answer = yield* sent(requestText("GET", "/health", ["X-Request-Id: a", "X-Request-Id: b"]))
      assertSafe(answer)
      assert.notInclude(["a", "b"], answer.headers.get("x-request-id"))
    })
  )

  it.effect("every request without an id gets one of its own", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const ids = yield* Effect.forEach(Array.from({ length: 20 }), () => service.call("GET", "/health"), {
        concurrency: 5
      })
      assert.strictEqual(new Set(ids.map(({ headers }) => headers.get("x-request-id"))).size, 20)
    })
  )

  for (const accept of [
    "text/html",
    "text/*",
    "application/xml, text/plain;q=0.9",
    "application/json;q=0",
    "application/*;q=0, */*",
    "image/png"
  ]) {
    it.effect(`406: Accept ${accept}`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const answer = yield* service.call("GET", "/api/trial-users", { headers: { accept } })
        assertProblem(answer, 406, "not-acceptable")
        assertSafe(answer)
      })
    )
  }

  for (const accept of ["application/json", "*/*", "text/html, */*;q=0.1", "application/*", "APPLICATION/JSON"]) {
    it.effect(`200: Accept ${accept}`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        assert.strictEqual((yield* service.call("GET", "/api/trial-users", { headers: { accept } })).status, 200)
      })
    )
  }

  it.effect("200: no Accept at all", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const answer = yield* sent(requestText("GET", "/api/trial-users", [`X-Api-Key: ${service.serviceKey}`]))
      assert.strictEqual(answer.status, 200)
    })
  )
})
