import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit } from "effect"
import { SettingsError } from "../../../src/platform/settings/settings-reader.ts"
import { untilAllLinked, writeEntries } from "../../support/chain.ts"
import { makeDatabase, type TestDatabase } from "../../support/database.ts"
import { startService, type TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

const other = { Security__EncryptionKey: Buffer.alloc(32, 9).toString("base64") }

/** A log of many entries in a database that a service has signed it in. */
const signedLog = Effect.gen(function* () {
  const database = yield* makeDatabase
  yield* Effect.scoped(Effect.flatMap(startService(database), (service) => signed(service, 1)))
  return database
})

/** Waits until there are so many signing keys that have signed something. */
const signed = ({ call, database }: TestService["Service"], keys: number) =>
  Effect.andThen(
    untilAllLinked(database),
    eventually(
      call("GET", "/api/audit-logs/checkpoints?limit=200"),
      ({ body }) => new Set(body.items.map(({ keyId }: { readonly keyId: string }) => keyId)).size === keys
    )
  )

const keysOf = (database: TestDatabase) =>
  asSuperuser(
    database,
    (sql) =>
      sql<{
        readonly status: string
      }>`SELECT status FROM attestation_keys WHERE purpose NOT LIKE '%token%' ORDER BY created_at`
  )

const faultOf = (exit: Exit.Exit<unknown, unknown>) => {
  const error = Exit.isFailure(exit) ? exit.cause.reasons.find((reason) => reason._tag === "Fail")?.error : undefined
  return error instanceof SettingsError && error.faults[0] !== undefined ? error.faults[0] : assert.fail(String(error))
}

describe("a service under another encryption key", { timeout: 60_000 }, () => {
  it.live("does not start where something was sealed under the first one, and says which setting is wrong", () =>
    Effect.gen(function* () {
      const database = yield* signedLog
      const fault = faultOf(yield* Effect.exit(Effect.scoped(startService(database, other))))
      assert.deepInclude(fault, {
        name: "Security:EncryptionKey",
        source: "environment Security__EncryptionKey"
      })
      assert.deepStrictEqual(yield* keysOf(database), [{ status: "active" }])
      const again = yield* startService(database)
      assert.isTrue((yield* again.call("GET", "/api/audit-logs/verify")).body.ok)
    })
  )

  it.live("does not start either where what was sealed is damaged", () =>
    Effect.gen(function* () {
      const database = yield* signedLog
      yield* asSuperuser(
        database,
        (sql) => sql`
          UPDATE attestation_keys SET sealed_private_key = set_byte(sealed_private_key, 60,
            (get_byte(sealed_private_key, 60) + 1) % 256)`
      )
      assert.strictEqual(
        faultOf(yield* Effect.exit(Effect.scoped(startService(database)))).name,
        "Security:EncryptionKey"
      )
    })
  )

  it.live("gives up what it cannot open when told to: another key signs on, and what was signed stands", () =>
    Effect.gen(function* () {
      const database = yield* signedLog
      const service = yield* startService(database, { ...other, Security__AcceptLostKey: "true" })
      yield* asSuperuser(database, (sql) => writeEntries(sql, 1000))
      yield* signed(service, 2)
      assert.deepStrictEqual(yield* keysOf(database), [{ status: "retired" }, { status: "active" }])
      const { body } = yield* service.call("GET", "/api/audit-logs/verify")
      assert.deepInclude(body, { ok: true, firstBad: null })
      const entries = yield* service.call("GET", "/api/audit-logs?actionType=AttestationKeyRetired")
      assert.isNotEmpty(entries.body.items)
      const { keys } = (yield* service.call("GET", "/.well-known/attestation-keys.json", { key: null })).body
      assert.isAtLeast(keys.length, 2)
      const third = yield* startService(database, other)
      assert.isTrue((yield* third.call("GET", "/api/audit-logs/verify")).body.ok)
    })
  )
})
