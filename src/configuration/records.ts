import { DateTime } from "effect"
import { type AuditDraft } from "../audit/domain.ts"
import { type AuditAction } from "../kernel/audit-action.ts"
import { type ConfigurationNode, type ConfigurationVersion, type ShownVersion } from "./domain.ts"
import { contentTypeOf } from "./names.ts"
import { type HeldNode } from "./repository.ts"

/** A node as the API shows it: with the media type that its name promises. */
export const shown = <Node extends Pick<ConfigurationNode, "name" | "type">>(node: Node) => ({
  ...node,
  contentType: node.type === "file" ? contentTypeOf(node.name) : null
})

/** A version as the API shows it. */
export const shownVersion = ({ restoredFrom, ...version }: ConfigurationVersion): ShownVersion =>
  restoredFrom === null ? version : { ...version, restoredFrom }

/** What an audit entry keeps of a node: of its content the version and the digest, never the text. */
export const recordOf = ({ name, parentId, path, schemaId, sha256, size, type, updatedAt, version }: HeldNode) => ({
  name,
  type,
  path,
  parentId,
  ...(type === "file" ? { version, size, sha256, schemaId } : {}),
  updatedAt: DateTime.formatIso(updatedAt)
})

/** The entry of a change to one node. */
export const entryOf = (
  action: AuditAction,
  { after, before, more }: { readonly before?: HeldNode; readonly after?: HeldNode; readonly more?: object }
): AuditDraft => {
  const node = after ?? before
  return {
    action,
    entityId: node?.id ?? 0,
    applicationId: node?.applicationId,
    ...(before === undefined ? {} : { before: recordOf(before) }),
    ...(after === undefined ? (more === undefined ? {} : { after: more }) : { after: { ...recordOf(after), ...more } })
  }
}
