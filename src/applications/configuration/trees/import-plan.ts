import { type Fault } from "../../../kernel/problems/problem.ts"
import { type ConfigurationId, type NodeType } from "../model/domain.ts"
import { nameOf, namesIn, parentPath } from "../model/path-domain.ts"
import { type StandingNode, type StoredContent } from "../model/row-domain.ts"
import { type Validation } from "../schema-validation/contents.ts"
import { type ConfigurationTreeChange, type ImportMode, maximumArchiveNodes, type TreeChangeKind } from "./domain.ts"

/** A node of an archive with its content measure; `schema` undefined says nothing of it. */
export interface ArchivedNode {
  readonly path: string
  readonly type: NodeType
  readonly stored: StoredContent | null
  readonly sha256: string | null
  readonly schema: string | null | undefined
  /** Its path in the request, for faults. */
  readonly at: ReadonlyArray<string | number>
}

/** A node as it is to be: there already (`id`), or to be made. */
export interface WantedNode {
  readonly id: ConfigurationId | null
  readonly path: string
  readonly depth: number
  readonly type: NodeType
  /** Its entry in the archive; undefined for an implied folder, and for what stays. */
  readonly archived: ArchivedNode | undefined
  readonly standing: StandingNode | undefined
  readonly schema: string | null
  readonly isUpdated: boolean
  readonly isRebound: boolean
}

export interface ImportPlan {
  readonly faults: ReadonlyArray<Fault>
  /** Every node of the tree afterwards, parents before children. */
  readonly wanted: ReadonlyMap<string, WantedNode>
  readonly deleted: ReadonlyArray<StandingNode>
  readonly changes: ReadonlyArray<ConfigurationTreeChange>
}

/** An archive by path: the nodes that it lists and (undefined) the folders that their paths imply; with what is wrong with it. */
export interface Archive {
  readonly named: ReadonlyMap<string, ArchivedNode | undefined>
  readonly faults: ReadonlyArray<Fault>
}

/** The archive of these nodes; undefined where it has more than an archive may carry. */
export const archiveOf = (nodes: ReadonlyArray<ArchivedNode>): Archive | undefined => {
  const faults: Array<Fault> = []
  const named = new Map<string, ArchivedNode | undefined>()
  for (const node of nodes) {
    if (named.get(node.path) !== undefined) faults.push({ path: [...node.at, "path"], message: "Listed twice" })
    named.set(node.path, node)
  }
  for (const node of nodes) {
    for (let above = parentPath(node.path); above !== "" && !named.has(above); above = parentPath(above)) {
      named.set(above, undefined)
    }
    if (named.size > maximumArchiveNodes) return undefined
    if (named.get(parentPath(node.path))?.type === "file") {
      faults.push({ path: [...node.at, "path"], message: "Is below a file of the archive" })
    }
  }
  return { named, faults }
}

/** What makes a tree what an archive says. */
export const planImport = (archive: Archive, standing: ReadonlyArray<StandingNode>, mode: ImportMode): ImportPlan => {
  const { named } = archive
  const faults = [...archive.faults]
  const byPath = new Map(standing.map((node) => [node.path, node]))
  const pathById = new Map(standing.map((node) => [node.id, node.path]))
  const kept = (path: string, type: NodeType) => {
    const node = byPath.get(path)
    return node?.type === type ? node : undefined
  }
  const wanted = new Map<string, WantedNode>()
  const paths = new Set([...named.keys(), ...(mode === "merge" ? byPath.keys() : [])])
  const placed = [...paths].map((path) => ({ path, depth: namesIn(path).length }))
  for (const { depth, path } of placed.toSorted((a, b) => a.depth - b.depth)) {
    const archived = named.get(path)
    const type = archived?.type ?? (named.has(path) ? "folder" : (byPath.get(path)?.type ?? "folder"))
    const node = kept(path, type)
    if (mode === "merge" && node === undefined && byPath.has(path)) {
      const at = archived === undefined ? ["payload", "nodes"] : [...archived.at, "path"]
      faults.push({ path: at, message: `${path} is a ${byPath.get(path)?.type}` })
    }
    const bound = node?.schemaId == null ? null : (pathById.get(node.schemaId) ?? null)
    const schema = archived?.schema === undefined && mode === "merge" ? bound : (archived?.schema ?? null)
    wanted.set(path, {
      id: node?.id ?? null,
      path,
      depth,
      type,
      archived,
      standing: node,
      schema,
      isUpdated: node !== undefined && archived !== undefined && archived.sha256 !== node.sha256,
      isRebound: node !== undefined && schema !== bound
    })
  }
  for (const { archived, path, schema, type } of wanted.values()) {
    if (schema === null || archived === undefined) continue
    if (type === "folder" || schema === path || wanted.get(schema)?.type !== "file") {
      faults.push({ path: [...archived.at, "schema"], message: "Expected the path of another file of the tree" })
    }
  }
  const deleted = standing.filter(({ path, type }) => wanted.get(path)?.type !== type)
  return { faults, wanted, deleted, changes: changesOf(wanted, deleted) }
}

const changeOf = (
  { id, path, type }: Pick<WantedNode, "id" | "path" | "type">,
  kind: TreeChangeKind
): ConfigurationTreeChange => ({ id, type, path, previousPath: null, changes: [kind] })

const changesOf = (
  wanted: ImportPlan["wanted"],
  deleted: ImportPlan["deleted"]
): ReadonlyArray<ConfigurationTreeChange> => [
  ...deleted.map((node) => changeOf(node, "deleted")),
  ...[...wanted.values()].flatMap((node) => {
    if (node.id === null) return [changeOf(node, "created")]
    return node.isUpdated || node.isRebound ? [changeOf(node, "updated")] : []
  })
]

const digestOf = ({ archived, standing }: WantedNode): string => archived?.sha256 ?? standing?.sha256 ?? ""

/** What must hold of the contents that an archive brings: that they fit their schemas, and that schemas are schemas. */
export const validationsOf = (wanted: ReadonlyMap<string, WantedNode>): ReadonlyArray<Validation> => {
  const named = new Set([...wanted.values()].flatMap(({ schema }) => (schema === null ? [] : [schema])))
  return [...wanted.values()].flatMap((node): ReadonlyArray<Validation> => {
    const { archived, id, isRebound, isUpdated, path } = node
    if (!archived?.stored || !(id === null || isUpdated || isRebound)) return []
    const file = { name: nameOf(path), content: archived.stored.content }
    const at = { content: archived.at.concat("content"), schema: archived.at.concat("schema") }
    const key = `${digestOf(node)} ${file.name}`
    const schema = node.schema === null ? undefined : wanted.get(node.schema)
    const against =
      schema?.archived?.stored == null
        ? schema?.standing?.id
        : { name: nameOf(schema.path), content: schema.archived.stored.content }
    const validations: Array<Validation> = []
    if (named.has(path)) validations.push({ key: `as schema ${key}`, file, against: null, at })
    if (schema !== undefined && against !== undefined) {
      validations.push({ key: `${digestOf(schema)} ${nameOf(schema.path)} ${key}`, file, against, at })
    }
    return validations
  })
}
