const special = /[\s{},"\\]/

/** A text as an element of an array of PostgreSQL, in quotes where it would end the element, or be taken for no value. */
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

/** The values of a column as the text of an array of PostgreSQL; none where there is no value. */
const textOf = <A>(rows: ReadonlyArray<A>, valueOf: (row: A) => unknown): string | undefined => {
  let elements = ""
  let isEmpty = true
  let last: unknown
  let element = "NULL"
  for (const row of rows) {
    const value = valueOf(row)
    // What stands in one row often stands in the next.
    if (value !== last) element = elementOf((last = value))
    if (element !== "NULL") isEmpty = false
    elements += elements === "" ? element : `,${element}`
  }
  return isEmpty ? undefined : `{${elements}}`
}

/** Values as the text of an array of PostgreSQL; none where there is no value. */
export const columnOf = (values: ReadonlyArray<unknown>): string | undefined => textOf(values, (value) => value)

/** Rows by their columns: PostgreSQL reads an array in half the time that it takes for objects. */
export const columnsOf = <Name extends string>(
  names: ReadonlyArray<Name>,
  rows: ReadonlyArray<{ readonly [name in Name]?: unknown } | undefined>
): { readonly [name in Name]?: string } => {
  const columns: { [name in Name]?: string } = {}
  for (const name of names) columns[name] = textOf(rows, (row) => row?.[name])
  return columns
}
