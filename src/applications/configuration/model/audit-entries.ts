import { DateTime } from "effect"
import { type AuditDraft, type AuditOrigin } from "../../../audit/log/domain.ts"
import { type AuditAction } from "../../../kernel/authority/audit-action.ts"
import { type ApplicationId } from "../../applications/domain.ts"
import { configurationActions, type ConfigurationNode, type ConfigurationVersion, type ShownVersion } from "./domain.ts"
import { contentTypeOf } from "./path-domain.ts"
import { type LockedNode, type WrittenNode } from "./row-domain.ts"

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
