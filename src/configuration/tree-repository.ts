import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { type ApplicationId } from "../applications/domain.ts"
import { ConfigurationId } from "./domain.ts"
import { NodeThenAndNow, StandingNode, type VersionOf } from "./row-domain.ts"

/** What is read of a whole tree at once. */
export class TreeRepository extends Context.Service<
  TreeRepository,
  {
    /** What the tree has now or had at a moment. */
    thenAndNow(applicationId: ApplicationId, at: Date): Effect.Effect<ReadonlyArray<NodeThenAndNow>>
    /** Every live node, in the order of the paths. */
    standing(applicationId: ApplicationId): Effect.Effect<ReadonlyArray<StandingNode>>
    /** The contents of versions, in any order. */
    contents(
      versions: ReadonlyArray<VersionOf>
    ): Effect.Effect<ReadonlyArray<{ readonly id: ConfigurationId; readonly content: string }>>
  }
>()("app/configuration/TreeRepository") {
  static readonly layer = Layer.effect(
    TreeRepository,
    Effect.gen(function* () {
      const sql = yield* SqlClient.SqlClient

      const selectThenAndNow = SqlSchema.findAll({
        Request: Schema.Struct({ applicationId: Schema.Int, at: Schema.Date }),
        Result: NodeThenAndNow,
        execute: ({ applicationId, at }) => sql`
          WITH placed AS (
            SELECT DISTINCT ON (node_id) * FROM configuration_placements
            WHERE application_id = ${applicationId} AND valid_from <= ${at} ORDER BY node_id, id DESC
          ), now AS (
            SELECT * FROM configuration_nodes WHERE application_id = ${applicationId}
          )
          SELECT coalesce(now.id, placed.node_id) AS id, coalesce(now.type, placed.type) AS type, now.id IS NULL AS gone,
            now.id IS NOT NULL AND now.deleted_at IS NULL AS live, now.parent_id, coalesce(now.name, placed.name) AS name,
            now.schema_id, now.version, encode(now.sha256, 'hex') AS sha256, coalesce(placed.live, false) AS then_live,
            placed.parent_id AS then_parent_id, coalesce(placed.name, now.name) AS then_name,
            placed.schema_id AS then_schema_id, v.version AS then_version, encode(v.sha256, 'hex') AS then_sha256
          FROM now FULL JOIN placed ON placed.node_id = now.id
          LEFT JOIN LATERAL (
            SELECT version, sha256 FROM configuration_versions
            WHERE node_id = now.id AND created_at <= ${at} ORDER BY version DESC LIMIT 1) AS v ON placed.live
          WHERE placed.live OR (now.id IS NOT NULL AND now.deleted_at IS NULL)`
      })
      const selectStanding = SqlSchema.findAll({
        Request: Schema.Int,
        Result: StandingNode,
        execute: (applicationId) => sql`
          WITH RECURSIVE tree AS (
            SELECT n.id, '/' || n.name AS path FROM configuration_nodes n
            WHERE n.application_id = ${applicationId} AND n.parent_id IS NULL AND n.deleted_at IS NULL
            UNION ALL
            SELECT n.id, tree.path || '/' || n.name FROM tree JOIN configuration_nodes n
              ON n.application_id = ${applicationId} AND n.parent_id = tree.id AND n.deleted_at IS NULL
          )
          SELECT n.id, tree.path, n.type, encode(n.sha256, 'hex') AS sha256, n.schema_id, n.version, n.size
          FROM tree JOIN configuration_nodes n ON n.id = tree.id ORDER BY tree.path COLLATE "C"`
      })
      const selectContents = SqlSchema.findAll({
        Request: Schema.Struct({ ids: Schema.Array(ConfigurationId), versions: Schema.Array(Schema.Int) }),
        Result: Schema.Struct({ id: ConfigurationId, content: Schema.String }),
        execute: ({ ids, versions }) => sql`
          SELECT v.node_id AS id, v.content
          FROM unnest(${ids}::integer[], ${versions}::integer[]) AS wanted(id, version)
          JOIN configuration_versions v ON v.node_id = wanted.id AND v.version = wanted.version`
      })

      return TreeRepository.of({
        thenAndNow: Effect.fn("TreeRepository.thenAndNow")((applicationId, at) =>
          Effect.orDie(selectThenAndNow({ applicationId, at }))
        ),
        standing: Effect.fn("TreeRepository.standing")((applicationId) => Effect.orDie(selectStanding(applicationId))),
        contents: Effect.fn("TreeRepository.contents")((versions) =>
          Effect.orDie(
            selectContents({ ids: versions.map(({ id }) => id), versions: versions.map(({ version }) => version) })
          )
        )
      })
    })
  )
}
