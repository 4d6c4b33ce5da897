import { assert, layer } from "@effect/vitest"
import { Effect, Schedule } from "effect"
import { makeExpiredKey, makeKey, makeTenant } from "../../support/authority.ts"
import { assertProblem } from "../../support/problem.ts"
import { sharedServiceLayer, startService, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

const path = "/api/api-keys"

type Service = TestService["Service"]

const works = (service: Service, key: string) =>
  Effect.map(service.call("GET", path, { key }), (answer) => answer.status === 200)

/** Asks until the replica refuses the key, for as long as a replica may be behind: a second. */
const refusedWithinASecond = (service: Service, key: string) =>
  works(service, key).pipe(
    Effect.repeat({ until: (working) => !working, schedule: Schedule.spaced("10 millis"), times: 100 }),
    Effect.map((working) => assert.isFalse(working, "the key still works"))
  )

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("API keys on two replicas", (it) => {
  const ends: ReadonlyArray<readonly [string, (service: Service, id: string) => Effect.Effect<unknown>]> = [
    ["revocation", (service, id) => service.call("DELETE", `${path}/${id}`)],
    [
      "rotation without grace",
      (service, id) => service.call("POST", `${path}/${id}/rotate`, { body: { graceSeconds: 0 } })
    ],
    ["removal of its scopes", (service, id) => service.call("PATCH", `${path}/${id}`, { body: { scopes: [] } })]
  ]
  for (const [what, end] of ends) {
    it.effect(`a ${what} holds here before its answer, and within a second on the other replica`, () =>
      Effect.gen(function* () {
        const here = yield* TestService
        const there = yield* here.replica
        const { id, key } = yield* makeKey(here, ["api-keys:read"])
        assert.isTrue(yield* works(here, key))
        assert.isTrue(yield* works(there, key))
        yield* end(here, id)
        assert.isFalse(yield* works(here, key))
        yield* refusedWithinASecond(there, key)
      })
    )
  }

  it.effect("a key made on one replica works on the other at once, though it was refused there before", () =>
    Effect.gen(function* () {
      const here = yield* TestService
      const there = yield* here.replica
      const { key } = yield* makeKey(here, ["api-keys:read"])
      assert.isTrue(yield* works(there, key))
    })
  )

  it.effect("a revocation holds from its answer on, whatever was asked with the key meanwhile", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (let round = 0; round < 10; round++) {
        const { id, key } = yield* makeKey(service, ["api-keys:read"])
        const asked = Array.from({ length: 20 }, () => works(service, key))
        asked.splice(5, 0, Effect.as(service.call("DELETE", `${path}/${id}`), true))
        let ended = false
        yield* Effect.all(
          asked.map((ask, index) => (index === 5 ? Effect.tap(ask, () => Effect.sync(() => (ended = true))) : ask)),
          { concurrency: "unbounded" }
        )
        assert.isTrue(ended)
        assert.isFalse(yield* works(service, key))
      }
    })
  )

  it.effect("a rotation without grace under an Idempotency-Key holds from its answer on, too", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (let round = 0; round < 10; round++) {
        const { id, key } = yield* makeKey(service, ["api-keys:read"])
        let answered = false
        const asking = works(service, key).pipe(Effect.repeat({ while: () => !answered }))
        const rotation = service
          .call("POST", `${path}/${id}/rotate`, {
            body: { graceSeconds: 0 },
            headers: { "idempotency-key": `rotation of ${id}` }
          })
          .pipe(
            Effect.tap((answer) => Effect.sync(() => assert.strictEqual(answer.status, 201))),
            Effect.andThen(works(service, key)),
            Effect.ensuring(Effect.sync(() => (answered = true)))
          )
        const [working] = yield* Effect.all([rotation, asking, asking, asking], { concurrency: "unbounded" })
        assert.isFalse(working, "the old key still works")
      }
    })
  )

  it.effect("the suspension of a tenant that another replica carried out holds within a second", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const { key } = yield* makeKey(service, ["api-keys:read"], { tenantId })
      assert.isTrue(yield* works(service, key))
      yield* asSuperuser(service.database, (sql) => sql`UPDATE tenants SET status = 'suspended' WHERE id = ${tenantId}`)
      yield* refusedWithinASecond(service, key)
      yield* asSuperuser(service.database, (sql) => sql`UPDATE tenants SET status = 'active' WHERE id = ${tenantId}`)
      yield* works(service, key).pipe(
        Effect.repeat({ until: (working) => working, schedule: Schedule.spaced("10 millis"), times: 110 }),
        Effect.map((working) => assert.isTrue(working))
      )
    })
  )

  it.effect("lastUsedAt appears, written by the replica that the key was used on", () =>
    Effect.gen(function* () {
      const here = yield* TestService
      const tenantId = yield* makeTenant(here.database)
      const keys = [yield* makeKey(here, ["api-keys:read"], { tenantId }), yield* makeKey(here, ["api-keys:read"])]
      const unused = yield* makeKey(here, ["api-keys:read"])
      yield* Effect.scoped(
        Effect.gen(function* () {
          const there = yield* startService(here.database)
          for (const { key } of keys) assert.isTrue(yield* works(there, key))
        })
      )
      for (const { id } of keys) {
        const { body } = yield* here.call("GET", `${path}/${id}`)
        assert.isAtLeast(Date.parse(body.lastUsedAt), Date.parse(body.createdAt))
      }
      assert.isNull((yield* here.call("GET", `${path}/${unused.id}`)).body.lastUsedAt)
    })
  )

  it.effect("a refused key counts as no use", () =>
    Effect.gen(function* () {
      const here = yield* TestService
      const { id, key } = yield* makeExpiredKey(here, ["api-keys:read"])
      yield* Effect.scoped(
        Effect.gen(function* () {
          const there = yield* startService(here.database)
          assertProblem(yield* there.call("GET", path, { key }), 401, "unauthenticated")
        })
      )
      assert.isNull((yield* here.call("GET", `${path}/${id}`)).body.lastUsedAt)
    })
  )
})
