import { type Path, type Place } from "./json-places.ts"

/** As much of a JSON Schema as the documents of the API use. */
export interface JsonSchema {
  readonly $ref?: string
  readonly anyOf?: ReadonlyArray<JsonSchema>
  readonly type?: string
  readonly description?: string
  readonly enum?: ReadonlyArray<unknown>
  readonly const?: unknown
  readonly examples?: ReadonlyArray<unknown>
  readonly pattern?: string
  readonly minLength?: number
  readonly maxLength?: number
  readonly minimum?: number
  readonly maximum?: number
  readonly items?: JsonSchema
  readonly minItems?: number
  readonly maxItems?: number
  readonly properties?: Readonly<Record<string, JsonSchema>>
  readonly required?: ReadonlyArray<string>
  readonly additionalProperties?: boolean | JsonSchema
}

/** The schema of a document, with those that it refers to. */
export interface DocumentSchema {
  readonly root: JsonSchema
  readonly schemas: Readonly<Record<string, JsonSchema>>
}

/** What is wrong with a part of a document. */
export interface PlacedFault {
  readonly path: Path
  readonly message: string
  readonly from: number
  readonly to: number
}

/** The alternatives that a schema is, without references; each says what the schema says of its own use. */
const variantsOf = (schema: JsonSchema, { schemas }: Pick<DocumentSchema, "schemas">): ReadonlyArray<JsonSchema> => {
  const { $ref, anyOf, ...own } = schema
  const referred = $ref === undefined ? [] : variantsOf(schemas[$ref.split("/").at(-1) ?? ""] ?? {}, { schemas })
  const inner = [...referred, ...(anyOf ?? []).flatMap((one) => variantsOf(one, { schemas }))]
  return inner.length === 0 ? [own] : inner.map((one) => Object.assign({}, one, own))
}

const memberOf = ({ additionalProperties, properties }: JsonSchema, name: string): JsonSchema | undefined =>
  properties !== undefined && Object.hasOwn(properties, name)
    ? properties[name]
    : typeof additionalProperties === "object"
      ? additionalProperties
      : undefined

/** The alternatives for what is at a path of the document. */
export const schemasAt = (document: DocumentSchema, path: Path): ReadonlyArray<JsonSchema> =>
  path.reduce<ReadonlyArray<JsonSchema>>(
    (at, key) =>
      at.flatMap((schema) => {
        const inner = typeof key === "number" ? schema.items : memberOf(schema, key)
        return inner === undefined ? [] : variantsOf(inner, document)
      }),
    variantsOf(document.root, document)
  )

/** What the document says of what is at a path. */
export const descriptionAt = (document: DocumentSchema, path: Path): string | undefined =>
  schemasAt(document, path).find(({ description }) => description !== undefined)?.description

const typeOf = ({ items, members, value }: Place): string =>
  members !== undefined ? "object" : items !== undefined ? "array" : value === null ? "null" : typeof value

const nouns: Readonly<Record<string, string>> = {
  array: "a list",
  boolean: "true or false",
  integer: "a whole number",
  null: "null",
  number: "a number",
  object: "an object",
  string: "a text"
}

const isOf = (type: string | undefined, place: Place): boolean => {
  const own = typeOf(place)
  return (
    type === undefined ||
    own === type ||
    (own === "number" && type === "integer" && Number.isInteger(place.value) && Number.isFinite(place.value))
  )
}

/** What values a schema takes, in words. */
export const expectationOf = ({ enum: values, maximum, minimum, type = "string" }: JsonSchema): string => {
  if (values !== undefined) return values.map((value) => JSON.stringify(value)).join(", ")
  const bounds = [
    minimum === undefined ? [] : [`at least ${minimum.toLocaleString("en")}`],
    maximum === undefined || maximum >= Number.MAX_SAFE_INTEGER ? [] : [`at most ${maximum.toLocaleString("en")}`]
  ].flat()
  return [nouns[type] ?? type, ...bounds].join(", ")
}

const fits = (pattern: string, text: string): boolean => {
  try {
    return new RegExp(pattern, "u").test(text)
  } catch {
    return true
  }
}

/** What is wrong with a value by itself. */
const valueFault = (schema: JsonSchema, place: Place): string | undefined => {
  const { maxItems = Infinity, maxLength = Infinity, maximum = Infinity, minItems = 0, minLength = 0 } = schema
  const { minimum = -Infinity, pattern, type } = schema
  const { items, value } = place
  if (!isOf(type, place)) return `Expected ${expectationOf(schema)}`
  if (schema.enum !== undefined && !schema.enum.includes(value)) return `Expected one of ${expectationOf(schema)}`
  if (typeof value === "number" && (value < minimum || value > maximum)) return `Expected ${expectationOf(schema)}`
  if (typeof value === "string") {
    const { length } = value
    if (length < minLength)
      return minLength === 1 ? "Expected a text that is not empty" : `Too short: at least ${minLength} characters`
    if (length > maxLength) return `Too long: at most ${maxLength} characters`
    if (pattern !== undefined && !fits(pattern, value)) return `Expected a text of the form ${pattern}`
  }
  if (items !== undefined && items.length < minItems) return `Expected ${minItems} or more`
  if (items !== undefined && items.length > maxItems) return `Expected ${maxItems} at most`
  return
}

const plain = (name: string): string =>
  name
    .toLowerCase()
    .replace(/[^a-z0-9]/g, "")
    .replace(/s$/, "")

/** The member that a wrong name may have meant. */
const meant = (name: string, known: ReadonlyArray<string>): string | undefined => {
  const own = plain(name)
  return known.find((one) => plain(one) === own) ?? known.find((one) => own.length > 2 && plain(one).includes(own))
}

const faultsOf = (
  schema: JsonSchema,
  document: DocumentSchema,
  place: Place,
  path: Path,
  named: readonly [number, number]
): ReadonlyArray<PlacedFault> => {
  const variants = variantsOf(schema, document)
  const found = variants.map((variant) => faultsOfVariant(variant, document, place, path, named))
  const ofType = found.filter((_, at) => isOf(variants[at]?.type, place))
  return (ofType.length === 0 ? found : ofType).toSorted((one, other) => one.length - other.length)[0] ?? []
}

const faultsOfVariant = (
  schema: JsonSchema,
  document: DocumentSchema,
  place: Place,
  path: Path,
  [nameFrom, nameTo]: readonly [number, number]
): ReadonlyArray<PlacedFault> => {
  const own = valueFault(schema, place)
  const [from, to] = place.value === undefined ? [nameFrom, nameTo] : [place.from, place.to]
  if (own !== undefined) return [{ path, message: own, from, to }]
  const { items = [], members = [] } = place
  const known = Object.keys(schema.properties ?? {})
  const names = new Set(members.map(({ name }) => name))
  const missing = (schema.required ?? []).filter((name) => !names.has(name))
  const seen = new Set<string>()
  return [
    ...missing.map((name) => ({ path: [...path, name], message: `${name} is missing`, from, to })),
    ...members.flatMap((member) => {
      const at = [...path, member.name]
      const named = [member.nameFrom, member.nameTo] as const
      const ofName = (message: string) => [{ path: at, message, from: member.nameFrom, to: member.nameTo }]
      if (seen.has(member.name)) return ofName("The object has this member twice")
      seen.add(member.name)
      const inner = memberOf(schema, member.name)
      if (inner !== undefined) return faultsOf(inner, document, member.place, at, named)
      if (schema.additionalProperties !== false) return []
      const guess = meant(member.name, known)
      return ofName(
        `Unknown member${guess === undefined ? `; known are ${known.join(", ")}` : `: did you mean ${guess}?`}`
      )
    }),
    ...items.flatMap((item, at) =>
      schema.items === undefined
        ? []
        : faultsOf(schema.items, document, item, [...path, at], [item.from, item.from + 1])
    )
  ]
}

/** Everything that a document's schema finds wrong with it. */
export const schemaFaults = (document: DocumentSchema, root: Place): ReadonlyArray<PlacedFault> =>
  faultsOf(document.root, document, root, [], [root.from, root.from + 1])

/** Something that can be written at a place. */
export interface Proposal {
  readonly label: string
  /** What is inserted; where the cursor is left is the place of `|`. */
  readonly text: string
  readonly detail?: string
  readonly info?: string | undefined
  readonly isRequired?: boolean
}

/** How a value of a schema begins. */
const beginningOf = ({ enum: values, type }: JsonSchema): string =>
  values !== undefined || type === "string" ? '"|"' : type === "array" ? "[|]" : type === "object" ? "{|}" : "|"

/** The members that an object at a path may still have. */
export const memberProposals = (
  document: DocumentSchema,
  path: Path,
  names: ReadonlySet<string>,
  hasColon: boolean
): ReadonlyArray<Proposal> =>
  schemasAt(document, path).flatMap(({ properties = {}, required = [] }) =>
    Object.entries(properties)
      .filter(([name]) => !names.has(name))
      .map(([name, schema]) => {
        const [own = {}] = variantsOf(schema, document)
        const isRequired = required.includes(name)
        return {
          label: name,
          text: hasColon ? `"${name}"|` : `"${name}": ${beginningOf(own)}`,
          detail: isRequired ? "required" : (nouns[own.type ?? ""] ?? ""),
          info: own.description,
          isRequired
        }
      })
  )

/** The values that can be at a path: those that it is one of, and examples of others. */
export const valueProposals = (document: DocumentSchema, path: Path): ReadonlyArray<Proposal> =>
  schemasAt(document, path).flatMap(({ description, enum: values, examples = [], type }) => {
    const info = description === undefined ? {} : { info: description }
    const literal = (value: unknown, detail?: string) => ({
      label: JSON.stringify(value),
      text: `${JSON.stringify(value)}|`,
      ...(detail === undefined ? {} : { detail }),
      ...info
    })
    if (values !== undefined) return values.map((value) => literal(value))
    if (type === "boolean") return [literal(true), literal(false)]
    if (type === "null") return [literal(null)]
    if (type === "object") return [{ label: "{ }", text: "{|}", ...info }]
    if (type === "array") return [{ label: "[ ]", text: "[|]", ...info }]
    return examples.map((value) => literal(value, "example"))
  })
