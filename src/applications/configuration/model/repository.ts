import { Context, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../../audit/log/domain.ts"
import { type ApplicationId } from "../../applications/domain.ts"
import { ConfigurationId, ConfigurationNotFound } from "./domain.ts"
import { maximumDepth } from "./path-domain.ts"
import { heldColumns, LockedNode, nodeColumns, NodeDepth, NodeWithContent, pathColumn, TreeRow } from "./row-domain.ts"

/** How nodes are found and locked. */
export class ConfigurationRepository extends Context.Service<ConfigurationRepository>()(
  "app/applications/ConfigurationRepository",
  {
    make: Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient
      const columns = sql.literal(nodeColumns)
      const path = sql.literal(pathColumn)
      const locked = sql.literal(heldColumns)

      const selectOne = SqlSchema.findOneOption({
        Request: ConfigurationId,
        Result: LockedNode,
        execute: (id) => sql`
          SELECT ${columns}, ${path}, ${locked} FROM configuration_nodes n WHERE n.id = ${id} AND n.deleted_at IS NULL`
      })
      const selectAny = SqlSchema.findOneOption({
        Request: ConfigurationId,
        Result: LockedNode,
        execute: (id) => sql`SELECT ${columns}, ${path}, ${locked} FROM configuration_nodes n WHERE n.id = ${id}`
      })
      const selectLocked = SqlSchema.findOneOption({
        Request: ConfigurationId,
        Result: LockedNode,
        execute: (id) => sql`
          SELECT ${columns}, ${path}, ${locked} FROM configuration_nodes n WHERE n.id = ${id} FOR NO KEY UPDATE OF n`
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
        Result: LockedNode,
        execute: ({ applicationId, limit }) => sql`
          SELECT ${columns}, ${path}, ${locked} FROM configuration_nodes n
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
      // The fence keeps the walk going from node to node, however few nodes the planner believes in.
      const selectBelow = SqlSchema.findAll({
        Request: ConfigurationId,
        Result: NodeDepth,
        execute: (id) =>
          sql`
          WITH RECURSIVE below AS (
            SELECT id, 1 AS depth FROM configuration_nodes WHERE id = ${id} AND deleted_at IS NULL
            UNION ALL
            SELECT child.id, below.depth + 1 FROM below CROSS JOIN LATERAL (
              SELECT id FROM configuration_nodes WHERE parent_id = below.id AND deleted_at IS NULL OFFSET 0) AS child
          )
          SELECT id, depth FROM below`.unprepared
      })
      const selectDeletedWith = SqlSchema.findAll({
        Request: ConfigurationId,
        Result: Schema.Struct({ id: ConfigurationId, parentId: Schema.NullOr(ConfigurationId) }),
        execute: (id) => sql`
          SELECT id, parent_id FROM configuration_nodes
          WHERE deleted_at = (SELECT deleted_at FROM configuration_nodes WHERE id = ${id}) AND deleted_with = ${id}`
      })
      const selectSchemaUsers = SqlSchema.findAll({
        Request: Schema.Array(ConfigurationId),
        Result: Schema.Struct({ id: ConfigurationId }),
        execute: (ids) =>
          sql`
          SELECT id FROM configuration_nodes
          WHERE schema_id = ANY(${ids}::integer[]) AND deleted_at IS NULL AND NOT id = ANY(${ids}::integer[])
          LIMIT 1`.unprepared
      })
      const selectLacking = SqlSchema.findOne({
        Request: Schema.Array(ConfigurationId),
        Result: Schema.Struct({ lacking: Schema.Boolean }),
        execute: (ids) =>
          sql`
          SELECT EXISTS (
            SELECT FROM configuration_nodes f JOIN configuration_nodes s ON s.id = f.schema_id
            WHERE f.id = ANY(${ids}::integer[]) AND s.deleted_at IS NOT NULL) AS lacking`.unprepared
      })

      return {
        get: Effect.fn("ConfigurationRepository.get")((id: ConfigurationId) => found(Effect.orDie(selectOne(id)))),
        /** Like {@link get}, also of a deleted node. */
        getAny: Effect.fn("ConfigurationRepository.getAny")((id: ConfigurationId) =>
          found(Effect.orDie(selectAny(id)))
        ),
        getWithContent: Effect.fn("ConfigurationRepository.getWithContent")((id: ConfigurationId) =>
          found(Effect.orDie(selectWithContent(id)))
        ),
        findByPath: Effect.fn("ConfigurationRepository.findByPath")(
          (applicationId: ApplicationId, names: ReadonlyArray<string>) =>
            found(Effect.orDie(selectByPath({ applicationId, names })))
        ),
        /** Every node of an application that is not deleted, in any order. */
        listAll: Effect.fn("ConfigurationRepository.listAll")((applicationId: ApplicationId) =>
          Effect.orDie(selectAll(applicationId))
        ),
        /** The nodes that were deleted as such, not with their folder; the latest first. */
        listDeleted: Effect.fn("ConfigurationRepository.listDeleted")((applicationId: ApplicationId, limit: number) =>
          Effect.orDie(selectDeleted({ applicationId, limit }))
        ),
        /** Holds an application's tree until the change ends; answers the moment of the change, which is `at` or later. */
        lockTree: Effect.fn("ConfigurationRepository.lockTree")((applicationId: ApplicationId, at: Date) =>
          Change.use(() => Effect.orDie(Effect.map(holdTree({ applicationId, at }), ({ changedAt }) => changedAt)))
        ),
        /** The row locked until the change ends, deleted or not. */
        lock: Effect.fn("ConfigurationRepository.lock")((id: ConfigurationId) =>
          Change.use(() => found(Effect.orDie(selectLocked(id))))
        ),
        /** The ids from a node up to the root, itself first; empty of null. */
        ancestors: Effect.fn("ConfigurationRepository.ancestors")((id: ConfigurationId | null) =>
          id === null ? Effect.succeed([]) : Effect.orDie(Effect.map(selectAncestors(id), idsOf))
        ),
        /** A node and every live node below it, each with its depth there: 1 for the node itself. */
        below: Effect.fn("ConfigurationRepository.below")((id: ConfigurationId) => Effect.orDie(selectBelow(id))),
        /** A deleted node and what was deleted with it, likewise. */
        deletedWith: Effect.fn("ConfigurationRepository.deletedWith")((id: ConfigurationId) =>
          Effect.orDie(Effect.map(selectDeletedWith(id), (nodes) => depthsOf(id, nodes)))
        ),
        /** Whether a live file other than these is checked against one of them. */
        isSchemaOutside: Effect.fn("ConfigurationRepository.isSchemaOutside")((ids: ReadonlyArray<ConfigurationId>) =>
          Effect.orDie(Effect.map(selectSchemaUsers(ids), (users) => users.length > 0))
        ),
        /** Whether one of the files names a schema that is deleted. */
        lacksSchema: Effect.fn("ConfigurationRepository.lacksSchema")((ids: ReadonlyArray<ConfigurationId>) =>
          Effect.orDie(Effect.map(selectLacking(ids), ({ lacking }) => lacking))
        )
      }
    })
  }
) {
  static readonly layer = Layer.effect(this, this.make)
}

const depthsOf = (
  root: ConfigurationId,
  nodes: ReadonlyArray<{ readonly id: ConfigurationId; readonly parentId: ConfigurationId | null }>
): ReadonlyArray<NodeDepth> => {
  const parents = new Map(nodes.map(({ id, parentId }) => [id, parentId]))
  const depthOf = (id: ConfigurationId): number => {
    const parentId = parents.get(id)
    return id === root || parentId === null || parentId === undefined ? 1 : depthOf(parentId) + 1
  }
  return nodes.map(({ id }) => ({ id, depth: depthOf(id) }))
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
