import { Schema } from "effect"
import { lookupTable } from "../../../kernel/lookup-table.ts"
import { composed, text, visible } from "../../../kernel/text.ts"

const nameBytes = 255
/** How deep a tree may be, in names from the root to a node. */
export const maximumDepth = 64

const encoder = new TextEncoder()

/** The length of a text in bytes of UTF-8. */
export const bytesOf = (content: string): number => encoder.encode(content).length

const fitsInBytes = Schema.makeFilter((name: string) => bytesOf(name) <= nameBytes, {
  expected: `at most ${nameBytes} bytes of UTF-8`
})

// Clients are generated with regular expressions that know no look-around and no classes of Unicode.
const name = String.raw`(?:[^/\s.][^/\s]?|\.[^/\s.]|[^/\s][^/]+[^/\s])$`
/** The name of a node: 1 to 255 bytes of UTF-8 without `/` and NUL, no blanks at its ends, neither `.` nor `..`. */
export const NodeName = composed(
  text(1, nameBytes).pipe(
    Schema.check(
      fitsInBytes,
      Schema.isPattern(new RegExp(String.raw`^(?=[^]*${visible})${name}`, "u"), {
        expected: "a name without '/', without blanks at its ends, and neither '.' nor '..'",
        toJsonSchema: () => ({ pattern: `^${name}` })
      })
    )
  ),
  { component: "NodeName", examples: ["settings.json"] }
)

const isName = Schema.is(NodeName)

/** The names that a path such as `/service/settings.json` is made of. */
export const namesIn = (path: string): ReadonlyArray<string> => path.split("/").slice(1)

/** The path of the containing folder; empty at the root. */
export const parentPath = (path: string): string => path.slice(0, path.lastIndexOf("/"))

/** The last name of a path. */
export const nameOf = (path: string): string => path.slice(path.lastIndexOf("/") + 1)

const isPath = Schema.makeFilter(
  (path: string) => {
    const names = namesIn(path)
    return path.startsWith("/") && names.length <= maximumDepth && names.every(isName)
  },
  { expected: `a path such as /service/settings.json: at most ${maximumDepth} names, each with a '/' before it` }
)

/** The path of a node in its tree: every name from the root on, each with a `/` before it. */
export const NodePath = composed(
  text(2, maximumDepth * (nameBytes + 1)).pipe(
    Schema.check(isPath, Schema.isPattern(/^\/[\s\S]+$/u, { expected: "a path that begins with '/'" }))
  ),
  { examples: ["/settings.json"] }
)

const contentTypes = lookupTable<string>({
  json: "application/json",
  yaml: "application/yaml",
  yml: "application/yaml",
  toml: "application/toml",
  xml: "application/xml",
  md: "text/markdown",
  csv: "text/csv",
  html: "text/html",
  css: "text/css",
  js: "text/javascript"
})

/** The media type that a file's name promises; plain text where its ending says nothing. */
export const contentTypeOf = (name: string): string => {
  const ending = /\.([^.]+)$/.exec(name)?.[1]?.toLowerCase() ?? ""
  return contentTypes[ending] ?? "text/plain"
}

/** The paths of nodes, from each one's parent and name; empty for a node that is not among them. */
export const pathsBy = <Id, Node>(
  nodes: ReadonlyMap<Id, Node>,
  parentOf: (node: Node) => Id | null,
  nameOf: (node: Node) => string
): ((id: Id) => string) => {
  const known = new Map<Id, string>()
  const pathOf = (id: Id): string => {
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
