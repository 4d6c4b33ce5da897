import { Schema } from "effect"
import { Model } from "effect/schema"
import { auditActions } from "../../../kernel/authority/audit-action.ts"
import { entityTag } from "../../../kernel/http/precondition.ts"
import { serverSet } from "../../../kernel/http/server-set.ts"
import { generatedId, IntegerId } from "../../../kernel/identifier.ts"
import { Instant, InstantFromDate } from "../../../kernel/instant.ts"
import { Problem } from "../../../kernel/problems/problem.ts"
import { storable } from "../../../kernel/text.ts"
import { ApplicationId } from "../../applications/domain.ts"
import { NodeName } from "./path-domain.ts"

/** The most that a file may hold, in bytes of UTF-8. */
export const maximumContentBytes = 1_048_576

export const ConfigurationId = IntegerId.pipe(Schema.brand("ConfigurationId"))
export type ConfigurationId = typeof ConfigurationId.Type

/** The number of a version: 1 for a file's first content, one more for each after it. */
export const VersionNumber = IntegerId.annotate({ examples: [1] })

export const NodeType = Schema.Literals(["file", "folder"]).annotate({ examples: ["file"] })
export type NodeType = typeof NodeType.Type

/** Text of a file; more than 1 MiB is refused with 413, so only its form is checked here. */
export const Content = storable(Schema.String.annotate({ examples: ['{ "retries": 3 }\n'] }))

const ParentId = Schema.NullOr(ConfigurationId).annotate({
  component: "ConfigurationParentId",
  description: "The folder that contains it; null at the root",
  examples: [null]
})
const SchemaId = Schema.NullOr(ConfigurationId).annotate({
  component: "ConfigurationSchemaId",
  description: "The JSON Schema file that its content is checked against",
  examples: [null]
})
const Size = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: maximumContentBytes })))
const Actor = Schema.String.annotate({ examples: ["service-account"] })
const Stamp = Model.Field({ select: InstantFromDate, json: Instant })

/** A file or folder of an application's configuration, without its content. */
export class ConfigurationNode extends Model.Class<ConfigurationNode>("ConfigurationNode")({
  id: generatedId(ConfigurationId),
  applicationId: ApplicationId,
  parentId: ParentId,
  name: NodeName,
  type: NodeType,
  path: Schema.String.annotate({ examples: ["/settings.json"] }),
  version: Schema.NullOr(VersionNumber).annotate({ description: "The newest version; null of a folder" }),
  contentType: Model.Field({
    json: Schema.NullOr(Schema.String).annotate({
      description: "What the ending of the name promises; null of a folder",
      examples: ["application/json"]
    })
  }),
  size: Schema.NullOr(Size).annotate({ description: "Bytes of UTF-8; null of a folder", examples: [17] }),
  schemaId: SchemaId,
  createdAt: Stamp,
  createdBy: Actor,
  updatedAt: Stamp,
  updatedBy: Actor
}) {}

/** A node as it is shown alone: a file with its content. */
export const ConfigurationFile = Schema.Struct({
  ...ConfigurationNode.json.fields,
  content: Schema.optionalKey(Content).pipe(Schema.annotateKey({ description: "Absent of a folder" }))
}).annotate({ identifier: "ConfigurationFile" })
export type ConfigurationFile = typeof ConfigurationFile.Type

/** A node as it is shown alone, with what its entity tag has beside its version. */
export type TaggedFile = ConfigurationFile & { readonly placement: string | null }

/** The entity tag of a node: its version, and once it was moved, renamed or given another schema, a digest of that. */
export const tagOf = ({ placement, version }: Pick<TaggedFile, "placement" | "version">): string =>
  entityTag(placement === null ? (version ?? 0) : `${version ?? 0}-${placement}`)

/** A tag without the placement, which a new content does not depend on. */
export const versionTag = (tag: string): string => tag.replace(/^"(\d+)-\w+"$/, '"$1"')

/** A node of the tree, with the nodes below it in the order of their names. */
export interface ConfigurationTreeNode extends Schema.Struct.Type<typeof ConfigurationNode.json.fields> {
  readonly children: ReadonlyArray<ConfigurationTreeNode>
}
/** A node of the tree as the response encodes it. */
export interface ConfigurationTreeNodeEncoded extends Schema.Struct.Encoded<typeof ConfigurationNode.json.fields> {
  readonly children: ReadonlyArray<ConfigurationTreeNodeEncoded>
}
export const ConfigurationTreeNode = Schema.Struct({
  ...ConfigurationNode.json.fields,
  children: Schema.Array(
    Schema.suspend((): Schema.Codec<ConfigurationTreeNode, ConfigurationTreeNodeEncoded> => ConfigurationTreeNode)
  ).annotate({ examples: [[]] })
}).annotate({ identifier: "ConfigurationTreeNode" })

/** A node that was deleted and can be restored. */
export const DeletedConfiguration = Schema.Struct({
  ...ConfigurationNode.json.fields,
  deletedAt: Instant,
  deletedBy: Actor
}).annotate({ identifier: "DeletedConfiguration" })
export type DeletedConfiguration = typeof DeletedConfiguration.Type

/** What a file locked from one save to the next. */
export class ConfigurationVersion extends Model.Class<ConfigurationVersion>("ConfigurationVersion")({
  version: VersionNumber,
  content: Content,
  createdAt: Stamp,
  createdBy: Actor,
  restoredFrom: Model.Field({ select: Schema.NullOr(VersionNumber), json: Schema.optionalKey(VersionNumber) })
}) {}
/** A version as the API returns it: only those that a rollback made have `restoredFrom`. */
export type ShownVersion = typeof ConfigurationVersion.json.Type

/** How one version came out of another, as a unified diff. */
export const ConfigurationDiff = Schema.Struct({
  from: VersionNumber,
  to: VersionNumber,
  diff: Schema.String.annotate({
    description: "A unified diff; empty where nothing differs",
    examples: ['@@ -1 +1 @@\n-{ "retries": 3 }\n+{ "retries": 5 }\n']
  })
}).annotate({ identifier: "ConfigurationDiff" })
export type ConfigurationDiff = typeof ConfigurationDiff.Type

/** The event that a watching client receives. */
export const ConfigurationEvent = Schema.Struct({
  id: ConfigurationId,
  version: VersionNumber,
  etag: Schema.String.annotate({ examples: ['"3"'] })
})
export type ConfigurationEvent = typeof ConfigurationEvent.Type

/** A new file, with its first content, or a new folder, which has none. */
export const NewConfiguration = Schema.Struct({
  applicationId: ApplicationId,
  parentId: Schema.optionalKey(ParentId),
  name: NodeName,
  type: NodeType,
  content: Schema.optionalKey(Content).pipe(
    Schema.annotateKey({ description: "Empty when absent; a folder has none" })
  ),
  schemaId: Schema.optionalKey(SchemaId)
}).annotate({ identifier: "NewConfiguration" })
export type NewConfiguration = typeof NewConfiguration.Type

const setByServer = serverSet(
  "id",
  "applicationId",
  "type",
  "path",
  "version",
  "contentType",
  "size",
  "createdAt",
  "createdBy",
  "updatedAt",
  "updatedBy"
)

export const ConfigurationContent = Schema.Struct({
  content: Content,
  ...setByServer,
  ...serverSet("parentId", "name", "schemaId")
}).annotate({ identifier: "ConfigurationContent" })

/** A rename, a move or another schema: any subset. */
export const ConfigurationPatch = Schema.Struct({
  name: Schema.optionalKey(NodeName),
  parentId: Schema.optionalKey(ParentId),
  schemaId: Schema.optionalKey(SchemaId),
  ...setByServer,
  ...serverSet("content")
}).annotate({ identifier: "ConfigurationPatch" })
export type ConfigurationPatch = typeof ConfigurationPatch.Type

export const configurationActions = auditActions("Configuration", [
  "ConfigurationCreated",
  "ConfigurationUpdated",
  "ConfigurationRolledBack",
  "ConfigurationMoved",
  "ConfigurationDeleted",
  "ConfigurationRestored",
  "ConfigurationPurged"
])

export const configurationTreeActions = auditActions("ConfigurationTree", [
  "ConfigurationImported",
  "ConfigurationTreeRolledBack"
])

export class ConfigurationNotFound extends Problem<ConfigurationNotFound>()("ConfigurationNotFound", {
  slug: "configuration-not-found",
  status: 404,
  meaning: "No file or folder has this id or path, or it is deleted."
}) {}

export class ConfigurationVersionNotFound extends Problem<ConfigurationVersionNotFound>()(
  "ConfigurationVersionNotFound",
  { slug: "configuration-version-not-found", status: 404, meaning: "The file has no version of this number." }
) {}

export class ConfigurationManaged extends Problem<ConfigurationManaged>()("ConfigurationManaged", {
  slug: "configuration-managed",
  status: 403,
  meaning: "The configuration of a built-in application is changed through its own endpoints only."
}) {}

export class ConfigurationNameTaken extends Problem<ConfigurationNameTaken>()("ConfigurationNameTaken", {
  slug: "configuration-name-taken",
  status: 409,
  meaning: "The folder already contains a file or folder of this name."
}) {}

export class ConfigurationNoFile extends Problem<ConfigurationNoFile>()("ConfigurationNoFile", {
  slug: "configuration-no-file",
  status: 400,
  meaning: "This is a folder, which has no content and no versions."
}) {}

export class ConfigurationParentUnfit extends Problem<ConfigurationParentUnfit>()("ConfigurationParentUnfit", {
  slug: "configuration-parent-unfit",
  status: 409,
  meaning: "The parent must be a folder of the same application that is not deleted."
}) {}

export class ConfigurationCycle extends Problem<ConfigurationCycle>()("ConfigurationCycle", {
  slug: "configuration-cycle",
  status: 409,
  meaning: "A folder cannot be moved into itself or below itself."
}) {}

export class ConfigurationTooDeep extends Problem<ConfigurationTooDeep>()("ConfigurationTooDeep", {
  slug: "configuration-too-deep",
  status: 409,
  meaning: "A tree is at most 64 names deep."
}) {}

export class ConfigurationSchemaUnfit extends Problem<ConfigurationSchemaUnfit>()("ConfigurationSchemaUnfit", {
  slug: "configuration-schema-unfit",
  status: 409,
  meaning: "A schema must be another file of the same application that is not deleted, and only files have one."
}) {}

export class ConfigurationSchemaInUse extends Problem<ConfigurationSchemaInUse>()("ConfigurationSchemaInUse", {
  slug: "configuration-schema-in-use",
  status: 409,
  meaning: "Files that stay are checked against this schema, so it is not deleted."
}) {}

export class ConfigurationHistoryGone extends Problem<ConfigurationHistoryGone>()(
  "ConfigurationHistoryGone",
  {
    slug: "configuration-history-gone",
    status: 409,
    meaning:
      "Nodes that the tree had then were deleted more than 30 days ago and are gone for good; `names` lists them."
  },
  { names: Schema.Array(Schema.String) }
) {}

export class ConfigurationArchiveUnreadable extends Problem<ConfigurationArchiveUnreadable>()(
  "ConfigurationArchiveUnreadable",
  { slug: "configuration-archive-unreadable", status: 400, meaning: "The body is no zip archive that can be read." }
) {}

export class ConfigurationNotPortable extends Problem<ConfigurationNotPortable>()(
  "ConfigurationNotPortable",
  {
    slug: "configuration-not-portable",
    status: 409,
    meaning: "A zip archive cannot contain paths of the tree; export it as JSON."
  },
  { paths: Schema.Array(Schema.String) }
) {}
