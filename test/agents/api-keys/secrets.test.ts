import { assert, layer } from "@effect/vitest"
import { Effect, Layer, Logger, References } from "effect"
import { makeDatabase, type TestDatabase } from "../../support/database.ts"
import { startService, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

const path = "/api/api-keys"
const lines: Array<string> = []
const logger = Logger.map(Logger.formatJson, (line) => void lines.push(line))

const LoggedService = Layer.effect(
  TestService,
  Effect.flatMap(makeDatabase, (database) => Effect.orDie(startService(database, {}, [logger])))
).pipe(Layer.provide(Layer.succeed(References.MinimumLogLevel, "All")))

/** Every row of every table as text. */
const dump = (database: TestDatabase) =>
  asSuperuser(database, (sql) =>
    Effect.gen(function* () {
      const tables = yield* sql<{ readonly name: string }>`
        SELECT format('%I.%I', schemaname, tablename) AS name FROM pg_tables
        WHERE schemaname NOT IN ('pg_catalog', 'information_schema')`
      const texts = yield* Effect.forEach(tables, ({ name }) =>
        Effect.map(sql<{ readonly text: string }>`SELECT t::text AS text FROM ${sql.literal(name)} t`, (rows) =>
          rows.map((row) => row.text)
        )
      )
      return texts.flat().join("\n")
    })
  )

/** Asserts that a text has the secret of a key in none of the forms that it may have been written in. */
const assertWithoutSecret = (text: string, key: string) => {
  const secret = key.slice(16, 59)
  for (const part of [secret, key.slice(16), key.slice(4)]) {
    const bytes = Buffer.from(part)
    for (const form of [part, bytes.toString("hex"), bytes.toString("base64").replaceAll("=", "").slice(0, -1)]) {
      assert.isFalse(text.toLowerCase().includes(form.toLowerCase()), "the secret is in it")
    }
  }
}

layer(LoggedService, { excludeTestServices: true, timeout: "60 seconds" })("the secret of an API key", (it) => {
  it.effect("is in the answer that made it and in no other, nor in the database, nor in the log", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const body = { name: "a key", scopes: ["*:*"] }
      const headers = { "idempotency-key": "made once" }
      const created = yield* service.call("POST", path, { body, headers })
      const { id, key } = created.body
      const rotation = { body: {}, headers: { "idempotency-key": "rotated once" } }
      const rotated = yield* service.call("POST", `${path}/${id}/rotate`, rotation)
      const keys: ReadonlyArray<string> = [key, rotated.body.key]
      assertWithoutSecret(rotated.text, key)

      const replayed = [
        yield* service.call("POST", path, { body, headers }),
        yield* service.call("POST", `${path}/${id}/rotate`, rotation)
      ]
      for (const answer of replayed) {
        assert.strictEqual(answer.status, 201)
        assert.strictEqual(answer.headers.get("idempotency-replayed"), "true")
      }
      const audit = yield* service.call("GET", "/api/audit-logs?entityType=ApiKey", { key })
      const entries: ReadonlyArray<{ readonly id: string }> = audit.body.items
      const details = yield* Effect.forEach(entries, (entry) => service.call("GET", `/api/audit-logs/${entry.id}`))
      assert.isAtLeast(details.length, 2)
      const answers = [
        ...replayed,
        audit,
        ...details,
        yield* service.call("GET", path, { key: rotated.body.key }),
        yield* service.call("GET", `${path}/${id}`, { key }),
        yield* service.call("PATCH", `${path}/${id}`, { key, body: { name: "renamed" } }),
        yield* service.call("POST", path, { key, body: { name: "", scopes: [key] } }),
        yield* service.call("GET", `${path}?cursor=${key}`, { key }),
        yield* service.call("DELETE", `${path}/${id}`, { key }),
        yield* service.call("GET", path, { key })
      ]
      const stored = yield* dump(service.database)
      for (const secret of keys) {
        for (const answer of answers) {
          assertWithoutSecret(answer.text + JSON.stringify([...answer.headers]), secret)
        }
        assertWithoutSecret(stored, secret)
        assertWithoutSecret(lines.join("\n"), secret)
        assert.include(stored, secret.slice(4, 16))
      }
      assert.notInclude(stored, service.serviceKey)
    })
  )

  it.effect("is not in the log of a request that failed", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { body } = yield* service.call("POST", path, { body: { name: "a key", scopes: ["*:*"] } })
      yield* asSuperuser(service.database, (sql) => sql`ALTER TABLE trial_users RENAME TO trial_users_away`)
      const failed = yield* service.call("GET", "/api/trial-users?active=true", { key: body.key })
      yield* asSuperuser(service.database, (sql) => sql`ALTER TABLE trial_users_away RENAME TO trial_users`)
      assert.strictEqual(failed.status, 500)
      const log = lines.join("\n")
      assert.include(log, failed.body.traceId)
      assertWithoutSecret(log, body.key)
      assert.notInclude(log, service.serviceKey)
    })
  )
})
