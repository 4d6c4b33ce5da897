const special = /[\s(),"\\]/

/**
 * A field of a composite, inside of an array's quotation marks: `"` and `\` are doubled for the composite, and each is
 * escaped for the array (PostgreSQL, "Array Input and Output Syntax", "Composite Type Input").
 */
const fieldOf = (value: unknown): string => {
  if (value === undefined || value === null) return ""
  if (typeof value !== "string" && typeof value !== "object") return String(value)
  const text = typeof value === "string" ? value : JSON.stringify(value)
  if (text !== "" && !special.test(text)) return text
  return `\\"${text.replaceAll("\\", String.raw`\\\\`).replaceAll('"', String.raw`\"\"`)}\\"`
}

/** What a field takes, by its type in PostgreSQL; a list of numbers as PostgreSQL's text of it. */
interface FieldValues {
  readonly uuid: string
  readonly text: string
  readonly bigint: bigint | number
  readonly integer: number
  readonly boolean: boolean
  readonly jsonb: string | object
  readonly "timestamp with time zone": string
  readonly "integer[]": string
}

/** The fields of one of PostgreSQL's composite types, each with its type, in their order. */
export type CompositeFields = Readonly<Record<string, keyof FieldValues>>

/** A row of a composite type; a field that it lacks is named too, so that none is forgotten. */
export type CompositeRow<Fields extends CompositeFields> = {
  readonly [Name in keyof Fields]: FieldValues[Fields[Name]] | null | undefined
}

/** How rows of a composite type are written as the text of an array of it; none where there is no row. */
export const compositesOf = <const Fields extends CompositeFields>(
  fields: Fields
): ((rows: ReadonlyArray<CompositeRow<Fields>>) => string | undefined) => {
  const names: ReadonlyArray<keyof Fields> = Object.keys(fields)
  const textOf = (row: CompositeRow<Fields>) => `"(${names.map((name) => fieldOf(row[name])).join()})"`
  return (rows) => (rows.length === 0 ? undefined : `{${rows.map(textOf).join()}}`)
}
