import { assert, layer } from "@effect/vitest"
import { Array, Effect, Fiber } from "effect"
import { makeKey } from "../../support/authority.ts"
import { makeApplication, makeFile, makeFolder, save, treePaths } from "../../support/configuration.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { untilBlocked } from "../../support/waiting.ts"
import { nextLink } from "../../support/walk.ts"

/** What waits for a lock keeps its connection. */
const severalConnections = serviceLayer({ Database__MaxConnections: "10" })

layer(severalConnections, { excludeTestServices: true, timeout: "60 seconds" })("configuration at once", (it) => {
  it.effect("a hundred saves of one file, over two replicas, are versions without a hole", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const replica = yield* service.replica
      const id = yield* makeFile(service, yield* makeApplication(service), "a.txt", "0")
      const versions = yield* Effect.forEach(
        Array.range(1, 100),
        (index) => save(index % 2 === 0 ? service : replica, id, `content ${index}`),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(
        versions.toSorted((a, b) => a - b),
        Array.range(2, 101)
      )
      const page = yield* service.call("GET", `/api/configuration/${id}/versions`)
      assert.lengthOf(page.body, 100)
      assert.isDefined(nextLink(page))
      const { body } = yield* service.call("GET", `/api/configuration/${id}/versions?limit=1000`)
      const listed: ReadonlyArray<{ content: string; createdAt: string; version: number }> = body
      assert.deepStrictEqual(
        listed.map(({ version }) => version),
        Array.range(1, 101).toReversed()
      )
      assert.lengthOf(new Set(listed.map(({ content }) => content)), 101)
      const moments = listed.map(({ createdAt }) => createdAt).toReversed()
      assert.deepStrictEqual(moments, moments.toSorted())
    }).pipe(Effect.scoped)
  )

  it.effect("of twenty saves from one version on, one is made", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const id = yield* makeFile(service, yield* makeApplication(service), "a.txt", "0")
      const answers = yield* Effect.forEach(
        Array.range(1, 20),
        (index) =>
          service.call("PUT", `/api/configuration/${id}`, {
            body: { content: String(index) },
            headers: { "if-match": '"1"' }
          }),
        { concurrency: "unbounded" }
      )
      assert.lengthOf(
        answers.filter(({ status }) => status === 200),
        1
      )
      assert.lengthOf(
        answers.filter(({ status }) => status === 412),
        19
      )
    })
  )

  it.effect("saves that go together are each their own: whose they are, and who waits for whom", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const applicationId = yield* makeApplication(service)
      const keys = yield* Effect.forEach(["configuration:*", "configuration:write"], (scope) =>
        makeKey(service, [scope])
      )
      const ids = yield* Effect.forEach(Array.range(1, 20), (index) =>
        makeFile(service, applicationId, `${index}.txt`, "")
      )
      const [locked = 0, ...free] = ids
      const saves = (ids: ReadonlyArray<number>) =>
        Effect.forEach(
          [...ids, ...ids].flatMap((id) => keys.map(({ key }) => ({ id, key }))),
          ({ id, key }) => service.call("PUT", `/api/configuration/${id}`, { key, body: { content: `${id} ${key}` } }),
          { concurrency: "unbounded" }
        )
      const waiting = yield* asSuperuser(service.database, (sql) =>
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`SELECT FROM configuration_nodes WHERE id = ${locked} FOR UPDATE`
            const waiting = yield* Effect.forkDetach(saves([locked]), { startImmediately: true })
            yield* untilBlocked(sql)
            for (const { status, text } of yield* saves(free)) assert.strictEqual(status, 200, text)
            return waiting
          })
        )
      )
      for (const { status, text } of yield* Fiber.join(waiting)) assert.strictEqual(status, 200, text)
      for (const id of ids) {
        const { body } = yield* service.call("GET", `/api/configuration/${id}/versions`)
        const versions: ReadonlyArray<{ content: string; createdBy: string; version: number }> = body
        const saved = versions.filter(({ version }) => version > 1)
        assert.sameMembers(
          saved.map(({ content, createdBy }) => `${createdBy} ${content}`),
          [...keys, ...keys].map((key) => `api-key:${key.id} ${id} ${key.key}`)
        )
        const log = yield* service.call("GET", `/api/audit-logs?actionType=ConfigurationUpdated&entityId=${id}`)
        const entries = log.body.items
        assert.sameMembers(
          entries.map(({ actorType, ipAddress, userId }) => `${actorType} ${userId} ${ipAddress}`),
          saved.map(({ createdBy }) => `api-key ${createdBy} 127.0.0.1`)
        )
        assert.lengthOf(new Set(entries.map(({ traceId }) => traceId)), saved.length)
      }
    })
  )

  it.effect("a folder and what is made in it while it is deleted are both there or both gone", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const applicationId = yield* makeApplication(service)
      for (let round = 0; round < 10; round++) {
        const folder = yield* makeFolder(service, applicationId, `folder ${round}`)
        const body = { applicationId, parentId: folder, name: "a.txt", type: "file", content: "" }
        const [deleted, made] = yield* Effect.all(
          [
            service.call("DELETE", `/api/configuration/${folder}`),
            service.call("POST", "/api/configuration", { body })
          ],
          { concurrency: "unbounded" }
        )
        assert.strictEqual(deleted.status, 204)
        assert.include([201, 409], made.status)
      }
      assert.deepStrictEqual(yield* treePaths(service, applicationId), [])
    })
  )

  it.effect("changes that wait for a lock of their tree or file leave the connections of a replica to others", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const applicationId = yield* makeApplication(service)
      const id = yield* makeFile(service, applicationId, "a.txt", "")
      const many = Array.range(1, 15)
      const changes = [
        ...many.map((index) =>
          service.call("POST", "/api/configuration", {
            body: { applicationId, name: `${index}`, type: "file", content: "" }
          })
        ),
        ...many.map((index) => service.call("PUT", `/api/configuration/${id}`, { body: { content: `${index}` } }))
      ]
      const waiting = yield* asSuperuser(service.database, (sql) =>
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`SELECT FROM configuration_trees WHERE application_id = ${applicationId} FOR UPDATE`
            yield* sql`SELECT FROM configuration_nodes WHERE id = ${id} FOR UPDATE`
            const waiting = yield* Effect.forkDetach(Effect.all(changes, { concurrency: "unbounded" }), {
              startImmediately: true
            })
            yield* untilBlocked(sql, 2)
            for (const _ of many) yield* makeFile(service, yield* makeApplication(service), "b.txt", "")
            return waiting
          })
        )
      )
      for (const { status, text } of yield* Fiber.join(waiting)) assert.include([200, 201], status, text)
    })
  )
})
