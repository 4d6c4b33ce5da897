import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { Digest, SecureRandom } from "effect/crypto"
import { AuthCacheInvalidation } from "../../../src/access/auth-cache-invalidation.ts"
import { type ApplicationId } from "../../../src/applications/applications/domain.ts"
import { Applications } from "../../../src/applications/applications/service.ts"
import { asSystem, Audit } from "../../../src/audit/log/service.ts"
import { type ConfigurationId } from "../../../src/applications/configuration/model/domain.ts"
import { Configuration } from "../../../src/applications/configuration/files/service.ts"
import { ConfigurationSoftDelete } from "../../../src/applications/configuration/soft-delete/service.ts"
import { ConfigurationWatch } from "../../../src/applications/configuration/files/watch.ts"
import { Notifications } from "../../../src/platform/database/notifications.ts"
import { HandClock, OwnDatabase, poolOnOwnDatabase, realClock } from "../../support/clock.ts"
import { asSuperuser, countOf } from "../../support/statements.ts"

const ServicesLayer = Configuration.layer.pipe(
  Layer.provide(ConfigurationWatch.layer),
  Layer.provideMerge(Applications.layer),
  Layer.provideMerge(ConfigurationSoftDelete.layer),
  Layer.provideMerge(Audit.layer),
  Layer.provide(AuthCacheInvalidation.layer),
  Layer.provide(Notifications.layer.pipe(Layer.provide(realClock))),
  Layer.provide([SecureRandom.layerWebCrypto, Digest.layerWebCrypto]),
  Layer.provideMerge(poolOnOwnDatabase),
  Layer.provideMerge(HandClock.layer)
)

const makeFile = Effect.fnUntraced(function* (
  applicationId: ApplicationId,
  name: string,
  parentId: ConfigurationId | null = null
) {
  const configuration = yield* Configuration
  return (yield* configuration.create({ applicationId, name, type: "file", content: "kept", parentId })).id
})

layer(ServicesLayer, { timeout: "60 seconds" })("deleted configuration", (it) => {
  it.effect("is there for 30 days, and is then removed for good with its versions, as the audit log says", () =>
    Effect.gen(function* () {
      const audit = yield* Audit
      const configuration = yield* Configuration
      const softDelete = yield* ConfigurationSoftDelete
      const database = yield* OwnDatabase
      yield* HandClock.setTime("2026-01-01T00:00:00Z")
      const { id: applicationId } = yield* (yield* Applications).create({ name: "Shop" })
      const folder = (yield* configuration.create({ applicationId, name: "etc", type: "folder" })).id
      const early = yield* makeFile(applicationId, "early.txt", folder)
      yield* makeFile(applicationId, "late.txt", folder)
      yield* makeFile(applicationId, "stays.txt")
      yield* configuration.delete(early, undefined)
      yield* HandClock.setTime("2026-01-05T00:00:00Z")
      yield* configuration.delete(folder, undefined)

      yield* HandClock.setTime("2026-01-31T00:00:00Z")
      assert.strictEqual(yield* softDelete.purge, 0)
      yield* HandClock.setTime("2026-01-31T00:00:00.001Z")
      assert.strictEqual(yield* softDelete.purge, 1)
      yield* configuration.restore(folder)
      yield* configuration.delete(folder, undefined)
      yield* HandClock.setTime("2026-03-02T00:00:00.001Z")
      assert.strictEqual(yield* softDelete.purge, 0)
      yield* HandClock.setTime("2026-03-03T00:00:00Z")
      assert.strictEqual(yield* softDelete.purge, 2)
      assert.strictEqual(yield* softDelete.purge, 0)

      assert.strictEqual(yield* countOf(database, "configuration_nodes"), 1)
      assert.strictEqual(yield* countOf(database, "configuration_versions"), 1)
      const { items } = yield* audit.list({ actionType: "ConfigurationPurged" }, undefined, 10)
      assert.lengthOf(items, 3)
      assert.isTrue(items.every(({ userId }) => userId === "system"))
      const refused = yield* Effect.flip(configuration.restore(folder))
      assert.strictEqual(refused._tag, "ConfigurationNotFound")
    }).pipe(asSystem)
  )

  it.effect("is removed however much there is, what stood in a folder first, once nobody holds the tree", () =>
    Effect.gen(function* () {
      const configuration = yield* Configuration
      const softDelete = yield* ConfigurationSoftDelete
      const database = yield* OwnDatabase
      yield* HandClock.setTime("2026-04-01T00:00:00Z")
      const { id: applicationId } = yield* (yield* Applications).create({ name: "Full" })
      for (let index = 0; index < 30; index++) {
        const folder = (yield* configuration.create({ applicationId, name: `${index}`, type: "folder" })).id
        const file = yield* makeFile(applicationId, "a.txt")
        yield* configuration.move(file, { parentId: folder }, undefined)
        yield* configuration.delete(file, undefined)
        yield* configuration.delete(folder, undefined)
      }
      yield* HandClock.setTime("2026-05-02T00:00:00Z")
      yield* asSuperuser(database, (sql) =>
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`SELECT FROM configuration_trees WHERE application_id = ${applicationId} FOR UPDATE`
            assert.strictEqual(yield* softDelete.purge, 0)
          })
        )
      )
      assert.strictEqual(yield* softDelete.purge, 60)
    }).pipe(asSystem)
  )
})
