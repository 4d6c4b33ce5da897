import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { operations } from "../../contract/document.ts"
import { assertSafe, sent } from "../../support/http-answers.ts"
import { assertProblem } from "../../support/problem.ts"
import { exchange, requestText } from "../../support/raw-http.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

/** What the server itself allows beside the methods of a path. */
const own = (allowed: ReadonlySet<string>) => (allowed.has("GET") ? ["HEAD", "OPTIONS"] : ["OPTIONS"])

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("addresses and methods", (it) => {
  const authorized = Effect.map(TestService, ({ serviceKey }) => [`X-Api-Key: ${serviceKey}`])

  for (const target of ["/api/trial-users;limit=1", "/api/trial-users/1;x", "/;?a=b"]) {
    it.effect(`400: ${target}, whose path has a semicolon`, () =>
      Effect.gen(function* () {
        const answer = yield* sent(requestText("GET", target, yield* authorized))
        assertProblem(answer, 400, "bad-request")
        assert.include(answer.text, "%3B")
      })
    )
  }

  for (const target of [
    "/nothing/here",
    "/api",
    "/api/trial-users/1/nothing",
    "/health/../api/trial-users",
    "/API/trial-users",
    "/Health"
  ]) {
    it.effect(`404: ${target}`, () =>
      Effect.gen(function* () {
        const answer = yield* sent(requestText("GET", target, yield* authorized))
        assertProblem(answer, 404, "route-not-found")
        assertSafe(answer)
      })
    )
  }

  // The target of the server as a whole is its front page too.
  for (const target of ["/", "*"]) {
    it.effect(`200: ${target}`, () =>
      Effect.gen(function* () {
        const answer = yield* sent(requestText("GET", target, yield* authorized))
        assert.strictEqual(answer.status, 200)
        assertSafe(answer)
      })
    )
  }

  it.effect("400 and 404: a path as long as the headers may be", () =>
    Effect.gen(function* () {
      const lines = yield* authorized
      const long = "a".repeat(14_000)
      const known = yield* sent(requestText("GET", `/api/trial-users/by-email/${long}`, lines))
      assertProblem(known, 400, "validation-failed")
      assertProblem(yield* sent(requestText("GET", `/${long}`, lines)), 404, "route-not-found")
      assertProblem(yield* sent(requestText("GET", "/a".repeat(7000), lines)), 404, "route-not-found")
    })
  )

  for (const target of [
    "/api/trial-users/%ZZ",
    "/%",
    "/%E0%A4%A",
    "/health?%FF",
    "/health?a=%ED%A0%80",
    "/nothing/%C0%80"
  ]) {
    it.effect(`400: ${target}, whose percent-encoding is not UTF-8`, () =>
      Effect.gen(function* () {
        const answer = yield* sent(requestText("GET", target, yield* authorized))
        assertProblem(answer, 400, "bad-request")
        assertSafe(answer)
      })
    )
  }

  it.effect("400: a very long query, complete up to the limit of the headers", () =>
    Effect.gen(function* () {
      const target = `/api/trial-users?limit=${"1".repeat(12_000)}`
      assertProblem(yield* sent(requestText("GET", target, yield* authorized)), 400, "validation-failed")
      const many = `/api/trial-users?${Array.from({ length: 2000 }, (_, n) => `a${n}=1`).join("&")}`
      const answer = yield* sent(requestText("GET", many, yield* authorized))
      assertProblem(answer, 400, "validation-failed")
      assert.lengthOf(answer.body.errors, 2000)
    })
  )

  for (const [method, path, allowed] of [
    ["PUT", "/api/trial-users", "GET, POST, HEAD, OPTIONS"],
    ["DELETE", "/api/sessions", "GET, POST, HEAD, OPTIONS"],
    ["POST", "/api/trial-users/1", "GET, PATCH, DELETE, HEAD, OPTIONS"],
    ["GET", "/api/sessions/1/activity", "POST, OPTIONS"],
    ["HEAD", "/api/sessions/1/activity", "POST, OPTIONS"],
    ["POST", "/health", "GET, HEAD, OPTIONS"],
    ["DELETE", "/problems", "GET, HEAD, OPTIONS"],
    ["QUERY", "/api/trial-users", "GET, POST, HEAD, OPTIONS"],
    ["TRACE", "/api/trial-users/1", "GET, PATCH, DELETE, HEAD, OPTIONS"]
  ] as const) {
    it.effect(`405: ${method} ${path}, with Allow`, () =>
      Effect.gen(function* () {
        const bodiless = method === "HEAD"
        const answer = yield* sent(requestText(method, path), { bodiless })
        assert.strictEqual(answer.status, 405)
        assert.strictEqual(answer.headers.get("allow"), allowed)
        assertSafe(answer)
        if (!bodiless) assertProblem(answer, 405, "method-not-allowed")
      })
    )
  }

  it.effect("405: every path of the document, even where a parameter of another path stands for its last part", () =>
    Effect.gen(function* () {
      const { call } = yield* TestService
      const paths = Map.groupBy(operations, ({ path }) => path)
      for (const [path, here] of paths) {
        const allowed = new Set(here.map(({ method }) => method))
        const target = path.replaceAll(/\{\w+\}/g, "x")
        for (const method of ["GET", "POST", "PUT", "PATCH", "DELETE"].filter((one) => !allowed.has(one))) {
          const { headers, status } = yield* call(method, target, { key: null })
          const allow = new Set(headers.get("allow")?.split(", "))
          assert.deepStrictEqual([status, allow], [405, new Set([...allowed, ...own(allowed)])], `${method} ${path}`)
        }
      }
    })
  )

  it.effect("204: OPTIONS says what a path allows", () =>
    Effect.gen(function* () {
      const answer = yield* sent(requestText("OPTIONS", "/api/trial-users/1"))
      assert.strictEqual(answer.status, 204)
      assert.strictEqual(answer.headers.get("allow"), "GET, PATCH, DELETE, HEAD, OPTIONS")
      assertSafe(answer)
    })
  )

  for (const method of ["PROPFIND", "PURGE", "CONNECT"]) {
    it.effect(`501: ${method}, which the service does not implement`, () =>
      Effect.gen(function* () {
        const answer = yield* sent(requestText(method, method === "CONNECT" ? "localhost:80" : "/api/trial-users"))
        assertProblem(answer, 501, "method-not-implemented")
        assertSafe(answer)
      })
    )
  }

  for (const path of ["/health", "/api/trial-users", "/problems", "/swagger"]) {
    it.effect(`200: HEAD ${path} has the headers of GET and no body`, () =>
      Effect.gen(function* () {
        const lines = yield* authorized
        const [head, get] = [
          yield* sent(requestText("HEAD", path, lines), { bodiless: true }),
          yield* sent(requestText("GET", path, lines))
        ]
        assert.strictEqual(head.status, 200)
        assert.strictEqual(head.headers.get("content-type"), get.headers.get("content-type"))
        assert.strictEqual(head.headers.get("content-length"), get.headers.get("content-length"))
        assertSafe(head)
      })
    )
  }

  it.effect("HEAD leaves the connection usable after 200, 401 and 404", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const requests = ["/health", "/api/trial-users", "/nothing"].map((path) => requestText("HEAD", path)).join("")
      const { answers } = yield* exchange(service.url, requests, { answers: 3, bodiless: true })
      assert.deepStrictEqual(
        answers.map(({ status }) => status),
        [200, 401, 404]
      )
    })
  )

  it.effect("a body on GET is neither read nor parsed as the next request", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const first = requestText(
        "GET",
        "/api/trial-users",
        [...(yield* authorized), "Content-Type: text/plain"],
        "GET /x"
      )
      const { answers } = yield* exchange(service.url, first + requestText("GET", "/health"), { answers: 2 })
      assert.deepStrictEqual(
        answers.map(({ status }) => status),
        [200, 200]
      )
      assert.strictEqual(answers[1]?.body.status, "Healthy")
    })
  )

  it.effect("e-mail addresses with reserved characters are found by them", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const emails = ["a+b", "a/b", "a?b", "a#b", "a%b", "a&b=c", "o'hara", "a!$*^_`{|}~", "jürgen", "用户"]
      for (const email of emails.map((local) => `${local}@example.com`)) {
        const body = { firstName: "A", lastName: "B", email }
        const created = yield* service.call("POST", "/api/trial-users", { body })
        assert.strictEqual(created.status, 201, created.text)
        const found = yield* service.call("GET", `/api/trial-users/by-email/${encodeURIComponent(email)}`)
        assert.strictEqual(found.body.id, created.body.id, email)
        const none = yield* service.call("GET", `/api/trial-users/by-email/${encodeURIComponent(`x${email}`)}`)
        assertProblem(none, 404, "trial-user-not-found")
      }
    })
  )
})
