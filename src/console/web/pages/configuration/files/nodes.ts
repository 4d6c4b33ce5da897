import { type Answer, type Row } from "../../../api/operations.ts"
import { count } from "../../../kit/format.tsx"
import { isBuiltIn } from "../../../kit/names/built-in.ts"

export type Application = Row<"applications.list">
export type TreeNode = Answer<"configurationTrees.get">[number]
export type Node = Answer<"configuration.get">

/** What the parts of the page of a file are about. */
export interface OfFile {
  readonly locked: string | undefined
  readonly node: Node
}

export const write = "configuration:write"

/** Why the files of an application are not changed here. */
export const lockOf = (application: Application): string | undefined =>
  isBuiltIn(application) ? "The configuration of a built-in application is managed on its own pages" : undefined

/** The condition that a version is still the newest. */
export const etag = (version: number) => ({ "if-match": `"${version}"` })

/** Every node of a tree, those that contain others first. */
export const flat = (nodes: ReadonlyArray<TreeNode>): ReadonlyArray<TreeNode> =>
  nodes.flatMap((node) => [node, ...flat(node.children)])

export const sizeText = (bytes: number | null): string =>
  bytes === null ? "" : bytes < 1024 ? `${bytes} B` : `${count(Math.round(bytes / 1024))} KB`

export const foldersIn = (nodes: ReadonlyArray<TreeNode>): ReadonlyArray<readonly [string, string]> => [
  ["", "/"],
  ...flat(nodes)
    .filter(({ type }) => type === "folder")
    .map(({ id, path }) => [String(id), path] as const)
]

/** The files that may be schemas. */
export const schemasIn = (nodes: ReadonlyArray<TreeNode>, but?: number): ReadonlyArray<readonly [string, string]> => [
  ["", "nothing"],
  ...flat(nodes)
    .filter(({ id, name, type }) => type === "file" && id !== but && /\.(?:json|ya?ml)$/i.test(name))
    .map(({ id, path }) => [String(id), path] as const)
]

/** The choices with the one that was made, whatever its name is. */
export const withChosen = (
  choices: ReadonlyArray<readonly [string, string]>,
  nodes: ReadonlyArray<TreeNode>,
  chosen: number | null
): ReadonlyArray<readonly [string, string]> =>
  chosen === null || choices.some(([id]) => id === String(chosen))
    ? choices
    : [...choices, [String(chosen), flat(nodes).find(({ id }) => id === chosen)?.path ?? `File ${chosen}`]]
