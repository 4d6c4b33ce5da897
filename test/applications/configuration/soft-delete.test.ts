import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Layer, Schema } from "effect"
import { Digest, SecureRandom } from "effect/crypto"
import { AuthCacheInvalidation } from "../../../src/access/auth-cache-invalidation.ts"
import { type ApplicationId } from "../../../src/applications/applications/domain.ts"
import { Applications } from "../../../src/applications/applications/service.ts"
import { Configuration } from "../../../src/applications/configuration/files/service.ts"
import { ConfigurationWatch } from "../../../src/applications/configuration/files/watch.ts"
import { type ConfigurationId } from "../../../src/applications/configuration/model/domain.ts"
import { ConfigurationSoftDelete } from "../../../src/applications/configuration/soft-delete/service.ts"
import { ConfigurationTrees } from "../../../src/applications/configuration/trees/service.ts"
import { asSystem, Audit } from "../../../src/audit/log/service.ts"
import { Notifications } from "../../../src/platform/database/notifications.ts"
import { HandClock, OwnDatabase, poolOnOwnDatabase, realClock } from "../../support/clock.ts"
import { asSuperuser, countOf } from "../../support/statements.ts"

const ServicesLayer = Layer.merge(Configuration.layer, ConfigurationTrees.layer).pipe(
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

const Step = Schema.Struct({
  kind: Schema.Literals([
    "file",
    "folder",
    "folder",
    "delete",
    "delete",
    "restore",
    "move",
    "replace",
    "rollback",
    "rollback"
  ]),
  node: Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 20 }))),
  other: Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 20 })))
})
const Steps = Schema.Array(Step).pipe(Schema.check(Schema.isMinLength(10), Schema.isMaxLength(40)))

let made = 0

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
      yield* configuration.delete(early)
      yield* HandClock.setTime("2026-01-05T00:00:00Z")
      yield* configuration.delete(folder)

      yield* HandClock.setTime("2026-01-31T00:00:00Z")
      assert.strictEqual(yield* softDelete.purge, 0)
      yield* HandClock.setTime("2026-01-31T00:00:00.001Z")
      assert.strictEqual(yield* softDelete.purge, 1)
      yield* configuration.restore(folder)
      yield* configuration.delete(folder)
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
        yield* configuration.move(file, { parentId: folder })
        yield* configuration.delete(file)
        yield* configuration.delete(folder)
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

  it.effect.prop(
    "can be restored or removed, all of it, whatever was deleted, moved, replaced and rolled back before",
    [Steps],
    ([steps]) =>
      Effect.gen(function* () {
        const configuration = yield* Configuration
        const trees = yield* ConfigurationTrees
        const { id: applicationId } = yield* (yield* Applications).create({ name: `Any ${++made}` })
        const folders: Array<ConfigurationId> = []
        const nodes: Array<ConfigurationId> = []
        const start = yield* DateTime.now
        const moments = [start]
        for (const [index, { kind, node, other }] of steps.entries()) {
          yield* HandClock.adjust(1000)
          const parentId = folders[other % (folders.length + 1)] ?? null
          const id = nodes[node % nodes.length]
          if (kind === "rollback") {
            yield* trees.rollback({ applicationId, at: moments[node % moments.length] ?? start })
          } else if (kind === "replace") {
            yield* trees.importAll(applicationId, [], { mode: "replace", dryRun: false, nodesBy: "index" })
          } else if (kind === "file" || kind === "folder") {
            const made = yield* Effect.option(
              configuration.create({ applicationId, name: `${index}`, type: kind, parentId })
            )
            if (made._tag === "None") continue
            nodes.push(made.value.id)
            if (kind === "folder") folders.push(made.value.id)
          } else if (id !== undefined) {
            if (kind === "delete") yield* Effect.ignore(configuration.delete(id))
            if (kind === "restore") yield* Effect.ignore(configuration.restore(id))
            if (kind === "move") yield* Effect.ignore(configuration.move(id, { parentId }))
          }
          moments.push(yield* DateTime.now)
        }
        for (let deleted = yield* configuration.deleted(applicationId); deleted.length > 0;) {
          const restored = yield* Effect.forEach(deleted, ({ id }) => Effect.exit(configuration.restore(id)))
          assert.isTrue(restored.some(({ _tag }) => _tag === "Success"))
          deleted = yield* configuration.deleted(applicationId)
        }
        yield* Effect.forEach(nodes, (id) => configuration.get(id))
        yield* trees.importAll(applicationId, [], { mode: "replace", dryRun: false, nodesBy: "index" })
        yield* HandClock.adjust(31 * 86_400_000)
        assert.strictEqual(yield* (yield* ConfigurationSoftDelete).purge, nodes.length)
      }).pipe(asSystem),
    { arbitrary: { runs: 40 }, timeout: 60_000 }
  )
})
