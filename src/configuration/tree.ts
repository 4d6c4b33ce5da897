import { type ConfigurationId, type ConfigurationNode, type ConfigurationTreeNode } from "./domain.ts"
import { shown } from "./records.ts"

/** The tree that nodes make, siblings in the order given; each gets the path to it. */
export const treeOf = (nodes: ReadonlyArray<ConfigurationNode>): ReadonlyArray<ConfigurationTreeNode> => {
  const below = new Map<ConfigurationId | null, Array<ConfigurationNode>>()
  for (const node of nodes) {
    const siblings = below.get(node.parentId)
    if (siblings === undefined) below.set(node.parentId, [node])
    else siblings.push(node)
  }
  const branches = (parentId: ConfigurationId | null, parentPath: string): Array<ConfigurationTreeNode> =>
    (below.get(parentId) ?? []).map((node) => {
      const path = `${parentPath}/${node.name}`
      return { ...shown(node), path, children: node.type === "folder" ? branches(node.id, path) : [] }
    })
  return branches(null, "")
}
