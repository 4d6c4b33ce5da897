import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../../audit/log/domain.ts"
import { ConfigurationId, ConfigurationNameTaken } from "./domain.ts"
import {
  type NewNode,
  type Placement,
  type Stamp,
  type StoredContent,
  writtenColumns,
  WrittenNode
} from "./row-domain.ts"

/** Inserts, moves, deletes and restores nodes of the tree. */
export class PlacementRepository extends Context.Service<PlacementRepository>()(
  "app/applications/PlacementRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const written = sql.literal(writtenColumns)
      const IdAndStamp = Schema.Struct({ id: ConfigurationId, at: Schema.Date, by: Schema.String })

      const insertNode = SqlSchema.findOne({
        Request: Schema.Struct({
          applicationId: Schema.Int,
          parentId: Schema.NullOr(Schema.Int),
          name: Schema.String,
          type: Schema.String,
          schemaId: Schema.NullOr(Schema.Int),
          content: Schema.NullOr(Schema.String),
          size: Schema.NullOr(Schema.Int),
          sha256: Schema.NullOr(Schema.Uint8Array),
          at: Schema.Date,
          by: Schema.String
        }),
        Result: Schema.Struct({ id: ConfigurationId }),
        execute: ({ applicationId, at, by, content, name, parentId, schemaId, sha256, size, type }) => sql`
          WITH made AS (
            INSERT INTO configuration_nodes (application_id, parent_id, name, type, schema_id, version, size, sha256,
              created_at, created_by, updated_at, updated_by, placed_at)
            VALUES (${applicationId}, ${parentId}::integer, ${name}, ${type}, ${schemaId}::integer,
              ${content === null ? null : 1}::integer, ${size}::integer, ${sha256}::bytea, ${at}, ${by}, ${at}, ${by}, ${at})
            RETURNING id, version, size, sha256, created_at, created_by
          ), kept AS (
            INSERT INTO configuration_versions (node_id, version, content, size, sha256, created_at, created_by)
            SELECT id, version, ${content}::text, size, sha256, created_at, created_by FROM made
            WHERE version IS NOT NULL
          )
          SELECT id FROM made`
      })
      const deleteAll = SqlSchema.findAll({
        Request: Schema.Struct({ ...IdAndStamp.fields, ids: Schema.Array(ConfigurationId) }),
        Result: WrittenNode,
        execute: ({ at, by, id, ids }) =>
          sql`
          UPDATE configuration_nodes n SET deleted_at = ${at}, deleted_by = ${by}, deleted_with = ${id},
            updated_at = greatest(n.updated_at, ${at}), updated_by = ${by}, placed_at = ${at}
          WHERE n.id = ANY(${ids}::integer[]) RETURNING ${written}`.unprepared
      })
      const restoreDeleted = SqlSchema.findAll({
        Request: IdAndStamp,
        Result: WrittenNode,
        execute: ({ at, by, id }) =>
          sql`
          UPDATE configuration_nodes n SET deleted_at = NULL, deleted_by = NULL, deleted_with = NULL,
            updated_at = greatest(n.updated_at, ${at}), updated_by = ${by}, placed_at = ${at}
          WHERE n.deleted_at = (SELECT deleted_at FROM configuration_nodes WHERE id = ${id}) AND n.deleted_with = ${id}
          RETURNING ${written}`.unprepared
      })

      const nameTaken = <A, R>(effect: Effect.Effect<A, Effect.Error<ReturnType<typeof insertNode>>, R>) =>
        Change.use(() =>
          effect.pipe(
            Effect.catchReason("SqlError", "UniqueViolation", (reason) =>
              reason.constraint === "configuration_nodes_name" ? new ConfigurationNameTaken({}) : Effect.die(reason)
            ),
            Effect.catchTags({ SqlError: Effect.die, SchemaError: Effect.die, NoSuchElementError: Effect.die })
          )
        )

      return {
        insert: Effect.fn("PlacementRepository.insert")((node: NewNode, content: StoredContent | null, stamp: Stamp) =>
          nameTaken(
            insertNode({
              ...node,
              content: content?.content ?? null,
              size: content?.size ?? null,
              sha256: content?.sha256 ?? null,
              ...stamp
            })
          ).pipe(Effect.map(({ id }) => id))
        ),
        place: Effect.fn("PlacementRepository.place")(
          (id: ConfigurationId, { name, parentId, schemaId }: Placement, { at, by }: Stamp) =>
            nameTaken(sql`
            UPDATE configuration_nodes SET name = ${name}, parent_id = ${parentId}::integer,
              schema_id = ${schemaId}::integer, updated_at = greatest(updated_at, ${at}), updated_by = ${by},
              placed_at = ${at}
            WHERE id = ${id}`).pipe(Effect.asVoid)
        ),
        /** Marks nodes as deleted with one of them; answers all. */
        delete: Effect.fn("PlacementRepository.delete")(
          (id: ConfigurationId, ids: ReadonlyArray<ConfigurationId>, stamp: Stamp) =>
            Change.use(() => Effect.orDie(deleteAll({ id, ids, ...stamp })))
        ),
        /** Brings back a node and what was deleted with it; answers all of them. */
        restore: Effect.fn("PlacementRepository.restore")((id: ConfigurationId, stamp: Stamp) =>
          nameTaken(restoreDeleted({ id, ...stamp }))
        )
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}
