import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { type ApplicationId } from "../../applications/domain.ts"
import { ConfigurationId } from "../model/domain.ts"
import { pathsBy } from "../model/path-domain.ts"
import { NodeThenAndNow, type StandingNode, StandingRow, type VersionOf } from "../model/row-domain.ts"

/** What is read of a whole tree at once. */
export class TreeRepository extends Context.Service<TreeRepository>()("app/applications/TreeRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient

    const selectThenAndNow = SqlSchema.findAll({
      Request: Schema.Struct({ applicationId: Schema.Int, at: Schema.Date }),
      Result: NodeThenAndNow,
      execute: ({ applicationId, at }) =>
        sql`
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
          WHERE placed.live OR (now.id IS NOT NULL AND now.deleted_at IS NULL)`.unprepared
    })
    const selectStanding = SqlSchema.findAll({
      Request: Schema.Int,
      Result: StandingRow,
      execute: (applicationId) => sql`
          SELECT id, parent_id, name, type, encode(sha256, 'hex') AS sha256, schema_id, version, size
          FROM configuration_nodes WHERE application_id = ${applicationId} AND deleted_at IS NULL`
    })
    const selectContents = SqlSchema.findAll({
      Request: Schema.Struct({ ids: Schema.Array(ConfigurationId), versions: Schema.Array(Schema.Int) }),
      Result: Schema.Struct({ id: ConfigurationId, content: Schema.String }),
      execute: ({ ids, versions }) =>
        sql`
          SELECT v.node_id AS id, v.content
          FROM unnest(${ids}::integer[], ${versions}::integer[]) AS wanted(id, version)
          JOIN configuration_versions v ON v.node_id = wanted.id AND v.version = wanted.version`.unprepared
    })

    return {
      /** What the tree has now or had at a moment. */
      thenAndNow: Effect.fn("TreeRepository.thenAndNow")((applicationId: ApplicationId, at: Date) =>
        Effect.orDie(selectThenAndNow({ applicationId, at }))
      ),
      /** Every live node, in the order of the paths. */
      standing: Effect.fn("TreeRepository.standing")((applicationId: ApplicationId) =>
        Effect.orDie(Effect.map(selectStanding(applicationId), inOrder))
      ),
      /** The contents of versions, in any order. */
      contents: Effect.fn("TreeRepository.contents")((versions: ReadonlyArray<VersionOf>) =>
        Effect.orDie(
          selectContents({ ids: versions.map(({ id }) => id), versions: versions.map(({ version }) => version) })
        )
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}

const inOrder = (rows: ReadonlyArray<StandingRow>): ReadonlyArray<StandingNode> => {
  const pathOf = pathsBy(
    new Map(rows.map((row) => [row.id, row])),
    ({ parentId }) => parentId,
    ({ name }) => name
  )
  return rows
    .map(({ id, schemaId, sha256, size, type, version }) => ({
      id,
      path: pathOf(id),
      type,
      sha256,
      schemaId,
      version,
      size
    }))
    .toSorted((a, b) => (a.path < b.path ? -1 : 1))
}
