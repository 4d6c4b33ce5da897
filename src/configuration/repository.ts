import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { type ApplicationId } from "../applications/domain.ts"
import { Change } from "../audit/domain.ts"
import { ConfigurationId } from "./domain.ts"
import { maximumDepth } from "./path-domain.ts"
import { ConfigurationNotFound } from "./problem-domain.ts"
import { HeldNode, heldColumns, nodeColumns, NodeWithContent, pathColumn, TreeRow } from "./row-domain.ts"

/** How nodes are found and held. */
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
    /** Every node of an application that is not deleted, in any order. */
    listAll(applicationId: ApplicationId): Effect.Effect<ReadonlyArray<TreeRow>>
    /** The nodes that were deleted as such, not with their folder; the latest first. */
    listDeleted(applicationId: ApplicationId, limit: number): Effect.Effect<ReadonlyArray<HeldNode>>
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
    /** Whether one of the files names a schema that is deleted. */
    lacksSchema(ids: ReadonlyArray<ConfigurationId>): Effect.Effect<boolean>
  }
>()("app/configuration/ConfigurationRepository") {
  static readonly layer = Layer.effect(
    ConfigurationRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const columns = sql.literal(nodeColumns)
      const path = sql.literal(pathColumn)
      const held = sql.literal(heldColumns)

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
      const selectAll = SqlSchema.findAll({
        Request: Schema.Int,
        Result: TreeRow,
        execute: (applicationId) => sql`
          SELECT id, parent_id, name, type, version, size, schema_id, created_at, created_by, updated_at, updated_by
          FROM configuration_nodes WHERE application_id = ${applicationId} AND deleted_at IS NULL`
      })
      const selectDeleted = SqlSchema.findAll({
        Request: Schema.Struct({ applicationId: Schema.Int, limit: Schema.Int }),
        Result: HeldNode,
        execute: ({ applicationId, limit }) => sql`
          SELECT ${columns}, ${path}, ${held} FROM configuration_nodes n
          WHERE n.application_id = ${applicationId} AND n.deleted_with = n.id
          ORDER BY n.deleted_at DESC, n.id DESC LIMIT ${limit}`
      })
      const holdTree = SqlSchema.findOne({
        Request: Schema.Struct({ applicationId: Schema.Int, at: Schema.Date }),
        Result: Schema.Struct({ changedAt: Schema.Date }),
        execute: ({ applicationId, at }) => sql`
          INSERT INTO configuration_trees AS tree (application_id, changed_at) VALUES (${applicationId}, ${at})
          ON CONFLICT (application_id) DO UPDATE SET changed_at = greatest(tree.changed_at, ${at})
          RETURNING changed_at`
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
      const selectLacking = SqlSchema.findOne({
        Request: Schema.Array(ConfigurationId),
        Result: Schema.Struct({ lacking: Schema.Boolean }),
        execute: (ids) => sql`
          SELECT EXISTS (
            SELECT FROM configuration_nodes f JOIN configuration_nodes s ON s.id = f.schema_id
            WHERE f.id = ANY(${ids}::integer[]) AND s.deleted_at IS NOT NULL) AS lacking`
      })

      return ConfigurationRepository.of({
        get: Effect.fn("ConfigurationRepository.get")((id) => found(Effect.orDie(selectOne(id)))),
        getAny: Effect.fn("ConfigurationRepository.getAny")((id) => found(Effect.orDie(selectAny(id)))),
        getWithContent: Effect.fn("ConfigurationRepository.getWithContent")((id) =>
          found(Effect.orDie(selectWithContent(id)))
        ),
        findByPath: Effect.fn("ConfigurationRepository.findByPath")((applicationId, names) =>
          found(Effect.orDie(selectByPath({ applicationId, names })))
        ),
        listAll: Effect.fn("ConfigurationRepository.listAll")((applicationId) =>
          Effect.orDie(selectAll(applicationId))
        ),
        listDeleted: Effect.fn("ConfigurationRepository.listDeleted")((applicationId, limit) =>
          Effect.orDie(selectDeleted({ applicationId, limit }))
        ),
        lockTree: Effect.fn("ConfigurationRepository.lockTree")((applicationId, at) =>
          Change.use(() => Effect.orDie(Effect.map(holdTree({ applicationId, at }), ({ changedAt }) => changedAt)))
        ),
        lock: Effect.fn("ConfigurationRepository.lock")((id) =>
          Change.use(() => found(Effect.orDie(selectLocked(id))))
        ),
        ancestors: Effect.fn("ConfigurationRepository.ancestors")((id) =>
          id === null ? Effect.succeed([]) : Effect.orDie(Effect.map(selectAncestors(id), idsOf))
        ),
        height: Effect.fn("ConfigurationRepository.height")((id, which) =>
          Effect.orDie(Effect.map(selectHeight({ id, which }), ({ height }) => height))
        ),
        isSchemaOutside: Effect.fn("ConfigurationRepository.isSchemaOutside")((within) =>
          Effect.orDie(Effect.map(selectSchemaOutside(within), ({ used }) => used))
        ),
        lacksSchema: Effect.fn("ConfigurationRepository.lacksSchema")((ids) =>
          Effect.orDie(Effect.map(selectLacking(ids), ({ lacking }) => lacking))
        )
      })
    })
  )
}

const idsOf = (rows: ReadonlyArray<{ readonly id: ConfigurationId }>) => rows.map(({ id }) => id)

const found = <A>(effect: Effect.Effect<Option.Option<A>>) =>
  Effect.flatMap(
    effect,
    Option.match({
      onNone: () => Effect.fail(new ConfigurationNotFound({})),
      onSome: (node: A) => Effect.succeed(node)
    })
  )
