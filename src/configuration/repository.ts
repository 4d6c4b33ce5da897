import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { type ApplicationId } from "../applications/domain.ts"
import { Change } from "../audit/domain.ts"
import { InstantFromDate } from "../kernel/instant.ts"
import { ConfigurationId, ConfigurationNode, ConfigurationVersion, NodeType } from "./domain.ts"
import { type TreeRow } from "./tree.ts"
import { maximumDepth } from "./names.ts"
import { ConfigurationNameTaken, ConfigurationNotFound, ConfigurationVersionNotFound } from "./problems.ts"

/** A node as a change finds it: with the digest of its content, in hex, and whether it is deleted. */
export const HeldNode = Schema.Struct({
  ...ConfigurationNode.fields,
  sha256: Schema.NullOr(Schema.String),
  deletedAt: Schema.NullOr(InstantFromDate),
  deletedBy: Schema.NullOr(Schema.String),
  deletedWith: Schema.NullOr(ConfigurationId),
  /** Whether a live file names it as its schema. */
  isSchema: Schema.Boolean,
  /** The version of the schema that it names. */
  schemaVersion: Schema.NullOr(Schema.Int)
})
export type HeldNode = typeof HeldNode.Type

/** A node that a change wrote, as its audit entry keeps it. */
export const WrittenNode = Schema.Struct({
  id: ConfigurationId,
  parentId: Schema.NullOr(ConfigurationId),
  name: Schema.String,
  type: NodeType,
  schemaId: Schema.NullOr(ConfigurationId),
  version: Schema.NullOr(Schema.Int),
  sha256: Schema.NullOr(Schema.String)
})
export type WrittenNode = typeof WrittenNode.Type

const NodeWithContent = Schema.Struct({ ...ConfigurationNode.fields, content: Schema.NullOr(Schema.String) })
export type NodeWithContent = typeof NodeWithContent.Type

const TreeRowFromDatabase = Schema.Struct({
  id: Schema.Int,
  applicationId: Schema.Int,
  parentId: Schema.NullOr(Schema.Int),
  name: Schema.String,
  type: NodeType,
  version: Schema.NullOr(Schema.Int),
  size: Schema.NullOr(Schema.Int),
  schemaId: Schema.NullOr(Schema.Int),
  createdAt: Schema.String,
  createdBy: Schema.String,
  updatedAt: Schema.String,
  updatedBy: Schema.String
})

/** A content as it is stored: its size in bytes of UTF-8 and its SHA-256. */
export interface StoredContent {
  readonly content: string
  readonly size: number
  readonly sha256: Uint8Array
}

/** Who writes, and when. */
export interface Stamp {
  readonly at: Date
  readonly by: string
}

export interface NewNode {
  readonly applicationId: ApplicationId
  readonly parentId: ConfigurationId | null
  readonly name: string
  readonly type: NodeType
  readonly schemaId: ConfigurationId | null
}

/** Where a node stands: what a rename, a move or another schema changes. */
export interface Placement {
  readonly name: string
  readonly parentId: ConfigurationId | null
  readonly schemaId: ConfigurationId | null
}

/** The columns of a {@link WrittenNode}, of `configuration_nodes n`. */
export const writtenColumns =
  "n.id, n.parent_id, n.name, n.type, n.schema_id, n.version, encode(n.sha256, 'hex') AS sha256"

/** A page of versions may hold no more than this, in bytes, beside its first. */
const pageBytes = 8_388_608

export class ConfigurationRepository extends Context.Service<
  ConfigurationRepository,
  {
    get(id: ConfigurationId): Effect.Effect<HeldNode, ConfigurationNotFound>
    /** Like {@link get}, also of a deleted node. */
    getAny(id: ConfigurationId): Effect.Effect<HeldNode, ConfigurationNotFound>
    getWithContent(id: ConfigurationId): Effect.Effect<NodeWithContent, ConfigurationNotFound>
    findByPath(
      applicationId: ApplicationId,
      names: ReadonlyArray<string>
    ): Effect.Effect<NodeWithContent, ConfigurationNotFound>
    /** Every node of an application that is not deleted, by name. */
    listAll(applicationId: ApplicationId): Effect.Effect<ReadonlyArray<TreeRow>>
    /** The nodes that were deleted as such, not with their folder; the latest first. */
    listDeleted(applicationId: ApplicationId, limit: number): Effect.Effect<ReadonlyArray<HeldNode>>
    /** Versions below `before`, newest first, as many as `limit` and 8 MiB allow, but one at least. */
    versions(id: ConfigurationId, before: number, limit: number): Effect.Effect<ReadonlyArray<ConfigurationVersion>>
    version(id: ConfigurationId, version: number): Effect.Effect<ConfigurationVersion, ConfigurationVersionNotFound>
    /** The current versions of those nodes that are files and not deleted. */
    currentVersions(
      ids: ReadonlyArray<ConfigurationId>
    ): Effect.Effect<ReadonlyArray<{ readonly id: ConfigurationId; readonly version: number }>>
    /** Holds an application's tree until the change ends; answers the moment of the change, which is `at` or later. */
    lockTree(applicationId: ApplicationId, at: Date): Effect.Effect<Date, never, Change>
    /** The row locked until the change ends, deleted or not. */
    lock(id: ConfigurationId): Effect.Effect<HeldNode, ConfigurationNotFound, Change>
    /** The ids from a node up to the root, itself first; empty of null. */
    ancestors(id: ConfigurationId | null): Effect.Effect<ReadonlyArray<ConfigurationId>>
    /** How many names deep a subtree goes, itself included: its live nodes, or those that were deleted with it. */
    height(id: ConfigurationId, which: "live" | "deleted"): Effect.Effect<number>
    /** Whether a live file outside the subtree of `within` is checked against the file, or a file in it. */
    isSchemaOutside(within: ConfigurationId): Effect.Effect<boolean>
    insert(
      node: NewNode,
      content: StoredContent | null,
      stamp: Stamp
    ): Effect.Effect<HeldNode, ConfigurationNameTaken, Change>
    /**
     * Locks a file and gives it its next version in one statement, where nothing is to be looked at first: it is there,
     * in one of `versions` (null: any), of no application of `managed`, and neither has a schema nor is one.
     */
    addVersionUnless(
      id: ConfigurationId,
      content: StoredContent,
      restoredFrom: number | null,
      unless: { readonly versions: ReadonlyArray<number> | null; readonly managed: ReadonlyArray<ApplicationId> },
      stamp: Stamp
    ): Effect.Effect<Option.Option<{ readonly before: HeldNode; readonly after: HeldNode }>, never, Change>
    /** Gives a locked file its next version. */
    addVersion(
      id: ConfigurationId,
      content: StoredContent,
      restoredFrom: number | null,
      stamp: Stamp
    ): Effect.Effect<HeldNode, never, Change>
    place(
      id: ConfigurationId,
      placement: Placement,
      stamp: Stamp
    ): Effect.Effect<HeldNode, ConfigurationNameTaken, Change>
    /** Marks a node and all below it as deleted; answers all of them. */
    delete(id: ConfigurationId, stamp: Stamp): Effect.Effect<ReadonlyArray<WrittenNode>, never, Change>
    /** Brings back a node and what was deleted with it; answers all of them. */
    restore(
      id: ConfigurationId,
      stamp: Stamp
    ): Effect.Effect<ReadonlyArray<WrittenNode>, ConfigurationNameTaken, Change>
    /** Whether one of the files names a schema that is deleted. */
    lacksSchema(ids: ReadonlyArray<ConfigurationId>): Effect.Effect<boolean>
  }
>()("app/configuration/ConfigurationRepository") {
  static readonly layer = Layer.effect(
    ConfigurationRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient

      const columns = sql.literal(`
        n.id, n.application_id, n.parent_id, n.name, n.type, n.version, n.size, n.schema_id,
        n.created_at, n.created_by, n.updated_at, n.updated_by`)
      const path = sql.literal("configuration_path(n.id) AS path")
      const held = sql.literal(`
        encode(n.sha256, 'hex') AS sha256, n.deleted_at, n.deleted_by, n.deleted_with,
        EXISTS (SELECT FROM configuration_nodes f WHERE f.schema_id = n.id AND f.deleted_at IS NULL) AS is_schema,
        (SELECT version FROM configuration_nodes s WHERE s.id = n.schema_id) AS schema_version`)

      const selectOne = SqlSchema.findOneOption({
        Request: ConfigurationId,
        Result: HeldNode,
        execute: (id) => sql`
          SELECT ${columns}, ${path}, ${held} FROM configuration_nodes n WHERE n.id = ${id} AND n.deleted_at IS NULL`
      })
      const selectAny = SqlSchema.findOneOption({
        Request: ConfigurationId,
        Result: HeldNode,
        execute: (id) => sql`SELECT ${columns}, ${path}, ${held} FROM configuration_nodes n WHERE n.id = ${id}`
      })
      const selectLocked = SqlSchema.findOneOption({
        Request: ConfigurationId,
        Result: HeldNode,
        execute: (id) => sql`
          SELECT ${columns}, ${path}, ${held} FROM configuration_nodes n WHERE n.id = ${id} FOR NO KEY UPDATE OF n`
      })
      const selectWithContent = SqlSchema.findOneOption({
        Request: ConfigurationId,
        Result: NodeWithContent,
        execute: (id) => sql`
          SELECT ${columns}, ${path}, v.content FROM configuration_nodes n
          LEFT JOIN configuration_versions v ON v.node_id = n.id AND v.version = n.version
          WHERE n.id = ${id} AND n.deleted_at IS NULL`
      })
      const selectByPath = SqlSchema.findOneOption({
        Request: Schema.Struct({ applicationId: Schema.Int, names: Schema.Array(Schema.String) }),
        Result: NodeWithContent,
        execute: ({ applicationId, names }) => sql`
          WITH RECURSIVE walk AS (
            SELECT id, 1 AS depth FROM configuration_nodes
            WHERE application_id = ${applicationId} AND parent_id IS NULL AND deleted_at IS NULL
              AND name = (${names}::text[])[1]
            UNION ALL
            SELECT below.id, walk.depth + 1 FROM walk JOIN configuration_nodes below
              ON below.application_id = ${applicationId} AND below.parent_id = walk.id AND below.deleted_at IS NULL
              AND below.name = (${names}::text[])[walk.depth + 1]
          )
          SELECT ${columns}, ${path}, v.content FROM configuration_nodes n
          LEFT JOIN configuration_versions v ON v.node_id = n.id AND v.version = n.version
          WHERE n.id = (SELECT id FROM walk WHERE depth = ${names.length})`
      })
      // Ten thousand rows are decoded in a fraction of the time when their moments come as they are shown.
      const moment = (column: string) =>
        sql.literal(`to_char(n.${column} AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') AS ${column}`)
      const selectAll = SqlSchema.findAll({
        Request: Schema.Int,
        Result: TreeRowFromDatabase,
        execute: (applicationId) => sql`
          SELECT n.id, n.application_id, n.parent_id, n.name, n.type, n.version, n.size, n.schema_id,
            ${moment("created_at")}, n.created_by, ${moment("updated_at")}, n.updated_by
          FROM configuration_nodes n
          WHERE n.application_id = ${applicationId} AND n.deleted_at IS NULL ORDER BY n.name COLLATE "C"`
      })
      const selectDeleted = SqlSchema.findAll({
        Request: Schema.Struct({ applicationId: Schema.Int, limit: Schema.Int }),
        Result: HeldNode,
        execute: ({ applicationId, limit }) => sql`
          SELECT ${columns}, ${path}, ${held} FROM configuration_nodes n
          WHERE n.application_id = ${applicationId} AND n.deleted_with = n.id
          ORDER BY n.deleted_at DESC, n.id DESC LIMIT ${limit}`
      })
      const versionColumns = sql.literal("version, content, created_at, created_by, restored_from")
      const selectVersions = SqlSchema.findAll({
        Request: Schema.Struct({ id: ConfigurationId, before: Schema.Int, limit: Schema.Int }),
        Result: ConfigurationVersion,
        execute: ({ before, id, limit }) => sql`
          SELECT ${versionColumns} FROM (
            SELECT *, sum(size) OVER (ORDER BY version DESC) - size AS size_before FROM (
              SELECT * FROM configuration_versions WHERE node_id = ${id} AND version < ${before}
              ORDER BY version DESC LIMIT ${limit}) AS page) AS sized
          WHERE size_before < ${pageBytes} ORDER BY version DESC`
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
      const selectAncestors = SqlSchema.findAll({
        Request: ConfigurationId,
        Result: Schema.Struct({ id: ConfigurationId }),
        execute: (id) => sql`
          WITH RECURSIVE up AS (
            SELECT id, parent_id, 1 AS step FROM configuration_nodes WHERE id = ${id}
            UNION ALL
            SELECT p.id, p.parent_id, up.step + 1 FROM up JOIN configuration_nodes p ON p.id = up.parent_id
            WHERE up.step < ${maximumDepth * 2}
          )
          SELECT id FROM up ORDER BY step`
      })
      const below = (id: number, which: "live" | "deleted" = "live") => {
        const fits = which === "live" ? sql`deleted_at IS NULL` : sql`deleted_with = ${id}`
        return sql`
          WITH RECURSIVE below AS (
            SELECT id, 1 AS depth FROM configuration_nodes WHERE id = ${id} AND ${fits}
            UNION ALL
            SELECT c.id, below.depth + 1 FROM below
            JOIN (SELECT id, parent_id FROM configuration_nodes WHERE ${fits}) AS c ON c.parent_id = below.id
          )`
      }
      const selectHeight = SqlSchema.findOne({
        Request: Schema.Struct({ id: ConfigurationId, which: Schema.Literals(["live", "deleted"]) }),
        Result: Schema.Struct({ height: Schema.Int }),
        execute: ({ id, which }) => sql`${below(id, which)} SELECT coalesce(max(depth), 0) AS height FROM below`
      })
      const selectSchemaOutside = SqlSchema.findOne({
        Request: ConfigurationId,
        Result: Schema.Struct({ used: Schema.Boolean }),
        execute: (id) => sql`
          ${below(id)}
          SELECT EXISTS (
            SELECT FROM configuration_nodes user_of WHERE user_of.schema_id IN (SELECT id FROM below)
              AND user_of.deleted_at IS NULL AND user_of.id NOT IN (SELECT id FROM below)) AS used`
      })
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
        Result: HeldNode,
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
          SELECT ${columns}, ${path}, ${held} FROM n`
      })

      const insertVersionUnless = SqlSchema.findOneOption({
        Request: Schema.Struct({
          id: ConfigurationId,
          content: Schema.String,
          size: Schema.Int,
          sha256: Schema.Uint8Array,
          restoredFrom: Schema.NullOr(Schema.Int),
          versions: Schema.NullOr(Schema.Array(Schema.Int)),
          managed: Schema.Array(Schema.Int),
          at: Schema.Date,
          by: Schema.String
        }),
        Result: Schema.Struct({
          ...HeldNode.fields,
          versionBefore: Schema.Int,
          sizeBefore: Schema.Int,
          sha256Before: Schema.String,
          updatedAtBefore: InstantFromDate,
          updatedByBefore: Schema.String
        }),
        execute: ({ at, by, content, id, managed, restoredFrom, sha256, size, versions }) => sql`
          WITH before AS MATERIALIZED (
            SELECT * FROM configuration_nodes WHERE id = ${id} FOR NO KEY UPDATE
          ), n AS (
            UPDATE configuration_nodes n SET version = n.version + 1, size = ${size}, sha256 = ${sha256},
              updated_at = greatest(n.updated_at, ${at}), updated_by = ${by}
            FROM before WHERE n.id = before.id AND n.deleted_at IS NULL AND n.type = 'file' AND n.schema_id IS NULL
              AND NOT n.application_id = ANY(${managed}::integer[])
              AND (${versions}::integer[] IS NULL OR n.version = ANY(${versions}::integer[]))
              AND NOT EXISTS (SELECT FROM configuration_nodes f WHERE f.schema_id = ${id} AND f.deleted_at IS NULL)
            RETURNING n.*, before.version AS version_before, before.size AS size_before,
              encode(before.sha256, 'hex') AS sha256_before, before.updated_at AS updated_at_before,
              before.updated_by AS updated_by_before
          ), kept AS (
            INSERT INTO configuration_versions
              (node_id, version, content, size, sha256, restored_from, created_at, created_by)
            SELECT id, version, ${content}, size, sha256, ${restoredFrom}::integer, updated_at, updated_by FROM n
          )
          SELECT ${columns}, ${path}, encode(n.sha256, 'hex') AS sha256, n.deleted_at, n.deleted_by, n.deleted_with,
            false AS is_schema, NULL::integer AS schema_version, n.version_before, n.size_before, n.sha256_before,
            n.updated_at_before, n.updated_by_before
          FROM n`
      })
      const holdTree = SqlSchema.findOne({
        Request: Schema.Struct({ applicationId: Schema.Int, at: Schema.Date }),
        Result: Schema.Struct({ changedAt: Schema.Date }),
        execute: ({ applicationId, at }) => sql`
          INSERT INTO configuration_trees AS tree (application_id, changed_at) VALUES (${applicationId}, ${at})
          ON CONFLICT (application_id) DO UPDATE SET changed_at = greatest(tree.changed_at, ${at})
          RETURNING changed_at`
      })
      const written = sql.literal(writtenColumns)
      const IdAndStamp = Schema.Struct({ id: ConfigurationId, at: Schema.Date, by: Schema.String })
      const deleteBelow = SqlSchema.findAll({
        Request: IdAndStamp,
        Result: WrittenNode,
        execute: ({ at, by, id }) => sql`
          ${below(id)}
          UPDATE configuration_nodes n SET deleted_at = ${at}, deleted_by = ${by}, deleted_with = ${id},
            updated_at = greatest(n.updated_at, ${at}), updated_by = ${by}, placed_at = ${at}
          WHERE n.id IN (SELECT id FROM below) RETURNING ${written}`
      })
      const restoreDeleted = SqlSchema.findAll({
        Request: IdAndStamp,
        Result: WrittenNode,
        execute: ({ at, by, id }) => sql`
          UPDATE configuration_nodes n SET deleted_at = NULL, deleted_by = NULL, deleted_with = NULL,
            updated_at = greatest(n.updated_at, ${at}), updated_by = ${by}, placed_at = ${at}
          WHERE n.deleted_with = ${id} RETURNING ${written}`
      })
      const selectLacking = SqlSchema.findOne({
        Request: Schema.Array(ConfigurationId),
        Result: Schema.Struct({ lacking: Schema.Boolean }),
        execute: (ids) => sql`
          SELECT EXISTS (
            SELECT FROM configuration_nodes f JOIN configuration_nodes s ON s.id = f.schema_id
            WHERE f.id = ANY(${ids}::integer[]) AND s.deleted_at IS NOT NULL) AS lacking`
      })

      const found = <A, E>(problem: () => E) =>
        Effect.flatMap(
          Option.match({ onNone: () => Effect.fail(problem()), onSome: (value: A) => Effect.succeed(value) })
        )
      const nodeFound = <A>(effect: Effect.Effect<Option.Option<A>>) =>
        found<A, ConfigurationNotFound>(() => new ConfigurationNotFound({}))(effect)
      const nameTaken = <A, R>(effect: Effect.Effect<A, Effect.Error<ReturnType<typeof insertNode>>, R>) =>
        Change.use(() =>
          effect.pipe(
            Effect.catchReason("SqlError", "UniqueViolation", (reason) =>
              reason.constraint === "configuration_nodes_name" ? new ConfigurationNameTaken({}) : Effect.die(reason)
            ),
            Effect.catchTags({ SqlError: Effect.die, SchemaError: Effect.die, NoSuchElementError: Effect.die })
          )
        )
      const locked = (id: ConfigurationId) => nodeFound(Effect.orDie(selectLocked(id)))

      return ConfigurationRepository.of({
        get: Effect.fn("ConfigurationRepository.get")((id) => nodeFound(Effect.orDie(selectOne(id)))),
        getAny: Effect.fn("ConfigurationRepository.getAny")((id) => nodeFound(Effect.orDie(selectAny(id)))),
        getWithContent: Effect.fn("ConfigurationRepository.getWithContent")((id) =>
          nodeFound(Effect.orDie(selectWithContent(id)))
        ),
        findByPath: Effect.fn("ConfigurationRepository.findByPath")((applicationId, names) =>
          nodeFound(Effect.orDie(selectByPath({ applicationId, names })))
        ),
        listAll: Effect.fn("ConfigurationRepository.listAll")((applicationId) =>
          Effect.orDie(selectAll(applicationId))
        ),
        listDeleted: Effect.fn("ConfigurationRepository.listDeleted")((applicationId, limit) =>
          Effect.orDie(selectDeleted({ applicationId, limit }))
        ),
        versions: Effect.fn("ConfigurationRepository.versions")((id, before, limit) =>
          Effect.orDie(selectVersions({ id, before, limit }))
        ),
        version: Effect.fn("ConfigurationRepository.version")((id, version) =>
          found<ConfigurationVersion, ConfigurationVersionNotFound>(() => new ConfigurationVersionNotFound({}))(
            Effect.orDie(selectVersion({ id, version }))
          )
        ),
        currentVersions: Effect.fn("ConfigurationRepository.currentVersions")((ids) =>
          Effect.orDie(selectCurrent(ids))
        ),
        lockTree: Effect.fn("ConfigurationRepository.lockTree")((applicationId, at) =>
          Change.use(() => Effect.orDie(Effect.map(holdTree({ applicationId, at }), ({ changedAt }) => changedAt)))
        ),
        lock: Effect.fn("ConfigurationRepository.lock")((id) => Change.use(() => locked(id))),
        ancestors: Effect.fn("ConfigurationRepository.ancestors")((id) =>
          id === null ? Effect.succeed([]) : Effect.orDie(Effect.map(selectAncestors(id), idsOf))
        ),
        height: Effect.fn("ConfigurationRepository.height")((id, which) =>
          Effect.orDie(Effect.map(selectHeight({ id, which }), ({ height }) => height))
        ),
        isSchemaOutside: Effect.fn("ConfigurationRepository.isSchemaOutside")((within) =>
          Effect.orDie(Effect.map(selectSchemaOutside(within), ({ used }) => used))
        ),
        insert: Effect.fn("ConfigurationRepository.insert")((node, content, stamp) =>
          nameTaken(
            insertNode({
              ...node,
              content: content?.content ?? null,
              size: content?.size ?? null,
              sha256: content?.sha256 ?? null,
              ...stamp
            })
          ).pipe(Effect.flatMap(({ id }) => Effect.orDie(locked(id))))
        ),
        addVersionUnless: Effect.fn("ConfigurationRepository.addVersionUnless")(
          (id, content, restoredFrom, unless, stamp) =>
            Change.use(() =>
              Effect.orDie(
                Effect.map(
                  insertVersionUnless({ id, ...content, restoredFrom, ...unless, ...stamp }),
                  Option.map(
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
        addVersion: Effect.fn("ConfigurationRepository.addVersion")((id, content, restoredFrom, stamp) =>
          Change.use(() => Effect.orDie(insertVersion({ id, ...content, restoredFrom, ...stamp })))
        ),
        place: Effect.fn("ConfigurationRepository.place")((id, { name, parentId, schemaId }, { at, by }) =>
          nameTaken(sql`
            UPDATE configuration_nodes SET name = ${name}, parent_id = ${parentId}::integer,
              schema_id = ${schemaId}::integer, updated_at = greatest(updated_at, ${at}), updated_by = ${by},
              placed_at = ${at}
            WHERE id = ${id}`).pipe(Effect.andThen(Effect.orDie(locked(id))))
        ),
        delete: Effect.fn("ConfigurationRepository.delete")((id, stamp) =>
          Change.use(() => Effect.orDie(deleteBelow({ id, ...stamp })))
        ),
        restore: Effect.fn("ConfigurationRepository.restore")((id, stamp) =>
          nameTaken(restoreDeleted({ id, ...stamp }))
        ),
        lacksSchema: Effect.fn("ConfigurationRepository.lacksSchema")((ids) =>
          Effect.orDie(Effect.map(selectLacking(ids), ({ lacking }) => lacking))
        )
      })
    })
  )
}

const idsOf = (rows: ReadonlyArray<{ readonly id: ConfigurationId }>) => rows.map(({ id }) => id)
