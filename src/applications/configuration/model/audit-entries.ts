import { DateTime } from "effect"
import { type ApplicationId } from "../../applications/domain.ts"
import { type AuditDraft, type AuditOrigin } from "../../../audit/log/domain.ts"
import { type AuditAction } from "../../../kernel/audit-action.ts"
import {
  configurationActions,
  type ConfigurationId,
  type ConfigurationNode,
  type ConfigurationVersion,
  type ShownVersion
} from "./domain.ts"
import { contentTypeOf } from "./path-domain.ts"
import { type LockedNode, type WrittenNode } from "./row-domain.ts"
import { type ConfigurationTreeChanges, type TreeChangeKind } from "../trees/domain.ts"

/** A node as the API shows it: with the media type that its name promises. */
export const shown = <Node extends Pick<ConfigurationNode, "name" | "type">>(node: Node) => ({
  ...node,
  contentType: node.type === "file" ? contentTypeOf(node.name) : null
})

/** A version as the API shows it. */
export const shownVersion = ({ restoredFrom, ...version }: ConfigurationVersion): ShownVersion =>
  restoredFrom === null ? version : { ...version, restoredFrom }

/** What an audit entry stores of a node: the version and digest of its content, never the text. */
export const auditSnapshot = ({
  name,
  parentId,
  path,
  schemaId,
  sha256,
  size,
  type,
  updatedAt,
  version
}: LockedNode) => ({
  name,
  type,
  path,
  parentId,
  ...(type === "file" ? { version, size, sha256, schemaId } : {}),
  updatedAt: DateTime.formatIso(updatedAt)
})

/** A change that left a node: how it was, how it is, what else is kept of that, and whose change it is if not the caller's. */
interface NodeChange {
  readonly before?: LockedNode
  readonly after: LockedNode
  readonly more?: object
  readonly origin?: AuditOrigin | undefined
}

/** The entry of a change that left a node. */
export const entryOf = (action: AuditAction, { after, before, more, origin }: NodeChange): AuditDraft => ({
  action,
  entityId: after.id,
  applicationId: after.applicationId,
  origin,
  ...(before === undefined ? {} : { before: auditSnapshot(before) }),
  after: { ...auditSnapshot(after), ...more }
})

/** The entry of a node that was deleted, alone or with its folder. */
export const deletedEntry =
  (applicationId: ApplicationId) =>
  ({ id, ...before }: WrittenNode): AuditDraft => ({
    action: configurationActions.ConfigurationDeleted,
    entityId: id,
    applicationId,
    before
  })

/** The entry of a node that was restored, alone or with its folder. */
export const restoredEntry =
  (applicationId: ApplicationId) =>
  ({ id, ...after }: WrittenNode): AuditDraft => ({
    action: configurationActions.ConfigurationRestored,
    entityId: id,
    applicationId,
    after
  })

/** A node as the audit entries of a tree change describe it. */
type NodeSummary = Pick<WrittenNode, "schemaId" | "sha256" | "version">

const summaryOf = (path: string, node: NodeSummary | undefined) => ({
  path,
  ...(node === undefined || node.sha256 === null
    ? {}
    : { version: node.version, sha256: node.sha256, schemaId: node.schemaId })
})

const actionOf = ([kind]: ReadonlyArray<TreeChangeKind>): AuditAction => {
  switch (kind) {
    case "created":
      return configurationActions.ConfigurationCreated
    case "restored":
      return configurationActions.ConfigurationRestored
    case "moved":
      return configurationActions.ConfigurationMoved
    case "deleted":
      return configurationActions.ConfigurationDeleted
    default:
      return configurationActions.ConfigurationUpdated
  }
}

/** One entry for the change of a tree, and one for each node that it touched. */
export const treeEntries = (
  action: AuditAction,
  { applicationId, changes }: ConfigurationTreeChanges,
  details: object,
  before: ReadonlyMap<ConfigurationId, NodeSummary>,
  after: ReadonlyMap<ConfigurationId, NodeSummary>
): ReadonlyArray<AuditDraft> => [
  { action, entityId: applicationId, applicationId, after: { ...details, changedNodes: changes.length } },
  ...changes.flatMap(({ changes: kinds, id, path, previousPath, type }) => {
    if (id === null) return []
    const known = before.get(id)
    return {
      action: actionOf(kinds),
      entityId: id,
      applicationId,
      ...(known === undefined ? {} : { before: { type, ...summaryOf(previousPath ?? path, known) } }),
      ...(kinds.includes("deleted")
        ? {}
        : { after: { type, ...summaryOf(path, after.get(id) ?? known), changes: kinds } })
    }
  })
]
