import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { assertProblem } from "../support/problem.ts"
import { exchange, requestText } from "../support/raw-http.ts"
import { type Answer, serviceKey, serviceLayer, TestService } from "../support/service.ts"

/** Sends one request as it stands and answers what came back for it. */
const sent = Effect.fnUntraced(function* (text: string, options: { readonly bodiless?: boolean } = {}) {
  const service = yield* TestService
  const { answers, closed } = yield* exchange(service.url, text, options)
  const [answer] = answers
  if (answer === undefined) return assert.fail("no answer came")
  return { ...answer, closed }
})

const assertSafe = (answer: Answer) => {
  assert.strictEqual(answer.headers.get("x-content-type-options"), "nosniff")
  assert.strictEqual(answer.headers.get("referrer-policy"), "no-referrer")
  assert.strictEqual(answer.headers.get("cache-control"), "no-store")
  assert.match(answer.headers.get("x-request-id") ?? "", /^[A-Za-z0-9._-]{1,128}$/)
}

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("requests that are hardly HTTP", (it) => {
  const key = `X-Api-Key: ${serviceKey}`
  const broken = {
    "no request line": "GARBAGE\r\n\r\n",
    "a TLS greeting": "\u0016\u0003\u0001\u0002\u0000\u0001\u0000",
    "a method in lower case": requestText("get", "/health"),
    "two lengths": requestText("POST", "/api/trial-users", ["Content-Length: 2", "Content-Length: 3"]),
    "a length and chunks": requestText("POST", "/api/sessions", ["Content-Length: 2", "Transfer-Encoding: chunked"]),
    "a negative length": requestText("POST", "/api/trial-users", ["Content-Length: -1"]),
    "a length of letters": requestText("POST", "/api/trial-users", ["Content-Length: 1e1"]),
    "a chunk of no size": `${requestText("POST", "/api/trial-users", [key, "Transfer-Encoding: chunked"])}zz\r\n{}\r\n`,
    "NUL in a header": requestText("GET", "/health", ["X-Request-Id: a\u0000b"]),
    "a folded header": requestText("GET", "/health", ["X-Request-Id: a", " b: c"]),
    "a bare CR in a header": requestText("GET", "/health", ["X-Request-Id: a\rSet-Cookie: b=c"]),
    "a space before the colon": requestText("GET", "/health", ["X-Request-Id : a"]),
    "no Host": "GET /health HTTP/1.1\r\n\r\n"
  }
  for (const [what, text] of Object.entries(broken)) {
    it.effect(`400: ${what}`, () =>
      Effect.gen(function* () {
        const answer = yield* sent(text)
        assertProblem(answer, 400, "bad-request")
        assertSafe(answer)
      })
    )
  }

  it.effect("400: another message behind a length and chunks is never read as a request", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const smuggled = requestText("GET", "/health")
      const text = requestText("POST", "/health", ["Content-Length: 4", "Transfer-Encoding: chunked"])
      const { answers, closed } = yield* exchange(service.url, `${text}0\r\n\r\n${smuggled}`, { untilClosed: true })
      assert.deepStrictEqual(
        answers.map(({ status }) => status),
        [400]
      )
      assert.isTrue(closed)
    })
  )

  it.effect("431: headers, or an address, of more than 16 KiB", () =>
    Effect.gen(function* () {
      for (const text of [
        requestText("GET", "/health", [`X-Long: ${"a".repeat(20_000)}`]),
        requestText("GET", `/${"a".repeat(20_000)}`),
        requestText("GET", `/api/trial-users?cursor=${"a".repeat(20_000)}`)
      ]) {
        const answer = yield* sent(text)
        assertProblem(answer, 431, "headers-too-large")
        assertSafe(answer)
      }
    })
  )

  it.effect("417: an expectation that is none of HTTP", () =>
    Effect.gen(function* () {
      const answer = yield* sent(requestText("POST", "/api/trial-users", ["Expect: miracles"], "{}"))
      assertProblem(answer, 417, "expectation-failed")
      assertSafe(answer)
    })
  )

  it.effect("200: HTTP/1.0 needs no Host", () =>
    Effect.gen(function* () {
      const answer = yield* sent("GET /health HTTP/1.0\r\n\r\n")
      assert.strictEqual(answer.status, 200)
    })
  )

  it.effect("a good request after a bad one on another connection is served", () =>
    Effect.gen(function* () {
      yield* sent("GARBAGE\r\n\r\n")
      assert.strictEqual((yield* sent(requestText("GET", "/health"))).status, 200)
    })
  )
})

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("addresses and methods", (it) => {
  const authorized = Effect.map(TestService, ({ serviceKey }) => [`X-Api-Key: ${serviceKey}`])

  for (const target of [
    "/nothing/here",
    "/",
    "/api",
    "/api/trial-users/1/nothing",
    "/health/../api/trial-users",
    "*"
  ]) {
    it.effect(`404: ${target}`, () =>
      Effect.gen(function* () {
        const answer = yield* sent(requestText("GET", target, yield* authorized))
        assertProblem(answer, 404, "route-not-found")
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
    it.effect(`400: ${target}, whose percent-encoding is none of text`, () =>
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

  it.effect("204: OPTIONS says what a path allows", () =>
    Effect.gen(function* () {
      const answer = yield* sent(requestText("OPTIONS", "/api/trial-users/1"))
      assert.strictEqual(answer.status, 204)
      assert.strictEqual(answer.headers.get("allow"), "GET, PATCH, DELETE, HEAD, OPTIONS")
      assertSafe(answer)
    })
  )

  for (const method of ["PROPFIND", "PURGE", "CONNECT"]) {
    it.effect(`501: ${method}, which nothing here is served by`, () =>
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

  it.effect("HEAD leaves the connection in step, with 200, 401 and 404 alike", () =>
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

  it.effect("a body on GET is neither read nor taken for the next request", () =>
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

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("headers of requests", (it) => {
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

  it.effect("two X-Request-Id are none", () =>
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
