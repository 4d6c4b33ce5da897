/** What a text begins with that a spreadsheet may take for a formula, by OWASP's list; fullwidth signs too. */
export const formulaStarts = "=+-@\t\r\n＝＋－＠"

/**
 * One cell of CSV (RFC 4180 §2). A text that a spreadsheet would take for a formula begins with an apostrophe; numbers
 * are left as they are.
 */
export const csvCell = (value: unknown): string => {
  if (value === null || value === undefined) return ""
  const text = String(value)
  const safe = typeof value === "string" && text !== "" && formulaStarts.includes(text.charAt(0)) ? `'${text}` : text
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe
}

/** One line of CSV with its end. */
export const csvLine = (values: ReadonlyArray<unknown>): string => `${values.map(csvCell).join(",")}\r\n`
