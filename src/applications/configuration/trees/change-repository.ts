import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../../audit/log/domain.ts"
import { type ApplicationId } from "../../applications/domain.ts"
import { ConfigurationId } from "../model/domain.ts"
import {
  inBatchesOf,
  type NewTreeNode,
  type Placing,
  type Stamp,
  type StoredContent,
  type VersionOf,
  WrittenNode,
  writtenColumns
} from "../model/row-domain.ts"

const hex = (bytes: Uint8Array): string => Buffer.from(bytes).toString("hex")

/**
 * What is written of a whole tree at once. A tree may be a thousand times as large as when a statement was last planned, so
 * these statements are planned each time.
 */
export class TreeChangeRepository extends Context.Service<TreeChangeRepository>()(
  "app/applications/TreeChangeRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const written = sql.literal(writtenColumns)
      const NullableId = Schema.NullOr(ConfigurationId)
      const Stamped = { at: Schema.Date, by: Schema.String }
      const JsonText = Schema.fromJsonString(Schema.Unknown)
      const placeAll = SqlSchema.findAll({
        Request: Schema.Struct({ placings: JsonText, ...Stamped }),
        Result: WrittenNode,
        execute: ({ at, by, placings }) =>
          sql`
          UPDATE configuration_nodes n SET parent_id = r."parentId", name = r.name, schema_id = r."schemaId",
            deleted_at = CASE WHEN r."deletedWith" IS NULL THEN NULL ELSE ${at}::timestamptz END,
            deleted_by = CASE WHEN r."deletedWith" IS NULL THEN NULL ELSE ${by}::text END,
            deleted_with = r."deletedWith",
            updated_at = greatest(n.updated_at, ${at}), updated_by = ${by}, placed_at = ${at}
          FROM json_to_recordset(${placings}::json) AS r(
            id integer, "parentId" integer, name text, "schemaId" integer, "deletedWith" integer)
          WHERE n.id = r.id RETURNING ${written}`.unprepared
      })
      const addAll = SqlSchema.findAll({
        Request: Schema.Struct({ contents: JsonText, ...Stamped }),
        Result: WrittenNode,
        execute: ({ at, by, contents }) =>
          sql`
          WITH r AS (
            SELECT id, content, size, decode(sha256, 'hex') AS sha256
            FROM json_to_recordset(${contents}::json) AS r(id integer, content text, size integer, sha256 text)
          ), n AS (
            UPDATE configuration_nodes n SET version = n.version + 1, size = r.size, sha256 = r.sha256,
              updated_at = greatest(n.updated_at, ${at}), updated_by = ${by}
            FROM r WHERE n.id = r.id RETURNING n.*
          ), kept AS (
            INSERT INTO configuration_versions (node_id, version, content, size, sha256, created_at, created_by)
            SELECT n.id, n.version, r.content, r.size, r.sha256, n.updated_at, n.updated_by FROM n JOIN r ON r.id = n.id
          )
          SELECT ${written} FROM n`.unprepared
      })
      const takeAllBack = SqlSchema.findAll({
        Request: Schema.Struct({ ids: Schema.Array(ConfigurationId), versions: Schema.Array(Schema.Int), ...Stamped }),
        Result: WrittenNode,
        execute: ({ at, by, ids, versions }) =>
          sql`
          WITH r AS (
            SELECT v.* FROM unnest(${ids}::integer[], ${versions}::integer[]) AS wanted(id, version)
            JOIN configuration_versions v ON v.node_id = wanted.id AND v.version = wanted.version
          ), n AS (
            UPDATE configuration_nodes n SET version = n.version + 1, size = r.size, sha256 = r.sha256,
              updated_at = greatest(n.updated_at, ${at}), updated_by = ${by}
            FROM r WHERE n.id = r.node_id RETURNING n.*
          ), kept AS (
            INSERT INTO configuration_versions
              (node_id, version, content, size, sha256, restored_from, created_at, created_by)
            SELECT n.id, n.version, r.content, r.size, r.sha256, r.version, n.updated_at, n.updated_by
            FROM n JOIN r ON r.node_id = n.id
          )
          SELECT ${written} FROM n`.unprepared
      })
      const bindAll = SqlSchema.findAll({
        Request: Schema.Struct({
          ids: Schema.Array(ConfigurationId),
          schemaIds: Schema.Array(NullableId),
          ...Stamped
        }),
        Result: WrittenNode,
        execute: ({ at, by, ids, schemaIds }) =>
          sql`
          UPDATE configuration_nodes n SET schema_id = r.schema_id, updated_at = greatest(n.updated_at, ${at}),
            updated_by = ${by}, placed_at = ${at}
          FROM unnest(${ids}::integer[], ${schemaIds}::integer[]) AS r(id, schema_id)
          WHERE n.id = r.id RETURNING ${written}`.unprepared
      })
      const insertAll = SqlSchema.findAll({
        Request: Schema.Struct({ applicationId: Schema.Int, nodes: JsonText, ...Stamped }),
        Result: WrittenNode,
        // The name is unique within its parent, so it also finds the content of each row.
        execute: ({ applicationId, at, by, nodes }) =>
          sql`
          WITH r AS (
            SELECT "parentId" AS parent_id, name, type, content, size, decode(sha256, 'hex') AS sha256
            FROM json_to_recordset(${nodes}::json) AS r(
              "parentId" integer, name text, type text, content text, size integer, sha256 text)
          ), n AS (
            INSERT INTO configuration_nodes (application_id, parent_id, name, type, version, size, sha256,
              created_at, created_by, updated_at, updated_by, placed_at)
            SELECT ${applicationId}, parent_id, name, type, CASE WHEN type = 'file' THEN 1 END, size, sha256,
              ${at}, ${by}, ${at}, ${by}, ${at} FROM r
            RETURNING *
          ), kept AS (
            INSERT INTO configuration_versions (node_id, version, content, size, sha256, created_at, created_by)
            SELECT n.id, 1, r.content, r.size, r.sha256, n.created_at, n.created_by
            FROM n JOIN r ON r.name = n.name AND r.parent_id IS NOT DISTINCT FROM n.parent_id WHERE n.type = 'file'
          )
          SELECT ${written} FROM n`.unprepared
      })

      return {
        /** Places nodes in one statement, so that two nodes may swap names. */
        place: Effect.fn("TreeChangeRepository.place")(function* (placings: ReadonlyArray<Placing>, stamp: Stamp) {
          yield* Change
          if (placings.length === 0) return []
          // A name is free only after its former node has left, so all leave before any is placed.
          yield* Effect.orDie(
            sql`
              UPDATE configuration_nodes SET deleted_at = ${stamp.at}, deleted_with = id, placed_at = ${stamp.at}
              WHERE id = ANY(${idsOf(placings)}::integer[]) AND deleted_at IS NULL`.unprepared
          )
          return yield* Effect.orDie(placeAll({ placings, ...stamp }))
        }),
        /**
         * Detaches what stays deleted from folders that came back without it: its topmost deleted folder, or itself, is what
         * it was deleted with from now on.
         */
        detachDeleted: Effect.fn("TreeChangeRepository.detachDeleted")(function* (applicationId: ApplicationId) {
          yield* Change
          yield* Effect.orDie(
            sql`
              WITH RECURSIVE detached AS (
                SELECT n.id, n.id AS root, n.deleted_with AS root_before
                FROM configuration_nodes n JOIN configuration_nodes folder ON folder.id = n.parent_id
                WHERE n.application_id = ${applicationId} AND n.deleted_with <> n.id AND folder.deleted_at IS NULL
                UNION ALL
                SELECT n.id, detached.root, detached.root_before
                FROM detached JOIN configuration_nodes n
                  ON n.parent_id = detached.id AND n.deleted_with = detached.root_before
              )
              UPDATE configuration_nodes n SET deleted_with = detached.root FROM detached WHERE n.id = detached.id`
              .unprepared
          )
        }),
        /** Marks nodes as deleted, each as part of `deletedWith`. */
        delete: Effect.fn("TreeChangeRepository.delete")(function* (
          nodes: ReadonlyArray<{ readonly id: ConfigurationId; readonly deletedWith: ConfigurationId }>,
          { at, by }: Stamp
        ) {
          yield* Change
          if (nodes.length === 0) return
          yield* Effect.orDie(
            sql`
              UPDATE configuration_nodes n SET deleted_at = ${at}, deleted_by = ${by}, deleted_with = r.deleted_with,
                updated_at = greatest(n.updated_at, ${at}), updated_by = ${by}, placed_at = ${at}
              FROM unnest(${idsOf(nodes)}::integer[], ${nodes.map(({ deletedWith }) => deletedWith)}::integer[])
                AS r(id, deleted_with)
              WHERE n.id = r.id`.unprepared
          )
        }),
        /** Gives files a new version each, with the content of an earlier one. */
        takeBack: Effect.fn("TreeChangeRepository.takeBack")((versions: ReadonlyArray<VersionOf>, stamp: Stamp) =>
          inBatches(versions, noBytes, (batch) =>
            takeAllBack({ ids: idsOf(batch), versions: versionsOf(batch), ...stamp })
          )
        ),
        addVersions: Effect.fn("TreeChangeRepository.addVersions")(
          (contents: ReadonlyArray<{ readonly id: ConfigurationId; readonly stored: StoredContent }>, stamp: Stamp) =>
            inBatches(
              contents,
              ({ stored }) => stored.size,
              (batch) =>
                addAll({
                  contents: batch.map(({ id, stored }) => ({ id, ...stored, sha256: hex(stored.sha256) })),
                  ...stamp
                })
            )
        ),
        /** Gives files their schemas. */
        bind: Effect.fn("TreeChangeRepository.bind")(
          (
            bindings: ReadonlyArray<{ readonly id: ConfigurationId; readonly schemaId: ConfigurationId | null }>,
            stamp: Stamp
          ) =>
            inBatches(bindings, noBytes, (batch) =>
              bindAll({ ids: idsOf(batch), schemaIds: batch.map(({ schemaId }) => schemaId), ...stamp })
            )
        ),
        insert: Effect.fn("TreeChangeRepository.insert")(
          (applicationId: ApplicationId, nodes: ReadonlyArray<NewTreeNode>, stamp: Stamp) =>
            inBatches(
              nodes,
              ({ stored }) => stored?.size ?? 0,
              (batch) =>
                insertAll({
                  applicationId,
                  nodes: batch.map(({ name, parentId, stored, type }) => ({
                    parentId,
                    name,
                    type,
                    ...(stored === null ? {} : { ...stored, sha256: hex(stored.sha256) })
                  })),
                  ...stamp
                })
            )
        )
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}

const inBatches = <A, B, E>(
  items: ReadonlyArray<A>,
  sizeOf: (item: A) => number,
  write: (batch: ReadonlyArray<A>) => Effect.Effect<ReadonlyArray<B>, E>
) =>
  Change.use(() =>
    Effect.orDie(Effect.map(Effect.forEach(inBatchesOf(items, sizeOf), write), (results) => results.flat()))
  )
const noBytes = () => 0
const idsOf = (items: ReadonlyArray<{ readonly id: ConfigurationId }>) => items.map(({ id }) => id)
const versionsOf = (items: ReadonlyArray<{ readonly version: number }>) => items.map(({ version }) => version)
