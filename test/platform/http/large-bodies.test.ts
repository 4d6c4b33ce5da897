import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { chunked, declared, inChunks, json, mebibyte, plain, withHead } from "../../support/large-bodies.ts"
import { assertProblem } from "../../support/problem.ts"
import { exchange, requestText } from "../../support/raw-http.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("bodies that are too large", (it) => {
  // What the kernel keeps between two sockets of one machine, with room to spare; a body that is taken in is 40 MiB.
  const mostTaken = 20 * mebibyte

  it.effect("413: 40 MiB declared, before any of it arrives", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { answers, closed } = yield* exchange(service.url, declared, { untilClosed: true })
      assertProblem(answers[0] ?? assert.fail("no answer"), 413, "payload-too-large")
      assert.isTrue(closed)
    })
  )

  it.effect("413: 40 MiB declared, without asking for it by 100 Continue", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const lines = [...json, `Content-Length: ${40 * mebibyte}`, "Expect: 100-continue"]
      const { answers, interim } = yield* exchange(service.url, requestText("POST", "/api/trial-users", lines))
      assertProblem(answers[0] ?? assert.fail("no answer"), 413, "payload-too-large")
      assert.deepStrictEqual(interim, [])
    })
  )

  it.effect("413: 40 MiB declared and sent, of which little is read", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const pieces = withHead(declared, plain(40))
      const { answers, bytesSent } = yield* exchange(service.url, pieces, { untilClosed: true })
      assertProblem(answers[0] ?? assert.fail("no answer"), 413, "payload-too-large")
      assert.isBelow(bytesSent, mostTaken)
    })
  )

  it.effect("413: 40 MiB in chunks, of which little is read", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const pieces = withHead(inChunks, chunked(40))
      const { answers, bytesSent } = yield* exchange(service.url, pieces, { untilClosed: true })
      assertProblem(answers[0] ?? assert.fail("no answer"), 413, "payload-too-large")
      assert.isBelow(bytesSent, mostTaken)
    })
  )

  it.effect("413: a little too much leaves the connection usable", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const body = "a".repeat(mebibyte + 1)
      const text = requestText("POST", "/api/trial-users", json, body) + requestText("GET", "/health")
      const { answers, closed } = yield* exchange(service.url, text, { answers: 2 })
      assert.strictEqual(answers[0]?.status, 413)
      assert.isTrue(closed || answers[1]?.status === 200, "neither closed nor usable")
    })
  )

  it.effect("413: whether authenticated or not", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const lines = ["Content-Type: application/json", `Content-Length: ${40 * mebibyte}`]
      const { answers } = yield* exchange(service.url, requestText("POST", "/api/trial-users", lines))
      assertProblem(answers[0] ?? assert.fail("no answer"), 413, "payload-too-large")
    })
  )

  it.effect("201: a body of exactly the limit; 413: one byte more", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const body = JSON.stringify({ firstName: "Ada", lastName: "Lovelace", email: "exactly@large.example" }).padEnd(
        mebibyte,
        " "
      )
      const tooLarge = yield* service.call("POST", "/api/trial-users", { body: `${body} ` })
      assertProblem(tooLarge, 413, "payload-too-large")
      assert.strictEqual((yield* service.call("POST", "/api/trial-users", { body })).status, 201)
    })
  )

  it.effect("an incomplete body ends with its connection, and affects no other request", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const head = requestText("POST", "/api/trial-users", [...json, "Content-Length: 1000"])
      yield* Effect.raceFirst(exchange(service.url, [head, "{"], { untilClosed: true }), service.call("GET", "/health"))
      assert.strictEqual((yield* service.call("GET", "/api/trial-users")).status, 200)
    })
  )
})
