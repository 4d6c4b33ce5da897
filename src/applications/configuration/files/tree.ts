import { type ApplicationId } from "../../applications/domain.ts"
import { type ConfigurationTreeNodeEncoded } from "../model/domain.ts"
import { shown } from "../model/audit-entries.ts"
import { type TreeRow } from "../model/row-domain.ts"

// Ten thousand names are sorted in milliseconds here, where a database takes tens of them.
const byName = (a: TreeRow, b: TreeRow): number => (a.name < b.name ? -1 : 1)

/** The tree that an application's nodes make, siblings by name; each gets the path to it. */
export const treeOf = (
  applicationId: ApplicationId,
  nodes: ReadonlyArray<TreeRow>
): ReadonlyArray<ConfigurationTreeNodeEncoded> => {
  const below = new Map<number | null, Array<TreeRow>>()
  for (const node of nodes) {
    const siblings = below.get(node.parentId)
    if (siblings === undefined) below.set(node.parentId, [node])
    else siblings.push(node)
  }
  const branches = (parentId: number | null, parentPath: string): ReadonlyArray<ConfigurationTreeNodeEncoded> =>
    (below.get(parentId) ?? []).toSorted(byName).map((node) => {
      const path = `${parentPath}/${node.name}`
      const createdAt = node.createdAt.toISOString()
      const isAsCreated = node.updatedAt.getTime() === node.createdAt.getTime()
      return Object.assign(shown(node), {
        applicationId,
        path,
        createdAt,
        updatedAt: isAsCreated ? createdAt : node.updatedAt.toISOString(),
        children: node.type === "folder" ? branches(node.id, path) : []
      })
    })
  return branches(null, "")
}
