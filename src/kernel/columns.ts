/** What an element of an array must not be as it is: it would end it, or be taken for no value. */
const special = /[\s{},"\\]|^$|^null$/i

const elementOf = (value: unknown): string => {
  if (value === undefined || value === null) return "NULL"
  if (typeof value === "number" || typeof value === "boolean") return String(value)
  const text = typeof value === "string" ? value : JSON.stringify(value)
  return special.test(text) ? `"${text.replace(/["\\]/g, "\\$&")}"` : text
}

/** Values as the text of an array of PostgreSQL. */
export const arrayOf = (values: ReadonlyArray<unknown>): string => `{${values.map(elementOf).join()}}`

/** The same where there is any value. */
export const columnOf = (values: ReadonlyArray<unknown>): string | undefined =>
  values.every((value) => value === undefined || value === null) ? undefined : arrayOf(values)

/** Rows by their columns: PostgreSQL reads an array in half the time that it takes for objects. */
export const columnsOf = <Name extends string>(
  names: ReadonlyArray<Name>,
  rows: ReadonlyArray<{ readonly [name in Name]?: unknown } | undefined>
): { readonly [name in Name]?: string } =>
  Object.fromEntries(names.map((name) => [name, columnOf(rows.map((row) => row?.[name]))])) as {
    readonly [name in Name]?: string
  }
