import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer, Logger, Option, Redacted } from "effect"
import { Digest, SecureRandom } from "effect/crypto"
import { createHash } from "node:crypto"
import { ServiceAccount } from "../../src/access/service-account.ts"
import { Audit } from "../../src/audit/log/service.ts"
import { poolLayer } from "../../src/platform/database/database.ts"
import { Settings } from "../../src/platform/settings/settings.ts"
import { makeDatabase, type TestDatabase } from "../support/database.ts"
import { startServer } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"

const configured = "a-configured-key-of-more-than-32-characters"

/** The service account of a replica that starts on a database; nothing set means Development without a key. */
const start = (
  database: TestDatabase,
  environment: Record<string, string> = {},
  loggers: ReadonlyArray<Logger.Logger<unknown, unknown>> = []
) =>
  Effect.gen(function* () {
    const account = yield* ServiceAccount
    return { owns: account.owns, made: Option.map(yield* account.firstKey, Redacted.value) }
  }).pipe(
    Effect.provide(
      ServiceAccount.layer.pipe(
        Layer.provide(Audit.layer),
        Layer.provide([SecureRandom.layerWebCrypto, Digest.layerWebCrypto]),
        Layer.provide(poolLayer({ connection: database, maxConnections: 2, statementTimeoutSeconds: 30 })),
        Layer.provide(Settings.layerMemory({ environment })),
        Layer.provide(Logger.layer(loggers))
      )
    )
  )

const production = { APP_ENVIRONMENT: "Production" }

const madeKey = (made: Option.Option<string>) => Option.getOrElse(made, () => assert.fail("no key was made"))

const stored = (database: TestDatabase) => asSuperuser(database, (sql) => sql`SELECT name, value FROM installation`)

layer(Layer.empty, { excludeTestServices: true })("the service account's key", (it) => {
  it.effect("Development makes a key at the first start and knows it at every later one", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const first = yield* start(database)
      const key = madeKey(first.made)
      assert.match(key, /^ams_[A-Za-z0-9_-]{43}$/)
      assert.isTrue(yield* first.owns(key))
      const later = yield* start(database)
      assert.isTrue(Option.isNone(later.made))
      assert.isTrue(yield* later.owns(key))
      for (const other of ["", "ams_", key.slice(0, -1), `${key}x`, key.toUpperCase()]) {
        assert.isFalse(yield* later.owns(other), other)
      }
    })
  )

  it.effect("of replicas that start at the same time one makes the key, and all know it", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const replicas = yield* Effect.all(
        Array.from({ length: 4 }, () => start(database)),
        { concurrency: "unbounded" }
      )
      const made = replicas.flatMap((replica) => Option.toArray(replica.made))
      assert.strictEqual(made.length, 1)
      for (const replica of replicas) assert.isTrue(yield* replica.owns(made[0] ?? ""))
    })
  )

  it.effect("only the SHA-256 of the key is stored, and its making is recorded once", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const key = madeKey((yield* start(database)).made)
      yield* start(database)
      const value = createHash("sha256").update(key).digest("hex")
      assert.deepStrictEqual(yield* stored(database), [{ name: "service-account-key", value }])
      const entries = yield* asSuperuser(
        database,
        (sql) => sql`SELECT action_type, entity_type, entity_id, user_id, changes FROM audit_entries`
      )
      assert.deepStrictEqual(entries, [
        {
          action_type: "ServiceAccountKeyCreated",
          entity_type: "Installation",
          entity_id: "service-account",
          user_id: "system",
          changes: null
        }
      ])
    })
  )

  it.effect("the stored digest is no key", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const first = yield* start(database)
      const digest = createHash("sha256").update(madeKey(first.made)).digest()
      for (const form of [digest.toString("hex"), digest.toString("base64url"), digest.toString("latin1")]) {
        assert.isFalse(yield* first.owns(form))
      }
    })
  )

  it.effect("Production makes none, and lets nobody in for it", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const { made, owns } = yield* start(database, production)
      assert.isTrue(Option.isNone(made))
      assert.deepStrictEqual(yield* stored(database), [])
      for (const key of ["", "undefined", "null", configured]) assert.isFalse(yield* owns(key))
    })
  )

  it.effect("Production does not know a key that Development made", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const key = madeKey((yield* start(database)).made)
      assert.isFalse(yield* (yield* start(database, production)).owns(key))
    })
  )

  for (const environment of ["Development", "Production"]) {
    it.effect(`a configured key is taken as it is in ${environment}, and neither made nor stored`, () =>
      Effect.gen(function* () {
        const database = yield* makeDatabase
        const { made, owns } = yield* start(database, { APP_ENVIRONMENT: environment, Api__ApiKey: configured })
        assert.isTrue(Option.isNone(made))
        assert.isTrue(yield* owns(configured))
        assert.isFalse(yield* owns(`${configured} `))
        assert.isFalse(yield* owns(configured.slice(1)))
        assert.deepStrictEqual(yield* stored(database), [])
      })
    )
  }

  it.effect("APPLICATION_MANAGER_API_KEY names the key, too", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const { owns } = yield* start(database, { APPLICATION_MANAGER_API_KEY: configured })
      assert.isTrue(yield* owns(configured))
    })
  )

  it.effect("a configured key takes the place of the one that was made", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const key = madeKey((yield* start(database)).made)
      const { owns } = yield* start(database, { Api__ApiKey: configured })
      assert.isTrue(yield* owns(configured))
      assert.isFalse(yield* owns(key))
    })
  )

  for (const key of ["x", "amk_mine", "!of~any#form,ASCII/that_a+header=takes"]) {
    it.effect(`a configured key has no form imposed on it, such as ${JSON.stringify(key)}`, () =>
      Effect.gen(function* () {
        const { owns } = yield* start(yield* makeDatabase, { Api__ApiKey: key })
        assert.isTrue(yield* owns(key))
      })
    )
  }

  it.effect("a configured key of less than 32 characters warns, without saying it", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const lines: Array<string> = []
      const logger = Logger.map(Logger.formatJson, (line) => void lines.push(line))
      yield* start(database, { Api__ApiKey: "k".repeat(32) }, [logger])
      assert.deepStrictEqual(lines, [])
      yield* start(database, { Api__ApiKey: "k".repeat(31) }, [logger])
      assert.match(lines.join("\n"), /Api:ApiKey.*"WARN"/)
      assert.notInclude(lines.join("\n"), "kkk")
    })
  )
})

layer(Layer.empty, { excludeTestServices: true, timeout: "60 seconds" })(
  "a Development service without a configured key",
  (it) => {
    it.effect("lets in the bearer of no other key, on any replica", () =>
      Effect.gen(function* () {
        const database = yield* makeDatabase
        for (const makes of [true, false]) {
          const { context, service } = yield* startServer(database, { Api__ApiKey: "" })
          const made = yield* Context.get(context, ServiceAccount).firstKey
          assert.strictEqual(Option.isSome(made), makes)
          assert.strictEqual((yield* service.call("GET", "/api/trial-users")).status, 401)
          assert.strictEqual((yield* service.call("GET", "/api/trial-users", { key: null })).status, 401)
        }
        assert.strictEqual((yield* stored(database)).length, 1)
      })
    )

    it.effect("makes none before its start is complete, and knows one that another replica made meanwhile", () =>
      Effect.gen(function* () {
        const database = yield* makeDatabase
        const { context, service } = yield* startServer(database, { Api__ApiKey: "" })
        assert.deepStrictEqual(yield* stored(database), [])
        const key = madeKey((yield* start(database)).made)
        assert.isTrue(Option.isNone(yield* Context.get(context, ServiceAccount).firstKey))
        assert.strictEqual((yield* service.call("GET", "/api/trial-users", { key })).status, 200)
      })
    )
  }
)
