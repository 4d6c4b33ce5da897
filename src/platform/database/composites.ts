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

/**
 * Rows as the text of an array of one of PostgreSQL's composite types, each with the values of its fields in their order;
 * none where there is no row.
 */
export const compositesOf = (rows: ReadonlyArray<ReadonlyArray<unknown>>): string | undefined =>
  rows.length === 0 ? undefined : `{${rows.map((fields) => `"(${fields.map(fieldOf).join()})"`).join()}}`
