import { Schema } from "effect"
import { serverSet } from "../../../kernel/http/server-set.ts"
import { Instant } from "../../../kernel/instant.ts"
import { PayloadTooLarge } from "../../../kernel/problems/problems.ts"
import { ApplicationId } from "../../applications/domain.ts"
import { ConfigurationId, Content, NodeType } from "../model/domain.ts"
import { NodePath } from "../model/path-domain.ts"

/** The most nodes that one archive may carry, the folders that paths imply among them. */
export const maximumArchiveNodes = 20_000

export const tooManyNodes = () =>
  new PayloadTooLarge({ detail: `An archive carries at most ${maximumArchiveNodes} files and folders.` })

/** What happened to a node when a whole tree was changed at once. */
export const TreeChangeKind = Schema.Literals(["created", "updated", "moved", "deleted", "restored"])
export type TreeChangeKind = typeof TreeChangeKind.Type

export const ConfigurationTreeChange = Schema.Struct({
  id: Schema.NullOr(ConfigurationId).annotate({ description: "Null in a dry run of what would be created" }),
  type: NodeType,
  path: Schema.String.annotate({
    description: "Its path afterwards; before, if it was deleted",
    examples: ["/settings.json"]
  }),
  previousPath: Schema.NullOr(Schema.String).annotate({
    description: "Its path before a move",
    examples: [null]
  }),
  changes: Schema.Array(TreeChangeKind).annotate({ examples: [["updated"]] })
}).annotate({ identifier: "ConfigurationTreeChange" })
export type ConfigurationTreeChange = typeof ConfigurationTreeChange.Type

/** Everything that a change of a whole tree did, or would do. */
export const ConfigurationTreeChanges = Schema.Struct({
  applicationId: ApplicationId,
  dryRun: Schema.Boolean.annotate({ description: "Whether nothing was changed" }),
  changes: Schema.Array(ConfigurationTreeChange)
}).annotate({ identifier: "ConfigurationTreeChanges" })
export type ConfigurationTreeChanges = typeof ConfigurationTreeChanges.Type

/** Which tree goes back to what it was at which moment. */
export const TreeRollback = Schema.Struct({
  applicationId: ApplicationId,
  at: Instant,
  dryRun: Schema.optionalKey(Schema.Boolean.annotate({ description: "Only say what would change", examples: [true] }))
}).annotate({ identifier: "TreeRollback" })
export type TreeRollback = typeof TreeRollback.Type

const SchemaPath = Schema.NullOr(NodePath).annotate({
  description: "The path of the JSON Schema file that the content is checked against",
  examples: [null]
})

/** A file or folder of an archive. */
export const ArchiveNode = Schema.Struct({
  path: NodePath,
  type: NodeType,
  content: Schema.optionalKey(Content).pipe(
    Schema.annotateKey({ description: "What a file holds; a folder has none" })
  ),
  schema: Schema.optionalKey(SchemaPath)
}).annotate({ identifier: "ConfigurationArchiveNode" })
export type ArchiveNode = typeof ArchiveNode.Type

const Nodes = Schema.Array(ArchiveNode).pipe(Schema.check(Schema.isMaxLength(maximumArchiveNodes)))

/** A whole tree as JSON. */
export const ConfigurationExport = Schema.Struct({
  applicationId: ApplicationId,
  exportedAt: Instant,
  nodes: Schema.Array(ArchiveNode)
}).annotate({ identifier: "ConfigurationExport" })

/** What an export answered, or nodes put together by hand; folders on the way to a node need not be listed. */
export const ConfigurationImport = Schema.Struct({
  nodes: Nodes,
  ...serverSet("applicationId", "exportedAt")
}).annotate({ identifier: "ConfigurationImport" })

/** How an archive meets what is there: `merge` adds and changes, `replace` also deletes what the archive lacks. */
export const ImportMode = Schema.Literals(["merge", "replace"])
export type ImportMode = typeof ImportMode.Type

export const ExportFormat = Schema.Literals(["json", "zip"])
