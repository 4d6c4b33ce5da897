import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { assertSafe, sent } from "../../support/http-answers.ts"
import { assertProblem } from "../../support/problem.ts"
import { exchange, requestText } from "../../support/raw-http.ts"
import { serviceKey, sharedServiceLayer, TestService } from "../../support/service.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "requests that are hardly HTTP",
  (it) => {
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
      "no Host": "GET /health HTTP/1.1\r\n\r\n",
      "two Hosts": "GET /health HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n"
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

    it.effect("400: a second message after both a length and chunks is never read as a request", () =>
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

    it.effect("417: an unknown expectation", () =>
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
  }
)
