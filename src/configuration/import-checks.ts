import { type Check } from "./contents.ts"
import { type WantedNode } from "./import-plan.ts"
import { nameOf } from "./names.ts"

const digestOf = ({ archived, standing }: WantedNode): string => archived?.sha256 ?? standing?.sha256 ?? ""

/** What must hold of the contents that an archive brings: that they fit their schemas, and that schemas are schemas. */
export const checksOf = (wanted: ReadonlyMap<string, WantedNode>): ReadonlyArray<Check> => {
  const named = new Set([...wanted.values()].flatMap(({ schema }) => (schema === null ? [] : [schema])))
  return [...wanted.values()].flatMap((node): ReadonlyArray<Check> => {
    const { archived, id, isRebound, isUpdated, path } = node
    if (!archived?.stored || !(id === null || isUpdated || isRebound)) return []
    const file = { name: nameOf(path), content: archived.stored.content }
    const at = { content: [...archived.at, "content"], schema: [...archived.at, "schema"] }
    const key = `${digestOf(node)} ${file.name}`
    const schema = node.schema === null ? undefined : wanted.get(node.schema)
    const against =
      schema?.archived?.stored == null
        ? schema?.standing?.id
        : { name: nameOf(schema.path), content: schema.archived.stored.content }
    return [
      ...(named.has(path) ? [{ key: `as schema ${key}`, file, against: null, at }] : []),
      ...(schema === undefined || against === undefined
        ? []
        : [{ key: `${digestOf(schema)} ${nameOf(schema.path)} ${key}`, file, against, at }])
    ]
  })
}
