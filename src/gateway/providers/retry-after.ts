/** HTTP's date in its present form; asctime's is read as local time by JavaScript, and is sent by nobody. */
const httpDate = /^[A-Z][a-z]{2,8}, \d{2}[ -][A-Z][a-z]{2}[ -]\d{2,4} \d{2}:\d{2}:\d{2} GMT$/

const numberIn = (header: string | undefined): number | undefined =>
  header !== undefined && /^\d{1,9}(?:\.\d{1,9})?$/.test(header) ? Number(header) : undefined

/**
 * For how many seconds a provider asks to be left alone: by `retry-after-ms`, which is the more exact, else by Retry-After in
 * seconds or as a date. A date that is over says nothing: one of the two clocks is wrong.
 */
export const retryAfterSeconds = (headers: Readonly<Record<string, string>>, now: number): number | undefined => {
  const { "retry-after": header, "retry-after-ms": exact } = headers
  const millis = numberIn(exact)
  if (millis !== undefined) return millis / 1000
  const seconds = numberIn(header)
  if (seconds !== undefined || header === undefined) return seconds
  const left = httpDate.test(header) ? Date.parse(header) - now : Number.NaN
  return left > 0 ? left / 1000 : undefined
}
