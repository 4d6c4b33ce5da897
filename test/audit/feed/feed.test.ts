import { assert, it, layer } from "@effect/vitest"
import { Context, DateTime, Effect, Exit, Fiber, Layer, Scope, Stream } from "effect"
import { TestClock } from "effect/testing"
import { ProofRepository } from "../../../src/audit/chain/proof-repository.ts"
import { AuditFeed, entrySelection } from "../../../src/audit/feed/feed.ts"
import { FeedRepository } from "../../../src/audit/feed/repository.ts"
import { AuditEntry, AuditEntryId, type AuditFilter } from "../../../src/audit/log/domain.ts"
import { CurrentPrincipal, serviceAccount } from "../../../src/kernel/authority/principal.ts"
import { TenantId } from "../../../src/kernel/identifier.ts"
import { Database } from "../../../src/platform/database/database.ts"
import { Notifications } from "../../../src/platform/database/notifications.ts"
import { OpenStreams } from "../../../src/platform/http/event-stream.ts"
import { makeKey, makeTenant, refusesStrangers } from "../../support/authority.ts"
import { untilAllLinked, writeEntries } from "../../support/chain.ts"
import { makeDatabase, type TestDatabase } from "../../support/database.ts"
import { listenTo } from "../../support/event-source.ts"
import { each, faults, refuses } from "../../support/scenarios.ts"
import { serviceLayer, startService, TestService } from "../../support/service.ts"
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

/** Nothing tells that the log has grown. */
const silent = Layer.mock(Notifications)({ subscribe: () => Effect.void })

const until = <A>(ask: () => A, isReached: (value: A) => boolean) => eventually(Effect.sync(ask), isReached)

it.effect("nobody asks for the head of the log while nobody follows it", () =>
  Effect.gen(function* () {
    let asked = 0
    const repositories = Layer.mergeAll(
      Layer.mock(Database)({}),
      silent,
      Layer.mock(ProofRepository)({}),
      OpenStreams.layer,
      Layer.mock(FeedRepository)({
        head: Effect.as(
          Effect.sync(() => void asked++),
          0
        )
      })
    )
    const context = yield* Layer.build(AuditFeed.layerNoDeps.pipe(Layer.provide(repositories)))
    const { follow } = Context.get(context, AuditFeed)
    const listen = Effect.flatMap(follow(entrySelection({}), 0), Stream.runDrain)
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

/** A feed over a log in memory, which counts what it reads. */
const feedInMemory = Effect.gen(function* () {
  const log = { head: 0, reads: 0 }
  const repositories = Layer.mergeAll(
    Layer.mock(Database)({ read: (_, work) => work as never }),
    silent,
    Layer.mock(ProofRepository)({ next: (behind) => Effect.succeed(behind < log.head ? behind + 1 : undefined) }),
    Layer.mock(FeedRepository)({
      head: Effect.sync(() => log.head),
      between: (after, upTo) =>
        Effect.sync(() => {
          log.reads++
          return Array.from({ length: upTo - after }, (_, index) => entryOf(after + index + 1))
        })
    }),
    OpenStreams.layer
  )
  const context = yield* Layer.build(AuditFeed.layerNoDeps.pipe(Layer.provide(repositories)))
  const { follow } = Context.get(context, AuditFeed)
  return { log, follow: (filter: AuditFilter, after: number | undefined) => follow(entrySelection(filter), after) }
})

it.effect("retention is known by the oldest link that is left", () =>
  Effect.gen(function* () {
    const repositories = Layer.mergeAll(
      Layer.mock(Database)({}),
      silent,
      Layer.mock(ProofRepository)({ next: (behind) => Effect.succeed(behind < 50 ? 50 : undefined) }),
      Layer.mock(FeedRepository)({ head: Effect.succeed(60) }),
      OpenStreams.layer
    )
    const { hasAllBehind } = yield* AuditFeed.pipe(
      Effect.provide(AuditFeed.layerNoDeps.pipe(Layer.provide(repositories)))
    )
    const all = yield* Effect.forEach([0, 48, 49, 60], hasAllBehind)
    assert.deepStrictEqual(all, [false, false, true, true])
  })
)

const ids = ["0198a5b0-7c00-7000-8000-00000000000a", "0198a5b0-7c00-7000-8000-00000000000b"].map((id) =>
  TenantId.make(id)
)
const entryOf = (sequence: number) =>
  AuditEntry.make({
    id: AuditEntryId.make("0198a5b0-7c00-7000-8000-00000000002a"),
    sequence,
    occurredAt: DateTime.makeUnsafe(0),
    actionType: "UserCreated",
    entityType: "TrialUser",
    entityId: String(sequence),
    userId: "service-account",
    actorType: "service-account",
    tenantId: ids[sequence % 2] ?? null,
    applicationId: null,
    outcome: "success",
    reason: null,
    count: 1,
    ipAddress: null,
    userAgent: null,
    traceId: null,
    changes: null
  })

const as = (name: string, tenantId?: TenantId) =>
  Effect.provideService(CurrentPrincipal, { ...serviceAccount, kind: "api-key", name: `api-key:${name}`, tenantId })

it.effect("the log is read once for all who follow, and each gets what it may see and wants", () =>
  Effect.gen(function* () {
    const { follow, log } = yield* feedInMemory
    const seen: Array<Array<string>> = []
    const filters = [{}, {}, { entityId: "7" }]
    for (let client = 0; client < 90; client++) {
      const got: Array<string> = []
      seen.push(got)
      const stream = yield* as(`k${client % 3}`, ids[client % 3])(follow(filters[client % 3] ?? {}, undefined))
      yield* Effect.forkChild(Stream.runForEach(stream, ({ id }) => Effect.sync(() => void got.push(id ?? ""))))
    }
    yield* TestClock.adjust("1 second")
    log.head = 10
    yield* TestClock.adjust("1 second")
    log.head = 12
    yield* TestClock.adjust("1 second")
    assert.strictEqual(log.reads, 2)
    for (const [client, got] of seen.entries()) {
      const wanted = [["2", "4", "6", "8", "10", "12"], ["1", "3", "5", "7", "9", "11"], ["7"]][client % 3]
      assert.deepStrictEqual(got, wanted)
    }
  }).pipe(Effect.scoped)
)

it.effect("429: the streams of a principal and of a tenant are limited, and leave others theirs", () =>
  Effect.gen(function* () {
    const { follow } = yield* feedInMemory
    const open = (name: string, tenantId?: TenantId) => as(name, tenantId)(follow({}, undefined))
    const detailOf = (name: string, tenantId?: TenantId) =>
      Effect.match(open(name, tenantId), {
        onSuccess: () => "open",
        onFailure: ({ detail, status }) => `${status} ${detail}`
      })
    const [one, other] = ids
    const first = yield* open("a", one)
    const reading = yield* Effect.forkChild(Stream.runDrain(first), { startImmediately: true })
    const openAll = (name: string, count: number) =>
      Effect.forEach(Array.from({ length: count }), () => open(name, one), { discard: true })
    yield* openAll("a", 99)
    assert.match(yield* detailOf("a", one), /^429 The caller has 100 open streams/)
    for (const name of ["b", "c", "d", "e"]) yield* openAll(name, 100)
    assert.match(yield* detailOf("f", one), /^429 The tenant has 500 open streams/)
    assert.strictEqual(yield* detailOf("f", other), "open")
    yield* Fiber.interrupt(reading)
    assert.strictEqual(yield* detailOf("f", one), "open")
    assert.match(yield* detailOf("f", one), /^429 The tenant/)
    yield* TestClock.adjust("31 seconds")
    assert.strictEqual(yield* detailOf("a", one), "open", "answers that were never read hold no place")
  }).pipe(Effect.scoped)
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

  it.effect("200: lasts no longer than the credential", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const expiresAt = DateTime.formatIso(DateTime.add(yield* DateTime.now, { seconds: 1 }))
      const { key } = yield* makeKey(service, ["audit-logs:read"], { expiresAt })
      const client = yield* follow(service, { key })
      yield* until(client.ended, (end) => end !== undefined)
      assert.strictEqual(client.ended(), "cleanly")
    })
  )

  refuses(
    it,
    each(["x", "-1", "1.5"], (id) => [
      `the id ${id}, which is none`,
      ["GET", path, { headers: { "last-event-id": id } }],
      faults("headers.last-event-id")
    ])
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
