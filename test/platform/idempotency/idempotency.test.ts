import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeKey } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import { exchange, requestText } from "../../support/raw-http.ts"
import { createUser, newKey, person, post } from "../../support/repeatable.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

const ipAddress = "203.0.113.7"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("Idempotency-Key", (it) => {
  it.effect("201 again: the same request is answered as before, and says so", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const [key, body] = [newKey(), person()]
      const first = yield* post("/api/trial-users", key, body)
      const again = yield* post("/api/trial-users", key, body)
      assert.strictEqual(first.status, 201, first.text)
      assert.isNull(first.headers.get("idempotency-replayed"))
      assert.strictEqual(again.status, 201)
      assert.strictEqual(again.text, first.text)
      assert.strictEqual(again.headers.get("idempotency-replayed"), "true")
      for (const name of ["location", "content-type", "x-content-type-options", "cache-control"]) {
        assert.strictEqual(again.headers.get(name), first.headers.get(name), name)
      }
      assert.notStrictEqual(again.headers.get("x-request-id"), first.headers.get("x-request-id"))
      const log = yield* service.call("GET", `/api/audit-logs?entityType=TrialUser&entityId=${first.body.id}`)
      assert.lengthOf(log.body.items, 1)
    })
  )

  it.effect("204 again, without a body", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const session = yield* service.call("POST", "/api/sessions", {
        body: { trialUserId: yield* createUser, ipAddress }
      })
      const [key, path] = [newKey(), `/api/sessions/${session.body.id}/activity`]
      const first = yield* post(path, key, undefined)
      const again = yield* post(path, key, undefined)
      assert.strictEqual(first.status, 204)
      assert.strictEqual(again.status, 204)
      assert.strictEqual(again.headers.get("idempotency-replayed"), "true")
      assert.strictEqual(again.headers.get("content-type"), first.headers.get("content-type"))
    })
  )

  it.effect("400: a body of no bytes is read once, however many look at it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const lines = [
        `X-Api-Key: ${service.serviceKey}`,
        "Content-Type: application/json",
        `Idempotency-Key: ${newKey()}`
      ]
      const { answers } = yield* exchange(service.url, requestText("POST", "/api/trial-users", lines, ""))
      assertProblem(answers[0] ?? assert.fail("no answer"), 400, "validation-failed")
    })
  )

  it.effect("422: another body under the key, whose first answer stays", () =>
    Effect.gen(function* () {
      const [key, body] = [newKey(), person()]
      const first = yield* post("/api/trial-users", key, body)
      assertProblem(yield* post("/api/trial-users", key, person()), 422, "idempotency-key-reused")
      assertProblem(yield* post("/api/trial-users", key, { ...body, organization: "" }), 422, "idempotency-key-reused")
      assertProblem(yield* post("/api/trial-users?x=1", key, body), 422, "idempotency-key-reused")
      assert.strictEqual((yield* post("/api/trial-users", key, body)).text, first.text)
    })
  )

  it.effect("a key of another principal, or of another route, is another key", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const other = yield* makeKey(service, ["trial-users:write", "sessions:write"])
      const [key, body] = [newKey(), person()]
      const first = yield* post("/api/trial-users", key, body)
      assert.strictEqual(first.status, 201)
      const theirs = yield* post("/api/trial-users", key, body, { key: other.key })
      assertProblem(theirs, 409, "email-already-registered")
      const elsewhere = yield* post("/api/sessions", key, { trialUserId: first.body.id, ipAddress })
      assert.strictEqual(elsewhere.status, 201)
      assert.isNull(elsewhere.headers.get("idempotency-replayed"))
    })
  )

  for (const [what, key] of [
    ["empty", ""],
    ["256 characters long", "k".repeat(256)],
    ["no ASCII", "ключ"],
    ["with a tab inside", "a\tb"]
  ] as const) {
    it.effect(`400: a key that is ${what}, and nothing is made`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const body = person()
        const lines = [`X-Api-Key: ${service.serviceKey}`, "Content-Type: application/json", `Idempotency-Key: ${key}`]
        const { answers } = yield* exchange(
          service.url,
          requestText("POST", "/api/trial-users", lines, JSON.stringify(body))
        )
        assertProblem(answers[0] ?? assert.fail("no answer"), 400, "idempotency-key-invalid")
        const found = yield* service.call("GET", `/api/trial-users/by-email/${body.email}`)
        assertProblem(found, 404, "trial-user-not-found")
      })
    )
  }

  for (const key of ["k".repeat(255), "~", "a b", "'; DROP TABLE idempotency_keys; --"]) {
    it.effect(`201: the key ${key.slice(0, 40)}`, () =>
      Effect.gen(function* () {
        const body = person()
        assert.strictEqual((yield* post("/api/trial-users", key, body)).status, 201)
        assert.strictEqual((yield* post("/api/trial-users", key, body)).headers.get("idempotency-replayed"), "true")
      })
    )
  }

  it.effect("a failed answer frees the key, whatever failed", () =>
    Effect.gen(function* () {
      const [key, body] = [newKey(), person()]
      const text = { headers: { "content-type": "text/plain" } }
      const taken = person()
      yield* post("/api/trial-users", newKey(), taken)
      assertProblem(yield* post("/api/trial-users", key, { ...body, email: "none" }), 400, "validation-failed")
      assertProblem(yield* post("/api/trial-users", key, "{"), 400, "malformed-json")
      assertProblem(yield* post("/api/trial-users", key, body, text), 415, "unsupported-media-type")
      assertProblem(yield* post("/api/trial-users", key, taken), 409, "email-already-registered")
      const made = yield* post("/api/trial-users", key, body)
      assert.strictEqual(made.status, 201, made.text)
      assert.isNull(made.headers.get("idempotency-replayed"))
    })
  )

  it.effect("a replay of what has a secret shows none, and none is stored", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const [key, body] = [newKey(), { name: "once", scopes: ["sessions:read"] }]
      const first = yield* post("/api/api-keys", key, body)
      const again = yield* post("/api/api-keys", key, body)
      assert.match(first.body.key, /^amk_/)
      assert.deepStrictEqual(again.body, { ...first.body, key: "***" })
      assert.strictEqual(again.headers.get("idempotency-replayed"), "true")
      const [kept] = yield* asSuperuser(
        service.database,
        (sql) => sql<{ readonly row: string }>`SELECT k::text AS row FROM idempotency_keys k WHERE key = ${key}`
      )
      assert.include(kept?.row, first.body.id)
      assert.notInclude(kept?.row, first.body.key)
      const used = yield* service.call("GET", "/api/sessions", { key: first.body.key })
      assert.strictEqual(used.status, 200)

      const rotation = [`/api/api-keys/${first.body.id}/rotate`, newKey(), {}] as const
      const rotated = yield* post(...rotation)
      assert.deepStrictEqual((yield* post(...rotation)).body, { ...rotated.body, key: "***" })
    })
  )

  it.effect("a key is free again after a day", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const [key, body] = [newKey(), { name: "daily", scopes: [] }]
      const first = yield* post("/api/api-keys", key, body)
      yield* asSuperuser(
        service.database,
        (sql) => sql`UPDATE idempotency_keys SET created_at = now() - interval '25 hours' WHERE key = ${key}`
      )
      const next = yield* post("/api/api-keys", key, { ...body, name: "next day" })
      assert.strictEqual(next.status, 201, next.text)
      assert.notStrictEqual(next.body.id, first.body.id)
      assert.strictEqual((yield* post("/api/api-keys", key, { ...body, name: "next day" })).body.id, next.body.id)
    })
  )

  it.effect("GET, PATCH and DELETE know no keys", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const path = `/api/trial-users/${yield* createUser}`
      const headers = { "idempotency-key": newKey() }
      for (const [method, body] of [
        ["PATCH", { firstName: "A" }],
        ["PATCH", { firstName: "B" }],
        ["GET", undefined],
        ["DELETE", undefined]
      ] as const) {
        const answer = yield* service.call(method, path, { body, headers })
        assert.include([200, 204], answer.status)
        assert.isNull(answer.headers.get("idempotency-replayed"))
      }
    })
  )
})
