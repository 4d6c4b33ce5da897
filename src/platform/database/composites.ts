const special = /[\s(),"\\]/

/**
 * A field of a composite, inside of an array's quotation marks: `"` and `\` are doubled for the composite, and each is
 * escaped for the array (PostgreSQL, "Array Input and Output Syntax", "Composite Type Input").
 */
const fieldOf = (value: unknown): string => {
  if (value === undefined || value === null) return ""
  if (typeof value !== "string" && typeof value !== "object") return String(value)
  const text = typeof value === "string" ? value : JSON.stringify(value)
  return text === "" || special.test(text) ? `\\"${text.replaceAll(/["\\]/g, "\\$&\\$&")}\\"` : text
}

/** Rows as the text of an array of one of PostgreSQL's composite types, whose fields are these; none where there is no row. */
export const compositesOf = <Field extends string>(
  fields: ReadonlyArray<Field>,
  rows: ReadonlyArray<{ readonly [field in Field]?: unknown }>
): string | undefined => {
  if (rows.length === 0) return undefined
  let text = "{"
  for (const row of rows) {
    text += text === "{" ? '"(' : ',"('
    let isFirst = true
    for (const field of fields) {
      text += isFirst ? fieldOf(row[field]) : `,${fieldOf(row[field])}`
      isFirst = false
    }
    text += ')"'
  }
  return `${text}}`
}
