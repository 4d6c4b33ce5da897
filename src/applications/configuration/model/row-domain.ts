import { Schema } from "effect"
import { InstantFromDate } from "../../../kernel/instant.ts"
import { type ApplicationId } from "../../applications/domain.ts"
import { ConfigurationId, ConfigurationNode, NodeType } from "./domain.ts"

/** A node, with a digest of where it was placed; null of a file that is where it was created. */
const TaggedNode = Schema.Struct({ ...ConfigurationNode.fields, placement: Schema.NullOr(Schema.String) })

/** A node as a change finds it: with the digest of its content, in hex, and whether it is deleted. */
export const LockedNode = Schema.Struct({
  ...TaggedNode.fields,
  sha256: Schema.NullOr(Schema.String),
  deletedAt: Schema.NullOr(InstantFromDate),
  deletedBy: Schema.NullOr(Schema.String),
  deletedWith: Schema.NullOr(ConfigurationId),
  /** Whether a live file names it as its schema. */
  isSchema: Schema.Boolean,
  /** The version of the schema that it names. */
  schemaVersion: Schema.NullOr(Schema.Int)
})
export type LockedNode = typeof LockedNode.Type

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

/** A node with its content; null of a folder. */
export const NodeWithContent = Schema.Struct({ ...TaggedNode.fields, content: Schema.NullOr(Schema.String) })
export type NodeWithContent = typeof NodeWithContent.Type

/** The depth of a node below another one, counting both. */
export const NodeDepth = Schema.Struct({ id: ConfigurationId, depth: Schema.Int })
export type NodeDepth = typeof NodeDepth.Type

/** A live node as the tree's answer is made of it. */
export const TreeRow = Schema.Struct({
  id: Schema.Int,
  parentId: Schema.NullOr(Schema.Int),
  name: Schema.String,
  type: NodeType,
  version: Schema.NullOr(Schema.Int),
  size: Schema.NullOr(Schema.Int),
  schemaId: Schema.NullOr(Schema.Int),
  createdAt: Schema.Date,
  createdBy: Schema.String,
  updatedAt: Schema.Date,
  updatedBy: Schema.String
})
export type TreeRow = typeof TreeRow.Type

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

/** The placement of a node: what a rename, a move or another schema changes. */
export interface Placement {
  readonly name: string
  readonly parentId: ConfigurationId | null
  readonly schemaId: ConfigurationId | null
}

/** A live node when a whole tree is read, with the size of its content. */
export const StandingRow = Schema.Struct({
  id: ConfigurationId,
  parentId: Schema.NullOr(ConfigurationId),
  name: Schema.String,
  type: NodeType,
  sha256: Schema.NullOr(Schema.String),
  schemaId: Schema.NullOr(ConfigurationId),
  version: Schema.NullOr(Schema.Int),
  size: Schema.NullOr(Schema.Int)
})
export type StandingRow = typeof StandingRow.Type

/** A live node of a whole tree, with its path. */
export interface StandingNode extends Omit<StandingRow, "name" | "parentId"> {
  readonly path: string
}

/** A node, and how it was at a moment; of a purged node only the latter is known. */
export const NodeThenAndNow = Schema.Struct({
  id: ConfigurationId,
  type: NodeType,
  gone: Schema.Boolean,
  live: Schema.Boolean,
  parentId: Schema.NullOr(ConfigurationId),
  name: Schema.String,
  schemaId: Schema.NullOr(ConfigurationId),
  version: Schema.NullOr(Schema.Int),
  sha256: Schema.NullOr(Schema.String),
  thenLive: Schema.Boolean,
  thenParentId: Schema.NullOr(ConfigurationId),
  thenName: Schema.String,
  thenSchemaId: Schema.NullOr(ConfigurationId),
  thenVersion: Schema.NullOr(Schema.Int),
  thenSha256: Schema.NullOr(Schema.String)
})
export type NodeThenAndNow = typeof NodeThenAndNow.Type

/** A version of a file. */
export interface VersionOf {
  readonly id: ConfigurationId
  readonly version: number
}

/** The wanted placement of a node; deleted as part of `deletedWith` where that is not null. */
export interface Placing extends Placement {
  readonly id: ConfigurationId
  readonly deletedWith: ConfigurationId | null
}

/** A node to be made with many others. */
export interface NewTreeNode {
  readonly parentId: ConfigurationId | null
  readonly name: string
  readonly type: NodeType
  readonly stored: StoredContent | null
}

/** The columns of a node but its path, of `configuration_nodes n`. */
export const nodeColumns = `
  n.id, n.application_id, n.parent_id, n.name, n.type, n.version, n.size, n.schema_id,
  n.created_at, n.created_by, n.updated_at, n.updated_by,
  CASE WHEN n.type = 'folder' OR n.placed_at <> n.created_at
    THEN left(md5(concat_ws('/', n.placed_at, n.parent_id, n.schema_id, n.name)), 10) END AS placement`

/** The column with a node's path. */
export const pathColumn = "configuration_path(n.id) AS path"

/** What a {@link LockedNode} has beside the columns of a node and its path. */
export const heldColumns = `
  encode(n.sha256, 'hex') AS sha256, n.deleted_at, n.deleted_by, n.deleted_with,
  EXISTS (SELECT FROM configuration_nodes f WHERE f.schema_id = n.id AND f.deleted_at IS NULL) AS is_schema,
  (SELECT version FROM configuration_nodes s WHERE s.id = n.schema_id) AS schema_version`

/** The columns of a {@link WrittenNode}, of `configuration_nodes n`. */
export const writtenColumns =
  "n.id, n.parent_id, n.name, n.type, n.schema_id, n.version, encode(n.sha256, 'hex') AS sha256"

/** A statement carries about this much content, in bytes, and one file more. */
const batchBytes = 4_194_304

/** Cuts a list where the contents of its items would make a statement too large. */
export const inBatchesOf = <A>(
  items: ReadonlyArray<A>,
  sizeOf: (item: A) => number
): ReadonlyArray<ReadonlyArray<A>> => {
  const all: Array<Array<A>> = []
  let size = Number.POSITIVE_INFINITY
  for (const item of items) {
    if (size > batchBytes) {
      all.push([])
      size = 0
    }
    all.at(-1)?.push(item)
    size += sizeOf(item) + 256
  }
  return all
}
