import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { pages } from "../../contract/document.ts"
import { faultsOf } from "../../contract/validator.ts"
import { makeKey } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import { exchange, requestText } from "../../support/raw-http.ts"
import { type Answer, type Call, serviceLayer, sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

const titles: Readonly<Record<number, string>> = {
  400: "Bad Request",
  401: "Unauthorized",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  406: "Not Acceptable",
  409: "Conflict",
  413: "Content Too Large",
  415: "Unsupported Media Type",
  417: "Expectation Failed",
  431: "Request Header Fields Too Large",
  500: "Internal Server Error",
  501: "Not Implemented"
}

/** Something that makes each problem, by its slug. */
const provoked = Effect.gen(function* () {
  const service = yield* TestService
  const call = (method: string, path: string, options?: Call) => service.call(method, path, options)
  const raw = (text: string) =>
    Effect.map(exchange(service.url, text), ({ answers }) => answers[0] ?? assert.fail("no answer"))
  const ada = { firstName: "Ada", lastName: "Lovelace", email: "ada.of.problems@example.com" }
  const { body: user } = yield* call("POST", "/api/trial-users", { body: ada })
  const { body: session } = yield* call("POST", "/api/sessions", {
    body: { trialUserId: user.id, ipAddress: "203.0.113.7" }
  })
  yield* call("DELETE", `/api/sessions/${session.id}`)
  const reader = yield* makeKey(service, ["sessions:read"])
  const revoked = yield* makeKey(service, ["sessions:read"])
  yield* call("DELETE", `/api/api-keys/${revoked.id}`)
  const nobody = "01890a5d-ac96-774b-bcce-b302099a8057"
  const closed = { ...ada, email: "closed.of.problems@example.com" }
  const { body: inactive } = yield* call("POST", "/api/trial-users", { body: closed })
  yield* call("PATCH", `/api/trial-users/${inactive.id}`, { body: { isActive: false } })

  const calls: Readonly<Record<string, Effect.Effect<Answer>>> = {
    "malformed-json": call("POST", "/api/trial-users", { body: "{" }),
    "validation-failed": call("POST", "/api/trial-users", { body: {} }),
    "bad-request": call("GET", "/api/trial-users/%ZZ"),
    "idempotency-key-invalid": call("POST", "/api/trial-users", { body: ada, headers: { "idempotency-key": "é" } }),
    "trial-ends-before-start": call("PATCH", `/api/trial-users/${user.id}`, {
      body: { trialEndDate: "1970-01-01T00:00:00Z" }
    }),
    unauthenticated: call("GET", "/api/trial-users", { key: null }),
    forbidden: call("GET", "/api/trial-users", { key: reader.key }),
    "route-not-found": call("GET", "/nothing"),
    "trial-user-not-found": call("GET", "/api/trial-users/2147483647"),
    "session-not-found": call("GET", "/api/sessions/2147483647"),
    "api-key-not-found": call("GET", `/api/api-keys/${nobody}`),
    "audit-entry-not-found": call("GET", `/api/audit-logs/${nobody}`),
    "tenant-not-found": call("POST", "/api/api-keys", { body: { name: "key", scopes: [], tenantId: nobody } }),
    "method-not-allowed": call("DELETE", "/api/sessions"),
    "not-acceptable": call("GET", "/api/sessions", { headers: { accept: "text/html" } }),
    "email-already-registered": call("POST", "/api/trial-users", { body: ada }),
    "trial-user-inactive": call("POST", "/api/sessions", {
      body: { trialUserId: inactive.id, ipAddress: "203.0.113.7" }
    }),
    "session-inactive": call("POST", `/api/sessions/${session.id}/activity`),
    "api-key-inactive": call("PATCH", `/api/api-keys/${revoked.id}`, { body: { name: "other" } }),
    "payload-too-large": call("POST", "/api/trial-users", { body: " ".repeat(1024 * 1024 + 1) }),
    "unsupported-media-type": call("POST", "/api/trial-users", {
      body: "a",
      headers: { "content-type": "text/plain" }
    }),
    "expectation-failed": raw(requestText("POST", "/api/trial-users", ["Expect: more"], "{}")),
    "headers-too-large": raw(requestText("GET", "/health", [`X-Long: ${"a".repeat(20_000)}`])),
    "method-not-implemented": raw(requestText("PURGE", "/health"))
  }
  return yield* Effect.forEach(Object.entries(calls), ([slug, made]) =>
    Effect.map(made, (answer) => ({ slug, answer }))
  )
})

const traceparentOf = (traceId: string) => ({ traceparent: `00-${traceId}-00f067aa0ba902b7-01` })

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("problems", (it) => {
  it.effect("every one has a type, its status phrase, a status, a detail and a trace id; the list has its slug", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const listed: ReadonlyArray<{ readonly slug: string; readonly status: number; readonly meaning: string }> =
        (yield* service.call("GET", "/problems", { key: null })).body
      for (const { answer, slug } of yield* provoked) {
        assertProblem(answer, answer.status, slug)
        assert.strictEqual(answer.body.title, titles[answer.status], slug)
        const definition = listed.find((one) => one.slug === slug) ?? assert.fail(`${slug} is not listed`)
        assert.strictEqual(definition.status, answer.status, slug)
        const page = yield* service.call("GET", `/problems/${slug}`, { key: null })
        assert.deepStrictEqual(page.body, definition)
      }
    })
  )

  it.effect("the OpenAPI document says how they are listed, and so are the other pages", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      assert.deepStrictEqual(
        pages.map(({ path }) => path),
        ["/problems", "/problems/{slug}", "/metrics"]
      )
      for (const { path, responses } of pages) {
        const at = path.replace("{slug}", "validation-failed")
        const content = responses["200"]?.content ?? {}
        for (const accept of ["application/json", "text/html", "text/plain"]) {
          const answer = yield* service.call("GET", at, { key: null, headers: { accept } })
          assert.strictEqual(answer.status, 200, answer.text)
          const [type = ""] = answer.headers.get("content-type")?.split(";") ?? []
          const media = content[type] ?? assert.fail(`${at} answers ${type}`)
          assert.deepStrictEqual(faultsOf(media.schema, answer.body), [])
        }
      }
    })
  )

  it.effect("the list names each slug once and explains it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { body } = yield* service.call("GET", "/problems", { key: null })
      const slugs = body.map((one: { readonly slug: string }) => one.slug)
      assert.deepStrictEqual([...new Set(slugs)].toSorted(), slugs)
      for (const one of body) {
        assert.hasAllKeys(one, ["slug", "type", "status", "statuses", "title", "meaning"])
        assert.include(one.statuses, one.status)
        assert.isNotEmpty(one.meaning)
        assert.notStrictEqual(one.title, "Error", one.slug)
        assert.strictEqual(one.type, `urn:application-manager:problem:${one.slug}`)
      }
      // On the extension of a plan it is 400, since the interface says so.
      assert.deepStrictEqual((yield* service.call("GET", "/problems/budget-denied")).body.statuses, [402, 400])
    })
  )

  it.effect("a browser gets pages; an unknown slug is 404", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const path of ["/problems", "/problems/forbidden"]) {
        const page = yield* service.call("GET", path, { key: null, headers: { accept: "text/html" } })
        assert.match(page.headers.get("content-type") ?? "", /^text\/html/)
        assert.include(page.headers.get("content-security-policy"), "default-src 'none'")
        assert.include(page.text, "forbidden")
      }
      assertProblem(yield* service.call("GET", "/problems/%3Cscript%3E", { key: null }), 404, "route-not-found")
    })
  )

  it.effect("the trace id is the caller's, whatever the status", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const traceId = "4bf92f3577b34da6a3ce929d0e0e4736"
      for (const [method, path, options] of [
        ["GET", "/nothing", {}],
        ["GET", "/api/trial-users/0", {}],
        ["GET", "/api/trial-users", { key: null }],
        ["POST", "/api/trial-users", { body: "{" }],
        ["GET", "/%ZZ", {}]
      ] as const) {
        const answer = yield* service.call(method, path, { ...options, headers: traceparentOf(traceId) })
        assert.strictEqual(answer.body.traceId, traceId, path)
      }
    })
  )

  it.effect("the trace id of B3 has the digits of W3C's, in one header or several", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const short = "a3ce929d0e0e4736"
      const long = "4bf92f3577b34da6a3ce929d0e0e4736"
      const span = "00f067aa0ba902b7"
      for (const [headers, expected] of [
        [{ b3: `${short}-${span}-1` }, `${"0".repeat(16)}${short}`],
        [{ b3: `${long}-${span}` }, long],
        [{ "x-b3-traceid": short, "x-b3-spanid": span }, `${"0".repeat(16)}${short}`]
      ] as const) {
        assert.strictEqual((yield* service.call("GET", "/nothing", { headers })).body.traceId, expected)
      }
      for (const digits of [16, 32]) {
        const answer = yield* service.call("GET", "/nothing", { headers: { b3: `${"0".repeat(digits)}-${span}-1` } })
        assert.match(answer.body.traceId, /^(?!0{32})[0-9a-f]{32}$/)
      }
    })
  )

  it.effect("a malformed traceparent is ignored", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const zeros = "0".repeat(32)
      for (const traceparent of ["", "00", `00-${zeros}-00f067aa0ba902b7-01`, "ff-x-y-z", "a".repeat(4000)]) {
        const answer = yield* service.call("GET", "/nothing", { headers: { traceparent } })
        assertProblem(answer, 404, "route-not-found")
        assert.notStrictEqual(answer.body.traceId, zeros)
      }
    })
  )

  it.effect("requests without a trace have ids of their own", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const answers = yield* Effect.forEach(Array.from({ length: 10 }), () => service.call("GET", "/nothing"))
      assert.strictEqual(new Set(answers.map(({ body }) => body.traceId)).size, 10)
    })
  )
})

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("a defect of the service", (it) => {
  it.effect("500: reveals no internals, and ends when its cause ends", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const body = { trialUserId: 1, ipAddress: "203.0.113.7" }
      yield* service.call("POST", "/api/trial-users", {
        body: { firstName: "Ada", lastName: "Lovelace", email: "ada@example.com" }
      })
      yield* asSuperuser(service.database, (sql) => sql`ALTER TABLE sessions RENAME TO sessions_elsewhere`)
      const failed = [
        yield* service.call("GET", "/api/sessions", { headers: traceparentOf("4bf92f3577b34da6a3ce929d0e0e4736") }),
        yield* service.call("GET", "/api/sessions/1"),
        yield* service.call("POST", "/api/sessions", { body }),
        yield* service.call("DELETE", "/api/sessions/1"),
        yield* service.call("DELETE", "/api/trial-users/1")
      ]
      yield* asSuperuser(service.database, (sql) => sql`ALTER TABLE sessions_elsewhere RENAME TO sessions`)

      for (const answer of failed) {
        assertProblem(answer, 500, "internal-error")
        assert.hasAllKeys(answer.body, ["type", "title", "status", "detail", "traceId"])
        assert.notMatch(answer.text, /sessions|relation|select|sql|postgres|stack|\.ts\b|node_modules/iu)
        assert.strictEqual(answer.headers.get("x-content-type-options"), "nosniff")
        assert.isNotNull(answer.headers.get("x-request-id"))
      }
      assert.strictEqual(failed[0]?.body.traceId, "4bf92f3577b34da6a3ce929d0e0e4736")
      assert.strictEqual((yield* service.call("GET", "/api/sessions")).status, 200)
      assert.strictEqual((yield* service.call("POST", "/api/sessions", { body })).status, 201)
      assert.strictEqual((yield* service.call("GET", "/api/trial-users/1")).status, 200)
    })
  )
})
