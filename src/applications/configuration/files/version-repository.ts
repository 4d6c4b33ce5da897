import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { type AuditOrigin, Change } from "../../../audit/log/domain.ts"
import { InstantFromDate } from "../../../kernel/instant.ts"
import { type ApplicationId } from "../../applications/domain.ts"
import { ConfigurationId, ConfigurationVersion, ConfigurationVersionNotFound } from "../model/domain.ts"
import {
  heldColumns,
  LockedNode,
  nodeColumns,
  pathColumn,
  type Stamp,
  type StoredContent
} from "../model/row-domain.ts"

/** A page of several versions has no more content than this, in bytes: a slow client keeps the whole answer in memory. */
const pageBytes = 1_048_576

/** A content to save to a file that is at one of `versions` (null: any). */
export interface Save {
  readonly id: ConfigurationId
  readonly stored: StoredContent
  readonly versions: ReadonlyArray<number> | null
  readonly origin: AuditOrigin
}

const plainSave = ({ id, origin, stored, versions }: Save) => ({
  id,
  versions,
  ...stored,
  sha256: Buffer.from(stored.sha256).toString("hex"),
  at: origin.occurred_at,
  by: origin.user_id
})

/** The contents of files, each of their versions. */
export class VersionRepository extends Context.Service<VersionRepository>()("app/applications/VersionRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const columns = sql.literal(nodeColumns)
    const path = sql.literal(pathColumn)
    const locked = sql.literal(heldColumns)
    const versionColumns = sql.literal("version, content, created_at, created_by, restored_from")

    const selectVersions = SqlSchema.findAll({
      Request: Schema.Struct({ id: ConfigurationId, before: Schema.Int, limit: Schema.Int }),
      Result: ConfigurationVersion,
      execute: ({ before, id, limit }) => sql`
          SELECT ${versionColumns} FROM (
            SELECT *, sum(size) OVER (ORDER BY version DESC) AS size_together FROM (
              SELECT * FROM configuration_versions WHERE node_id = ${id} AND version < ${before}
              ORDER BY version DESC LIMIT ${limit}) AS page) AS sized
          WHERE size_together <= ${pageBytes} OR size_together = size ORDER BY version DESC`
    })
    const selectVersion = SqlSchema.findOneOption({
      Request: Schema.Struct({ id: ConfigurationId, version: Schema.Int }),
      Result: ConfigurationVersion,
      execute: ({ id, version }) => sql`
          SELECT ${versionColumns} FROM configuration_versions WHERE node_id = ${id} AND version = ${version}`
    })
    const selectCurrent = SqlSchema.findAll({
      Request: Schema.Array(ConfigurationId),
      Result: Schema.Struct({ id: ConfigurationId, version: Schema.Int }),
      execute: (ids) => sql`
          SELECT id, version FROM configuration_nodes
          WHERE id = ANY(${ids}::integer[]) AND deleted_at IS NULL AND version IS NOT NULL`
    })
    const insertTogether = SqlSchema.findAll({
      Request: Schema.Struct({
        ids: Schema.Array(ConfigurationId),
        saves: Schema.fromJsonString(Schema.Unknown),
        managed: Schema.Array(Schema.Int)
      }),
      Result: Schema.Struct({
        ...LockedNode.fields,
        versionBefore: Schema.Int,
        sizeBefore: Schema.Int,
        sha256Before: Schema.String,
        updatedAtBefore: InstantFromDate,
        updatedByBefore: Schema.String
      }),
      // The ids are named at each table, so that no plan, of whatever age, joins all nodes with all saves.
      execute: ({ ids, managed, saves }) => sql`
          WITH r AS MATERIALIZED (
            SELECT id, versions, content, size, decode(sha256, 'hex') AS sha256, at, by
            FROM json_to_recordset(${saves}::json) AS r(
              id integer, versions integer[], content text, size integer, sha256 text, at timestamptz, by text)
          ), before AS MATERIALIZED (
            SELECT * FROM configuration_nodes WHERE id = ANY(${ids}::integer[]) FOR NO KEY UPDATE SKIP LOCKED
          ), n AS (
            UPDATE configuration_nodes n SET version = n.version + 1, size = r.size, sha256 = r.sha256,
              updated_at = greatest(n.updated_at, r.at), updated_by = r.by
            FROM before JOIN r ON r.id = before.id
            WHERE n.id = ANY(${ids}::integer[]) AND n.id = before.id
              AND n.deleted_at IS NULL AND n.type = 'file' AND n.schema_id IS NULL
              AND NOT n.application_id = ANY(${managed}::integer[])
              AND (r.versions IS NULL OR n.version = ANY(r.versions))
              AND n.id NOT IN (
                SELECT schema_id FROM configuration_nodes
                WHERE schema_id = ANY(${ids}::integer[]) AND deleted_at IS NULL)
            RETURNING n.*, before.version AS version_before, before.size AS size_before,
              encode(before.sha256, 'hex') AS sha256_before, before.updated_at AS updated_at_before,
              before.updated_by AS updated_by_before
          ), kept AS (
            INSERT INTO configuration_versions (node_id, version, content, size, sha256, created_at, created_by)
            SELECT n.id, n.version, r.content, n.size, n.sha256, n.updated_at, n.updated_by FROM n JOIN r ON r.id = n.id
          )
          SELECT ${columns}, ${path}, encode(n.sha256, 'hex') AS sha256, n.deleted_at, n.deleted_by, n.deleted_with,
            false AS is_schema, NULL::integer AS schema_version, n.version_before, n.size_before, n.sha256_before,
            n.updated_at_before, n.updated_by_before
          FROM n`
    })
    const insertVersion = SqlSchema.findOne({
      Request: Schema.Struct({
        id: ConfigurationId,
        content: Schema.String,
        size: Schema.Int,
        sha256: Schema.Uint8Array,
        restoredFrom: Schema.NullOr(Schema.Int),
        at: Schema.Date,
        by: Schema.String
      }),
      Result: LockedNode,
      // Moments of one file never run backwards, whichever replica's clock they were read from.
      execute: ({ at, by, content, id, restoredFrom, sha256, size }) => sql`
          WITH n AS (
            UPDATE configuration_nodes SET version = version + 1, size = ${size}, sha256 = ${sha256},
              updated_at = greatest(updated_at, ${at}), updated_by = ${by}
            WHERE id = ${id} RETURNING *
          ), kept AS (
            INSERT INTO configuration_versions
              (node_id, version, content, size, sha256, restored_from, created_at, created_by)
            SELECT id, version, ${content}, size, sha256, ${restoredFrom}::integer, updated_at, updated_by FROM n
          )
          SELECT ${columns}, ${path}, ${locked} FROM n`
    })

    return {
      /** Versions below `before`, newest first, as many as `limit` and 1 MiB allow, but one at least. */
      versions: Effect.fn("VersionRepository.versions")((id: ConfigurationId, before: number, limit: number) =>
        Effect.orDie(selectVersions({ id, before, limit }))
      ),
      version: Effect.fn("VersionRepository.version")((id: ConfigurationId, version: number) =>
        Effect.flatMap(
          Effect.orDie(selectVersion({ id, version })),
          Option.match({
            onNone: () => Effect.fail(new ConfigurationVersionNotFound({})),
            onSome: (found) => Effect.succeed(found)
          })
        )
      ),
      /** The current versions of those nodes that are files and not deleted. */
      current: Effect.fn("VersionRepository.current")((ids: ReadonlyArray<ConfigurationId>) =>
        Effect.orDie(selectCurrent(ids))
      ),
      /**
       * Gives files their next versions in one statement, without waiting for locks. It skips a file that is locked, or
       * that must be looked at first: it is not there, not in one of `versions` (null: any), of an application of `managed`,
       * has a schema or is one.
       */
      addTogether: Effect.fn("VersionRepository.addTogether")(
        (saves: ReadonlyArray<Save>, managed: ReadonlyArray<ApplicationId>) =>
          Change.use(() =>
            Effect.orDie(
              Effect.map(
                insertTogether({ ids: saves.map(({ id }) => id), saves: saves.map(plainSave), managed }),
                (rows) =>
                  rows.map(
                    ({ sha256Before, sizeBefore, updatedAtBefore, updatedByBefore, versionBefore, ...after }) => ({
                      before: {
                        ...after,
                        version: versionBefore,
                        size: sizeBefore,
                        sha256: sha256Before,
                        updatedAt: updatedAtBefore,
                        updatedBy: updatedByBefore
                      },
                      after
                    })
                  )
              )
            )
          )
      ),
      /** Gives a locked file its next version. */
      add: Effect.fn("VersionRepository.add")(
        (id: ConfigurationId, content: StoredContent, restoredFrom: number | null, stamp: Stamp) =>
          Change.use(() => Effect.orDie(insertVersion({ id, ...content, restoredFrom, ...stamp })))
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
