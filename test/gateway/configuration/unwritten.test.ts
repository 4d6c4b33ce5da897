import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { assertProblem } from "../../support/problem.ts"
import { serviceLayer, TestService } from "../../support/service.ts"

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("a document with a default", (it) => {
  for (const [path, body] of [
    ["/api/llm/admin/config", { routing: { retries: 1 } }],
    ["/api/llm/admin/catalogue", { source: "a test", asOf: "2026-11-22", models: [] }]
  ] as const) {
    it.effect(`${path} is written for the first time once, by If-None-Match: * or by the tag of the default`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const put = (headers: Record<string, string>) => service.call("PUT", path, { body, headers })
        assert.strictEqual((yield* service.call("GET", path)).headers.get("etag"), '"0"')
        assertProblem(yield* put({ "if-match": '"1"' }), 412, "version-mismatch")
        assertProblem(yield* put({ "if-none-match": '"0"' }), 412, "version-mismatch")
        const answers = yield* Effect.all(
          [put({ "if-none-match": "*" }), put({ "if-match": '"0"' }), put({ "if-none-match": "*" })],
          { concurrency: "unbounded" }
        )
        assert.sameMembers(
          answers.map(({ status }) => status),
          [200, 412, 412]
        )
        assertProblem(yield* put({ "if-none-match": "*" }), 412, "version-mismatch")
        assert.strictEqual((yield* service.call("GET", path)).headers.get("etag"), '"1"')
      })
    )
  }
})
