import { assert, layer } from "@effect/vitest"
import { Effect, Exit, Scope } from "effect"
import { makeKey } from "../../support/authority.ts"
import { makeApplication, makeFile, makeFolder, save } from "../../support/configuration.ts"
import { type EventSource, gaugeIn, listenTo } from "../../support/event-source.ts"
import { serviceLayer, startService, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

const untilEnded = (source: EventSource | undefined) =>
  eventually(
    Effect.sync(() => source?.ended()),
    (end) => end === "cleanly"
  )

const watchers = (service: TestService["Service"]) =>
  Effect.map(service.call("GET", "/metrics"), (metrics) => gaugeIn(metrics, "configuration_watchers"))

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("watching a configuration file", (it) => {
  it.effect("tells the current version at once, then every new one, whichever replica made it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const replica = yield* service.replica
      const id = yield* makeFile(service, yield* makeApplication(service), "a.txt", "1")
      yield* save(service, id, "2")
      const source = yield* listenTo(service, `/api/configuration/${id}/watch`)
      assert.strictEqual(source.status, 200)
      assert.strictEqual(source.headers.get("content-type"), "text/event-stream")
      assert.deepStrictEqual(yield* source.until(1), [
        { id: "2", event: "version", data: { id, version: 2, etag: '"2"' } }
      ])
      yield* save(replica, id, "3")
      yield* source.until(2)
      yield* service.call("POST", `/api/configuration/${id}/rollback`, { body: { version: 1 } })
      const events = yield* source.until(3)
      assert.deepStrictEqual(
        events.map(({ data }) => data.version),
        [2, 3, 4]
      )
      assert.isUndefined(source.ended())
    }).pipe(Effect.scoped)
  )

  it.effect("tells of no version older than the last, in whatever order it hears of them", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const id = yield* makeFile(service, yield* makeApplication(service), "a.txt", "1")
      const source = yield* listenTo(service, `/api/configuration/${id}/watch`)
      yield* source.until(1)
      const messages = [3, 2, 4, 4, 3, 5].map((version) => `configuration_version ${id} ${version}`).join("\n")
      const notify = asSuperuser(service.database, (sql) => sql`SELECT pg_notify('application_manager', ${messages})`)
      yield* eventually(
        Effect.map(notify, () => source.events.length),
        (count) => count >= 4
      )
      assert.deepStrictEqual(
        source.events.map(({ data }) => data.version),
        [1, 3, 4, 5]
      )
    }).pipe(Effect.scoped)
  )

  it.effect("hears of an import and of a rollback of the tree", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const applicationId = yield* makeApplication(service)
      const id = yield* makeFile(service, applicationId, "a.txt", "1")
      const { body: file } = yield* service.call("GET", `/api/configuration/${id}`)
      const source = yield* listenTo(service, `/api/configuration/${id}/watch`)
      yield* source.until(1)
      const nodes = [{ path: "/a.txt", type: "file", content: "2" }]
      yield* service.call("POST", `/api/configuration/import?applicationId=${applicationId}`, { body: { nodes } })
      yield* source.until(2)
      const body = { applicationId, at: file.updatedAt }
      yield* service.call("POST", "/api/configuration/rollback", { body })
      const [, , last] = yield* source.until(3)
      assert.strictEqual(last?.data.version, 3)
    }).pipe(Effect.scoped)
  )

  it.effect("ends cleanly when the file is deleted, with its folder too", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const applicationId = yield* makeApplication(service)
      const parentId = yield* makeFolder(service, applicationId, "etc")
      const id = yield* makeFile(service, applicationId, "a.txt", "1", { parentId })
      const source = yield* listenTo(service, `/api/configuration/${id}/watch`)
      yield* source.until(1)
      yield* service.call("DELETE", `/api/configuration/${parentId}`)
      yield* eventually(Effect.sync(source.ended), (end) => end !== undefined)
      assert.strictEqual(source.ended(), "cleanly")
      assert.lengthOf(source.events, 1)
    }).pipe(Effect.scoped)
  )

  it.effect("ends cleanly when the key is revoked or loses the scope, on whichever replica; others' go on", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const replica = yield* service.replica
      const id = yield* makeFile(service, yield* makeApplication(service), "a.txt", "1")
      const path = `/api/configuration/${id}/watch`
      const [revoked, narrowed, kept] = yield* Effect.all([
        makeKey(service, ["configuration:read"]),
        makeKey(service, ["configuration:read"]),
        makeKey(service, ["configuration:read"])
      ])
      const sources = yield* Effect.forEach([revoked, narrowed, kept], ({ key }) =>
        listenTo(service, path, { "x-api-key": key })
      )
      yield* Effect.forEach(sources, (source) => source.until(1))
      const [first, second, third] = sources
      assert.strictEqual((yield* replica.call("DELETE", `/api/api-keys/${revoked.id}`)).status, 204)
      yield* untilEnded(first)
      assert.isUndefined(second?.ended())
      const body = { scopes: ["trial-users:read"] }
      assert.strictEqual((yield* service.call("PATCH", `/api/api-keys/${narrowed.id}`, { body })).status, 200)
      yield* untilEnded(second)
      yield* save(service, id, "2")
      yield* third?.until(2) ?? Effect.void
      assert.isUndefined(third?.ended())
    }).pipe(Effect.scoped)
  )

  it.effect("a client that vanishes leaves nothing behind", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const id = yield* makeFile(service, yield* makeApplication(service), "a.txt", "1")
      yield* eventually(watchers(service), (count) => count === 0)
      const sources = yield* Effect.forEach(
        Array.from({ length: 20 }),
        () => listenTo(service, `/api/configuration/${id}/watch`),
        { concurrency: "unbounded" }
      )
      yield* Effect.forEach(sources, (source) => source.until(1))
      assert.strictEqual(yield* watchers(service), 20)
      yield* Effect.forEach(sources, (source) => source.leave)
      yield* eventually(watchers(service), (count) => count === 0)
      assert.strictEqual(yield* save(service, id, "2"), 2)
    }).pipe(Effect.scoped)
  )

  it.effect("goes on when the connection that listens is lost", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const id = yield* makeFile(service, yield* makeApplication(service), "a.txt", "1")
      const source = yield* listenTo(service, `/api/configuration/${id}/watch`)
      yield* source.until(1)
      yield* asSuperuser(
        service.database,
        (sql) => sql`
          SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE datname = current_database() AND query LIKE 'LISTEN%'`
      )
      yield* save(service, id, "2")
      const [, second] = yield* source.until(2)
      assert.strictEqual(second?.data.version, 2)
    }).pipe(Effect.scoped)
  )
})

const impatient = serviceLayer({ Api__RequestTimeoutSeconds: "1", Api__ShutdownSeconds: "30" })

layer(impatient, { excludeTestServices: true, timeout: "60 seconds" })("a watch that lasts", (it) => {
  it.effect("is not stopped with the requests that take too long", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const id = yield* makeFile(service, yield* makeApplication(service), "a.txt", "1")
      const source = yield* listenTo(service, `/api/configuration/${id}/watch`)
      yield* source.until(1)
      yield* asSuperuser(service.database, (sql) =>
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`SELECT FROM configuration_nodes WHERE id = ${id} FOR UPDATE`
            // Younger than the watch, and stopped for its age.
            const stopped = yield* service.call("PUT", `/api/configuration/${id}`, { body: { content: "2" } })
            assert.strictEqual(stopped.status, 503)
          })
        )
      )
      assert.isUndefined(source.ended())
      yield* save(service, id, "2")
      assert.strictEqual((yield* source.until(2))[1]?.data.version, 2)
    }).pipe(Effect.scoped)
  )

  it.effect("ends cleanly, and at once, when the process ends", () =>
    Effect.gen(function* () {
      const { database, ...service } = yield* TestService
      const id = yield* makeFile(
        { database, ...service },
        yield* makeApplication({ database, ...service }),
        "a.txt",
        "1"
      )
      const scope = yield* Scope.make()
      const leaving = yield* Scope.provide(startService(database, { Api__ShutdownSeconds: "3600" }), scope)
      const source = yield* listenTo(leaving, `/api/configuration/${id}/watch`)
      yield* source.until(1)
      yield* Scope.close(scope, Exit.void)
      yield* eventually(Effect.sync(source.ended), (end) => end !== undefined)
      assert.strictEqual(source.ended(), "cleanly")
    }).pipe(Effect.scoped)
  )
})
