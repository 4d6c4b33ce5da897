import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../../audit/log/domain.ts"
import { InstantFromDate } from "../../../kernel/instant.ts"
import { ApplicationId } from "../../applications/domain.ts"
import { ConfigurationId, NodeType } from "../model/domain.ts"

/** A node that was removed for good. */
export const PurgedNode = Schema.Struct({
  id: ConfigurationId,
  applicationId: ApplicationId,
  parentId: Schema.NullOr(ConfigurationId),
  name: Schema.String,
  type: NodeType,
  version: Schema.NullOr(Schema.Int),
  deletedAt: InstantFromDate
})
export type PurgedNode = typeof PurgedNode.Type

export class SoftDeleteRepository extends Context.Service<SoftDeleteRepository>()(
  "app/applications/SoftDeleteRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const columns = sql.literal("id, application_id, parent_id, name, type, version, deleted_at")
      const deleteOld = SqlSchema.findAll({
        Request: Schema.Struct({ before: Schema.Date, groups: Schema.Int }),
        Result: PurgedNode,
        // Holding the tree, so that no restore and no rollback finds half of it; what others hold is left to the next run.
        execute: ({ before, groups }) => sql`
          DELETE FROM configuration_nodes WHERE deleted_at < ${before} AND deleted_with IN (
            SELECT n.id FROM configuration_nodes n JOIN configuration_trees t ON t.application_id = n.application_id
            WHERE n.deleted_at < ${before} AND n.deleted_with = n.id AND NOT EXISTS (
              SELECT FROM configuration_nodes g JOIN configuration_nodes c ON c.parent_id = g.id
              WHERE g.deleted_at = n.deleted_at AND g.deleted_with = n.id AND c.deleted_with <> n.id)
            ORDER BY n.deleted_at LIMIT ${groups} FOR UPDATE SKIP LOCKED)
          RETURNING ${columns}`
      })
      const deleteOf = SqlSchema.findAll({
        Request: Schema.Int,
        Result: PurgedNode,
        execute: (applicationId) => sql`
          DELETE FROM configuration_nodes WHERE application_id = ${applicationId} AND deleted_at IS NOT NULL
          RETURNING ${columns}`
      })
      return {
        /**
         * Removes up to `groups` nodes that were deleted before a moment, each with what was deleted with it, and after what
         * stood in them but was deleted alone. Where the nodes stood stays known.
         */
        purge: Effect.fn("SoftDeleteRepository.purge")((before: Date, groups: number) =>
          Change.use(() => Effect.orDie(deleteOld({ before, groups })))
        ),
        /** Removes every deleted node of an application, and the memory of where its nodes stood. */
        emptyOf: Effect.fn("SoftDeleteRepository.emptyOf")(function* (applicationId: ApplicationId) {
          yield* Change
          const purged = yield* Effect.orDie(deleteOf(applicationId))
          yield* Effect.orDie(sql`DELETE FROM configuration_placements WHERE application_id = ${applicationId}`)
          return purged
        })
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
