import { type ConfigurationId } from "../model/domain.ts"
import { pathsBy } from "../model/path-domain.ts"
import { type NodeThenAndNow, type Placing, type VersionOf } from "../model/row-domain.ts"
import { type ConfigurationTreeChange, type TreeChangeKind } from "./domain.ts"

export interface RollbackPlan {
  readonly changes: ReadonlyArray<ConfigurationTreeChange>
  readonly placings: ReadonlyArray<Placing>
  /** Which files get which earlier version's content. */
  readonly contents: ReadonlyArray<VersionOf>
  /** The names of nodes that cannot come back. */
  readonly gone: ReadonlyArray<string>
}

const isDeleted = (node: NodeThenAndNow) => node.live && !node.thenLive

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
  const rootOf = (node: NodeThenAndNow): ConfigurationId => {
    const parent = node.parentId === null ? undefined : byId.get(node.parentId)
    return parent === undefined || !isDeleted(parent) ? node.id : rootOf(parent)
  }

  const changes: Array<ConfigurationTreeChange> = []
  const placings: Array<Placing> = []
  const contents: Array<VersionOf> = []
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
