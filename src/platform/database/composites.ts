const special = /[\s(),"\\]/

const fieldOf = (value: unknown): string => {
  if (value === undefined || value === null) return ""
  const text = typeof value === "object" ? JSON.stringify(value) : String(value)
  return text === "" || special.test(text) ? `"${text.replaceAll(/["\\]/g, "$&$&")}"` : text
}

/** Rows as the text of an array of one of PostgreSQL's composite types, whose fields are these; none where there is no row. */
export const compositesOf = <Field extends string>(
  fields: ReadonlyArray<Field>,
  rows: ReadonlyArray<{ readonly [field in Field]?: unknown }>
): string | undefined =>
  rows.length === 0
    ? undefined
    : `{${rows
        .map((row) => `"(${fields.map((field) => fieldOf(row[field])).join()})"`.replaceAll(/(?!^)["\\](?!$)/g, "\\$&"))
        .join()}}`
