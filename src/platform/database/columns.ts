const special = /[\s{},"\\]/

/** A text as an element of a PostgreSQL array, in quotes where it would end the element or read as NULL. */
const quoted = (text: string): string =>
  text === "" || special.test(text) || (text.length === 4 && text.toLowerCase() === "null")
    ? `"${text.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`
    : text

const elementOf = (value: unknown): string =>
  value === undefined || value === null
    ? "NULL"
    : quoted(
        typeof value === "string"
          ? value
          : typeof value === "object"
            ? JSON.stringify(value)
            : (value as number).toString()
      )

/** Elements as the text of a PostgreSQL array; undefined when all are NULL. */
const arrayOf = (elements: ReadonlyArray<string>): string | undefined =>
  elements.every((element) => element === "NULL") ? undefined : `{${elements.join()}}`

/** Values as the text of a PostgreSQL array; undefined when all are NULL. */
export const columnOf = (values: ReadonlyArray<unknown>): string | undefined => arrayOf(values.map(elementOf))

/**
 * Rows as columns, each under the name of its parameter: PostgreSQL reads an array in half the time of objects. A column
 * whose rows are all equal, as most are, has one element, since PostgreSQL took longer to read them than to write them;
 * except for the column `ofEachRow`, whose elements count the rows.
 */
export const columnsOf = <Parameter extends string, Member extends string>(
  members: { readonly [parameter in Parameter]: Member },
  rows: ReadonlyArray<{ readonly [member in Member]?: unknown } | undefined>,
  ofEachRow: NoInfer<Parameter> | undefined
): { readonly [parameter in Parameter]?: string } => {
  const columns: { [parameter in Parameter]?: string } = {}
  for (const parameter in members) {
    const member = members[parameter]
    const elements: Array<string> = []
    let differs = parameter === ofEachRow
    let last: unknown
    let element = "NULL"
    for (const row of rows) {
      const value = row?.[member]
      // A value often repeats in the next row.
      if (value !== last) element = elementOf((last = value))
      if (elements.length > 0 && element !== elements[0]) differs = true
      elements.push(element)
    }
    if (!differs && elements.length > 1) elements.length = 1
    columns[parameter] = arrayOf(elements)
  }
  return columns
}

const specialInField = /[\s(),"\\]/

const fieldOf = (value: unknown): string => {
  if (value === undefined || value === null) return ""
  const text = typeof value === "object" ? JSON.stringify(value) : String(value)
  return text === "" || specialInField.test(text) ? `"${text.replaceAll(/["\\]/g, "$&$&")}"` : text
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
