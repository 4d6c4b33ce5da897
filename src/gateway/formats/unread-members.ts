import { type Schema, type SchemaAST } from "effect"
import { isJson } from "../../kernel/json/parsed-json.ts"

/** Members that hold the conversation: what a translation leaves out of it is named by its type. */
const conversation: ReadonlySet<string> = new Set(["messages", "system", "input", "contents", "systemInstruction"])

/** Whether a member says anything. */
export const isGiven = (value: unknown): boolean =>
  value !== undefined &&
  value !== null &&
  (Array.isArray(value) ? value.length > 0 : !isJson(value) || Object.keys(value).length > 0)

/** The types that a value may be, of which some may have any members. */
const typesOf = (ast: SchemaAST.AST): ReadonlyArray<SchemaAST.AST> =>
  ast._tag === "Union" ? ast.types.flatMap(typesOf) : [ast]

const opens: ReadonlySet<string> = new Set(["Any", "Unknown", "ObjectKeyword", "Declaration", "Suspend"])
const isOpen = (ast: SchemaAST.AST): boolean =>
  opens.has(ast._tag) || (ast._tag === "Objects" && ast.indexSignatures.length > 0)

const walk = (value: unknown, types: ReadonlyArray<SchemaAST.AST>, path: string, found: Set<string>): void => {
  if (Array.isArray(value)) {
    const elements = types.flatMap((one) => (one._tag === "Arrays" ? [...one.elements, ...one.rest] : []))
    const each = elements.flatMap(typesOf)
    if (each.length > 0) for (const element of value) walk(element, each, path, found)
    return
  }
  if (!isJson(value)) return
  const known = types.flatMap((one) => (one._tag === "Objects" ? one.propertySignatures : []))
  const isAny = types.some(isOpen)
  for (const [name, member] of Object.entries(value)) {
    if (!isGiven(member)) continue
    const own = known.filter((one) => one.name === name).flatMap(({ type }) => typesOf(type))
    const at = path === "" ? name : `${path}.${name}`
    if (own.length > 0) {
      if (path !== "" || !conversation.has(name)) walk(member, own, at, found)
    } else if (!isAny && known.length > 0) found.add(at)
  }
}

/** The members of a request that a schema does not read, by their paths without the places in lists. */
export const unreadMembers = (request: unknown, schema: Schema.Top): ReadonlyArray<string> => {
  const found = new Set<string>()
  walk(request, typesOf(schema.ast), "", found)
  return [...found]
}
