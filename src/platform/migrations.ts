import * as NodeServices from "@effect/platform-node/NodeServices"
import { PgClient, PgMigrator } from "@effect/sql-pg"
import { Effect, Layer } from "effect"
import { SqlClient } from "effect/sql"
import * as MigratorFileSystem from "effect/sql/MigratorFileSystem"
import { fileURLToPath } from "node:url"

/** The role that the pool runs as; made by the first migration, without login, ownership or the right to bypass policies. */
export const applicationRole = "application_manager"

const loader = MigratorFileSystem.fromFileSystem(fileURLToPath(new URL("../../migrations", import.meta.url)))

/** Applies what is missing, under a table lock that any number of replicas may wait for; answers what was applied. */
export const migrate = (connection: PgClient.PgClientConfig) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`SET lock_timeout = '60s'`
    return yield* PgMigrator.run({ loader })
  }).pipe(
    Effect.provide(
      PgClient.layer({ ...connection, applicationName: "application-manager-migrations", maxConnections: 1 }).pipe(
        Layer.provideMerge(NodeServices.layer)
      )
    ),
    Effect.withSpan("Migrations.migrate")
  )

/** The number of the newest migration that this build carries. */
export const latestMigration = loader.pipe(
  Effect.map((migrations) => Math.max(0, ...migrations.map(([id]) => id))),
  Effect.orDie,
  Effect.provide(NodeServices.layer)
)
