import { type ConfigurationId, type NodeType } from "./domain.ts"
import { type ConfigurationTreeChange, type TreeChangeKind } from "./tree-domain.ts"

/** A node as it stands now and as it stood at a moment; of what is gone for good only the latter is known. */
export interface NodeThenAndNow {
  readonly id: ConfigurationId
  readonly type: NodeType
  readonly gone: boolean
  readonly live: boolean
  readonly parentId: ConfigurationId | null
  readonly name: string
  readonly schemaId: ConfigurationId | null
  readonly version: number | null
  readonly sha256: string | null
  readonly thenLive: boolean
  readonly thenParentId: ConfigurationId | null
  readonly thenName: string
  readonly thenSchemaId: ConfigurationId | null
  readonly thenVersion: number | null
  readonly thenSha256: string | null
}

/** Where a node is to stand; deleted as part of `deletedWith` where that is not null. */
export interface Placing {
  readonly id: ConfigurationId
  readonly parentId: ConfigurationId | null
  readonly name: string
  readonly schemaId: ConfigurationId | null
  readonly deletedWith: ConfigurationId | null
}

export interface RollbackPlan {
  readonly changes: ReadonlyArray<ConfigurationTreeChange>
  readonly placings: ReadonlyArray<Placing>
  /** Which files get which earlier version's content. */
  readonly contents: ReadonlyArray<{ readonly id: ConfigurationId; readonly version: number }>
  /** The names of nodes that cannot come back. */
  readonly gone: ReadonlyArray<string>
}

/** What takes a tree back to what it was. */
export const planRollback = (nodes: ReadonlyArray<NodeThenAndNow>): RollbackPlan => {
  const byId = new Map(nodes.map((node) => [node.id, node]))
  const pathNow = pathsBy(
    byId,
    (node) => node.parentId,
    (node) => node.name
  )
  const pathThen = pathsBy(
    byId,
    (node) => node.thenParentId,
    (node) => node.thenName
  )
  const isDeleted = (node: NodeThenAndNow) => node.live && !node.thenLive
  const rootOf = (node: NodeThenAndNow): ConfigurationId => {
    const parent = node.parentId === null ? undefined : byId.get(node.parentId)
    return parent === undefined || !isDeleted(parent) ? node.id : rootOf(parent)
  }

  const changes: Array<ConfigurationTreeChange> = []
  const placings: Array<Placing> = []
  const contents: Array<{ id: ConfigurationId; version: number }> = []
  for (const node of nodes) {
    if (node.gone) continue
    const { id, live, name, parentId, schemaId, thenLive, thenName, thenParentId, thenSchemaId, type } = node
    if (isDeleted(node)) {
      placings.push({ id, parentId, name, schemaId, deletedWith: rootOf(node) })
      changes.push({ id, type, path: pathNow(id), previousPath: null, changes: ["deleted"] })
      continue
    }
    if (!thenLive) continue
    const isMoved = live && (parentId !== thenParentId || name !== thenName)
    const isRebound = schemaId !== thenSchemaId
    const isOther = node.sha256 !== node.thenSha256
    if (!live || isMoved || isRebound) {
      placings.push({ id, parentId: thenParentId, name: thenName, schemaId: thenSchemaId, deletedWith: null })
    }
    if (isOther && node.thenVersion !== null) contents.push({ id, version: node.thenVersion })
    const kinds: ReadonlyArray<TreeChangeKind> = [
      ...(live ? [] : (["restored"] as const)),
      ...(isMoved ? (["moved"] as const) : []),
      ...(isOther || (live && isRebound) ? (["updated"] as const) : [])
    ]
    if (kinds.length === 0) continue
    changes.push({ id, type, path: pathThen(id), previousPath: isMoved ? pathNow(id) : null, changes: kinds })
  }
  return {
    changes,
    placings,
    contents,
    gone: nodes.flatMap((node) => (node.gone && node.thenLive ? [node.thenName] : []))
  }
}

const pathsBy = (
  nodes: ReadonlyMap<ConfigurationId, NodeThenAndNow>,
  parentOf: (node: NodeThenAndNow) => ConfigurationId | null,
  nameOf: (node: NodeThenAndNow) => string
) => {
  const known = new Map<ConfigurationId, string>()
  const pathOf = (id: ConfigurationId): string => {
    const path = known.get(id)
    if (path !== undefined) return path
    const node = nodes.get(id)
    if (node === undefined) return ""
    const parentId = parentOf(node)
    const made = `${parentId === null ? "" : pathOf(parentId)}/${nameOf(node)}`
    known.set(id, made)
    return made
  }
  return pathOf
}
