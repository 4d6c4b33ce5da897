import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import { assert, describe, it } from "@effect/vitest"
import { Effect, Exit, Layer, Option, Redacted } from "effect"
import * as fs from "node:fs/promises"
import * as os from "node:os"
import * as path from "node:path"
import { EncryptionKey } from "../../../src/platform/crypto/encryption-key.ts"
import { Sealing } from "../../../src/platform/crypto/sealing.ts"
import { DatabaseConnection } from "../../../src/platform/database/connection.ts"
import { Settings } from "../../../src/platform/settings/settings.ts"

const key = Buffer.alloc(32, 7).toString("base64")
const secret = Redacted.make(new TextEncoder().encode("a private key"))

const temporaryDirectory = Effect.acquireRelease(
  Effect.promise(() => fs.mkdtemp(path.join(os.tmpdir(), "encryption-key-"))),
  (directory) => Effect.promise(() => fs.rm(directory, { recursive: true, force: true }))
)

const surroundings = (environment: Record<string, string>, embeddedIn: Option.Option<string>) =>
  Layer.merge(
    Settings.layerMemory({ environment }),
    Layer.succeed(DatabaseConnection, DatabaseConnection.of({ options: {}, embeddedIn }))
  )

const sealing = (environment: Record<string, string>, embeddedIn: Option.Option<string> = Option.none()) =>
  Effect.provide(Sealing, Sealing.layer.pipe(Layer.provide(surroundings(environment, embeddedIn))))

const encryptionKey = (environment: Record<string, string>, embeddedIn: Option.Option<string> = Option.none()) =>
  Effect.provide(
    Effect.map(EncryptionKey, ({ bytes, source }) => ({
      source,
      text: Buffer.from(Redacted.value(bytes)).toString("base64")
    })),
    EncryptionKey.layer.pipe(
      Layer.provide(surroundings(environment, embeddedIn)),
      Layer.provide(NodeCrypto.layerSecureRandom)
    )
  )

describe("sealing", () => {
  it.effect("a sealed secret opens for its owner, under the same key", () =>
    Effect.gen(function* () {
      const one = yield* sealing({ Security__EncryptionKey: key })
      const sealed = yield* one.seal(secret, "attestation-key:1")
      assert.notInclude(Buffer.from(sealed).toString("latin1"), "a private key")
      const again = yield* sealing({ Security__EncryptionKey: key })
      const opened = yield* again.open(sealed, "attestation-key:1")
      assert.deepStrictEqual(Redacted.value(opened), Redacted.value(secret))
      assert.notInclude(JSON.stringify(opened), "private")
    })
  )

  it.effect("the same secret is sealed differently each time", () =>
    Effect.gen(function* () {
      const { seal } = yield* sealing({ Security__EncryptionKey: key })
      assert.notDeepEqual(yield* seal(secret, "x"), yield* seal(secret, "x"))
    })
  )

  it.effect("it does not open for another owner, under another key, or with a changed byte", () =>
    Effect.gen(function* () {
      const { open, seal } = yield* sealing({ Security__EncryptionKey: key })
      const sealed = yield* seal(secret, "attestation-key:1")
      assert.strictEqual((yield* Effect.flip(open(sealed, "attestation-key:2"))).reason, "damaged")
      const other = yield* sealing({ Security__EncryptionKey: Buffer.alloc(32, 8).toString("base64") })
      assert.strictEqual((yield* Effect.flip(other.open(sealed, "attestation-key:1"))).reason, "other-key")
      for (let at = 0; at < sealed.length; at++) {
        const changed = sealed.with(at, (sealed[at] ?? 0) ^ 1)
        assert.isTrue(Exit.isFailure(yield* Effect.exit(open(changed, "attestation-key:1"))), `byte ${at}`)
      }
      for (let length = 0; length < sealed.length; length++) {
        const cut = sealed.slice(0, length)
        assert.isTrue(Exit.isFailure(yield* Effect.exit(open(cut, "attestation-key:1"))), `${length} bytes`)
      }
    })
  )
})

describe("the encryption key", () => {
  it.effect("is the one that is set", () =>
    Effect.gen(function* () {
      const found = yield* encryptionKey({ Security__EncryptionKey: key })
      assert.deepStrictEqual(found, { text: key, source: "environment Security__EncryptionKey" })
    })
  )

  for (const environment of ["Development", "Production"]) {
    it.effect(`is made once beside the embedded database in ${environment}, for nobody else to read`, () =>
      Effect.gen(function* () {
        const directory = yield* temporaryDirectory
        const make = encryptionKey({ APP_ENVIRONMENT: environment }, Option.some(directory))
        const made = yield* Effect.all(
          Array.from({ length: 4 }, () => make),
          { concurrency: "unbounded" }
        )
        const texts = made.map(({ text }) => text)
        assert.strictEqual(new Set(texts).size, 1)
        const { mode } = yield* Effect.promise(() => fs.stat(path.join(directory, "encryption.key")))
        assert.strictEqual(mode & 0o777, 0o600)
        assert.deepStrictEqual(yield* Effect.promise(() => fs.readdir(directory)), ["encryption.key"])
        assert.deepStrictEqual(yield* make, { text: texts[0], source: path.join(directory, "encryption.key") })
      })
    )
  }

  it.effect("is required in Production with an external database, by its name", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(encryptionKey({ APP_ENVIRONMENT: "Production" }))
      assert.include(error.message, "Security:EncryptionKey")
      assert.strictEqual(error._tag, "SettingsError")
    })
  )

  it.effect("that cannot be read stops the start, naming the file", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      yield* Effect.promise(() => fs.writeFile(path.join(directory, "encryption.key"), "too short"))
      const error = yield* Effect.flip(encryptionKey({}, Option.some(directory)))
      assert.include(error.message, path.join(directory, "encryption.key"))
    })
  )
})
