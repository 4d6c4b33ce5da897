import { assert, it, layer } from "@effect/vitest"
import { Context, Effect, Exit, Fiber, Layer, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import { AuditFeed } from "../../../src/audit/feed/feed.ts"
import { FeedRepository } from "../../../src/audit/feed/repository.ts"
import { ProofRepository } from "../../../src/audit/chain/proof-repository.ts"
import { Database } from "../../../src/platform/database/database.ts"
import { CurrentPrincipal, serviceAccount } from "../../../src/kernel/principal.ts"
import { makeKey, makeTenant, refusesStrangers } from "../../support/authority.ts"
import { untilAllLinked, writeEntries } from "../../support/chain.ts"
import { makeDatabase, type TestDatabase } from "../../support/database.ts"
import { listenTo } from "../../support/event-source.ts"
import { faultPaths } from "../../support/problem.ts"
import { serviceLayer, startServer, startService, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

const path = "/api/audit-logs/stream"

/** A client of the feed. */
const follow = Effect.fnUntraced(function* (
  service: TestService["Service"],
  options: { readonly query?: string; readonly after?: number; readonly key?: string } = {}
) {
  const source = yield* listenTo(service, `${path}${options.query ?? ""}`, {
    ...(options.key === undefined ? {} : { "x-api-key": options.key }),
    ...(options.after === undefined ? {} : { "last-event-id": String(options.after) })
  })
  assert.strictEqual(source.status, 200)
  assert.strictEqual(source.headers.get("content-type"), "text/event-stream")
  return source
})

const write = (database: TestDatabase, count: number, prefix?: string) =>
  asSuperuser(database, (sql) => writeEntries(sql, count, prefix))

const until = <A>(ask: () => A, isReached: (value: A) => boolean) => eventually(Effect.sync(ask), isReached)

it.effect("nobody asks for the head of the log while nobody follows it", () =>
  Effect.gen(function* () {
    let asked = 0
    const repositories = Layer.mergeAll(
      Layer.mock(Database)({}),
      Layer.mock(ProofRepository)({}),
      Layer.mock(FeedRepository)({
        head: Effect.as(
          Effect.sync(() => void asked++),
          0
        )
      })
    )
    const context = yield* Layer.build(AuditFeed.layerNoDeps.pipe(Layer.provide(repositories)))
    const { follow } = Context.get(context, AuditFeed)
    const listen = Effect.flatMap(follow({}, 0), Stream.runDrain)
    const fibers = [yield* Effect.forkChild(listen), yield* Effect.forkChild(listen)]
    yield* TestClock.adjust("10 seconds")
    assert.isAtLeast(asked, 90)
    assert.isAtMost(asked, 110)
    yield* Fiber.interruptAll(fibers)
    const before = asked
    yield* TestClock.adjust("1 hour")
    assert.strictEqual(asked, before)
  })
)

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("the feed of the audit log", (it) => {
  refusesStrangers(it, [{ name: "stream", method: "GET", path, capability: "audit-logs:read", systemOnly: false }])

  it.effect("200: tells of entries as they are linked, in the order of the chain, on every replica", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const replica = yield* startService(service.database)
      yield* untilAllLinked(service.database)
      const clients = [yield* follow(service), yield* follow(replica)]
      yield* write(service.database, 30, "told")
      for (const { events } of clients) {
        const told = () => events.filter(({ data }) => data.entityId.startsWith("told "))
        yield* until(told, (found) => found.length === 30)
        const sequences = events.map(({ data }) => data.sequence)
        assert.deepStrictEqual(
          sequences,
          sequences.toSorted((a, b) => a - b)
        )
        for (const { data, event, id } of events) {
          assert.strictEqual(event, "audit-entry")
          assert.strictEqual(id, String(data.sequence))
          assert.notProperty(data, "changes")
        }
      }
    })
  )

  it.effect("200: goes on behind Last-Event-ID, with no entry lost and none twice", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      yield* write(service.database, 2500, "again")
      const head = yield* untilAllLinked(service.database)
      const from = head - 2200
      const { events } = yield* follow(service, { after: from })
      yield* write(service.database, 5, "after")
      yield* until(
        () => events.length,
        (count) => count >= 2205
      )
      assert.deepStrictEqual(
        events.slice(0, 2205).map(({ data }) => data.sequence),
        Array.from({ length: 2205 }, (_, index) => from + 1 + index)
      )
    })
  )

  it.effect("200: an id beyond the head is the head", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { events } = yield* follow(service, { after: Number.MAX_SAFE_INTEGER })
      yield* write(service.database, 1, "beyond")
      yield* until(
        () => events.map(({ data }) => data.entityId),
        (found) => found.includes("beyond 1")
      )
    })
  )

  it.effect("200: filters hold, and a tenant's caller hears of its tenant only", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenantId = yield* makeTenant(service.database)
      const { key } = yield* makeKey(service, ["audit-logs:read"], { tenantId })
      yield* untilAllLinked(service.database)
      const tenant = yield* follow(service, { key })
      const filtered = yield* follow(service, { query: "?entityId=wanted%202" })
      yield* write(service.database, 3, "wanted")
      const { id } = yield* makeKey(service, [], { tenantId })
      yield* until(
        () => filtered.events.length,
        (count) => count > 0
      )
      yield* until(
        () => tenant.events.length,
        (count) => count > 0
      )
      assert.deepStrictEqual(
        filtered.events.map(({ data }) => data.entityId),
        ["wanted 2"]
      )
      assert.deepStrictEqual(
        tenant.events.map(({ data }) => data.entityId),
        [id]
      )
    })
  )

  it.effect("200: lasts no longer than the right to it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const revoked = yield* makeKey(service, ["audit-logs:read"])
      const narrowed = yield* makeKey(service, ["audit-logs:read"])
      const kept = yield* makeKey(service, ["audit-logs:read"])
      const clients = [
        yield* follow(service, { key: revoked.key }),
        yield* follow(service, { key: narrowed.key }),
        yield* follow(service, { key: kept.key })
      ]
      yield* service.call("DELETE", `/api/api-keys/${revoked.id}`)
      yield* service.call("PATCH", `/api/api-keys/${narrowed.id}`, { body: { scopes: ["roles:read"] } })
      yield* until(
        () => clients.map(({ ended }) => ended()),
        (ends) => ends[0] !== undefined && ends[1] !== undefined
      )
      assert.deepStrictEqual(
        clients.map(({ ended }) => ended()),
        ["cleanly", "cleanly", undefined]
      )
    })
  )

  it.effect("503: more than a thousand follow; who leaves makes room", () =>
    Effect.gen(function* () {
      const { context } = yield* startServer(yield* makeDatabase)
      const feed = Context.get(context, AuditFeed)
      const one = Effect.provideService(feed.follow({}, undefined), CurrentPrincipal, serviceAccount)
      const fibers = yield* Effect.forEach(Array.from({ length: 1000 }), () =>
        Effect.forkChild(Effect.flatMap(one, Stream.runDrain), { startImmediately: true })
      )
      yield* eventually(Effect.exit(one), Exit.isFailure)
      assert.strictEqual((yield* Effect.flip(one))._tag, "Overloaded")
      yield* Fiber.interruptAll(fibers)
      assert.isDefined(yield* one)
    })
  )

  it.effect("400: an id that is none", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const id of ["x", "-1", "1.5"]) {
        const answer = yield* service.call("GET", path, { headers: { "last-event-id": id } })
        assert.deepStrictEqual(faultPaths(answer), ["headers.last-event-id"])
      }
    })
  )

  it.effect("ends cleanly when the service does, and costs nothing when the client leaves", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const scope = yield* Scope.make()
      const service = yield* Scope.provide(startService(database), scope)
      const staying = yield* follow(service)
      const leaving = yield* follow(service)
      yield* leaving.leave
      yield* write(database, 1)
      yield* until(
        () => staying.events.length,
        (count) => count > 0
      )
      yield* Scope.close(scope, Exit.void)
      yield* until(staying.ended, (end) => end !== undefined)
      assert.strictEqual(staying.ended(), "cleanly")
    })
  )
})
