import * as NodeServices from "@effect/platform-node/NodeServices"
import { PgClient, PgMigrator } from "@effect/sql-pg"
import { Data, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import * as MigratorFileSystem from "effect/sql/MigratorFileSystem"
import { fileURLToPath } from "node:url"

/** The role that the pool runs as; made by the first migration, without login, ownership or the right to bypass policies. */
export const applicationRole = "application_manager"

/** The user that the service connects as may not run as {@link applicationRole}. */
export class RoleNotGranted extends Data.TaggedError("RoleNotGranted")<{ readonly user: string }> {
  override get message() {
    return `The database user ${this.user} (Database:Url) is no member of the role that the service runs as. Let an administrator run: GRANT ${applicationRole} TO ${this.user};`
  }
}

const loader = MigratorFileSystem.fromFileSystem(fileURLToPath(new URL("../../../migrations", import.meta.url)))

/** Applies what is missing, under a table lock that any number of replicas may wait for; answers what was applied. */
export const migrate = (connection: PgClient.PgClientConfig) =>
  Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    yield* sql`SET lock_timeout = '60s'`
    const applied = yield* PgMigrator.run({ loader })
    // A role belongs to all databases of a server, so another one's owner may have made it.
    const { isMember, name } = yield* SqlSchema.findOne({
      Request: Schema.String,
      Result: Schema.Struct({ name: Schema.String, isMember: Schema.Boolean }),
      execute: (role) =>
        sql`SELECT current_user::text AS name, pg_has_role(current_user, ${role}, 'MEMBER') AS "isMember"`
    })(applicationRole)
    if (!isMember) return yield* new RoleNotGranted({ user: name })
    return applied
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
