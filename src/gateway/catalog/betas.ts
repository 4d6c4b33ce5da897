import { lookupTable } from "../../kernel/lookup-table.ts"
import { type Catalogue } from "./catalogue.ts"

/** What a caller asks for in the vendors' beta headers. */
export interface Betas {
  /** Values that are omitted under a hard cap, since they change or may change what the call costs. */
  readonly unbounded: ReadonlyArray<string>
  /** The longest request with the others; undefined if none of them changes it. */
  readonly contextTokens: number | undefined
  /** The headers without the values of `unbounded`. */
  readonly bounded: Readonly<Record<string, string>>
}

/** The vendor of each header. */
const vendors = lookupTable<string>({ "anthropic-beta": "anthropic", "openai-beta": "openai" })

const valuesIn = (header: string): ReadonlyArray<string> =>
  header
    .split(",")
    .map((value) => value.trim())
    .filter((value) => value !== "")

/** Reads the beta headers of a call by what is known of their values. */
export const betasOf = (headers: Readonly<Record<string, string>>, betaOf: Catalogue["betaOf"]): Betas => {
  const bounded: Record<string, string> = {}
  const unbounded: Array<string> = []
  let longest: number | undefined
  for (const name in headers) {
    const header = headers[name]!
    const vendor = vendors[name]
    if (vendor === undefined) {
      bounded[name] = header
      continue
    }
    const all = valuesIn(header)
    const kept = all.filter((value) => {
      const { changes, contextTokens } = betaOf(vendor, value) ?? { changes: "cost", contextTokens: undefined }
      if (changes === "nothing") return true
      if (changes === "cost" || contextTokens === undefined) return false
      longest = Math.max(longest ?? 0, contextTokens)
      return true
    })
    unbounded.push(...all.filter((value) => !kept.includes(value)))
    if (kept.length === all.length) bounded[name] = header
    else if (kept.length > 0) bounded[name] = kept.join(",")
  }
  return { bounded, contextTokens: longest, unbounded }
}

/** The headers of a call with more values in one of them. */
export const withBetas = (
  headers: Readonly<Record<string, string>>,
  name: string,
  betas: ReadonlyArray<string>
): Readonly<Record<string, string>> => {
  if (betas.length === 0) return headers
  const { [name]: given } = headers
  return { ...headers, [name]: [...(given === undefined ? [] : [given]), ...betas].join(",") }
}
