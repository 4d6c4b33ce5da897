import { type AuditDraft } from "../../../audit/log/domain.ts"
import { type AuditAction } from "../../../kernel/authority/audit-action.ts"
import { configurationActions, type ConfigurationId } from "../model/domain.ts"
import { type WrittenNode } from "../model/row-domain.ts"
import { type ConfigurationTreeChanges, type TreeChangeKind } from "./domain.ts"

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
