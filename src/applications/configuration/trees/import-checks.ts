import { type Validation } from "../schema-validation/contents.ts"
import { type WantedNode } from "./import-plan.ts"
import { nameOf } from "../model/path-domain.ts"

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
