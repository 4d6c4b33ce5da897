import { type ConfigurationTreeNodeEncoded } from "./domain.ts"
import { shown } from "./records.ts"
import { type TreeRow } from "./row-domain.ts"

/** The tree that nodes make, siblings in the order given; each gets the path to it. */
export const treeOf = (nodes: ReadonlyArray<TreeRow>): ReadonlyArray<ConfigurationTreeNodeEncoded> => {
  const below = new Map<number | null, Array<TreeRow>>()
  for (const node of nodes) {
    const siblings = below.get(node.parentId)
    if (siblings === undefined) below.set(node.parentId, [node])
    else siblings.push(node)
  }
  const branches = (parentId: number | null, parentPath: string): ReadonlyArray<ConfigurationTreeNodeEncoded> =>
    (below.get(parentId) ?? []).map((node) => {
      const path = `${parentPath}/${node.name}`
      return Object.assign(shown(node), { path, children: node.type === "folder" ? branches(node.id, path) : [] })
    })
  return branches(null, "")
}
