import { hash } from "node:crypto"
import { type Book, type StoredCap } from "./cap-repository.ts"

/** The values of a reservation that scopes of caps name. */
export interface Dimensions {
  readonly agentId?: string | undefined
  readonly model?: string | undefined
  readonly provider?: string | undefined
  readonly taskType?: string | undefined
  readonly applicationId?: number | undefined
  readonly apiKeyId?: string | undefined
  readonly userId?: string | undefined
}

const dimensions = ["agentId", "model", "provider", "taskType", "applicationId", "apiKeyId", "userId"] as const
type Dimension = (typeof dimensions)[number]

/** A cap that governs a reservation, and the key of the counter that it counts on; a plan is one for its calls. */
export interface ApplicableCap {
  readonly cap: Pick<
    StoredCap,
    | "tenantId"
    | "id"
    | "name"
    | "unit"
    | "mode"
    | "status"
    | "limitAmount"
    | "alertThresholds"
    | "period"
    | "windowSeconds"
  >
  readonly counterKey: string
  readonly isPlan?: true
}

interface GoverningCap extends ApplicableCap {
  readonly cap: StoredCap
}

/** The caps of one tenant, found by what they name: as many look-ups as there are kinds of scopes. */
export class CapIndex {
  readonly version: bigint
  readonly size: number
  /** Whether any of them asks somebody before it refuses. */
  readonly asksForApproval: boolean
  /** The dimensions that any of them names. */
  private readonly named: ReadonlyArray<Dimension>
  private readonly known = new Map<string, ReadonlyArray<GoverningCap>>()
  private readonly shapes = new Map<
    string,
    { readonly bound: ReadonlyArray<Dimension>; readonly caps: Map<string, Array<StoredCap>> }
  >()

  constructor({ caps, version }: Book) {
    this.version = version
    this.size = caps.length
    this.asksForApproval = caps.some(({ mode }) => mode === "approval")
    this.named = dimensions.filter((name) => caps.some(({ scope }) => scope[name] !== undefined))
    for (const cap of caps) {
      const bound = dimensions.filter((name) => cap.scope[name] !== undefined && cap.scope[name] !== "each")
      const shape = bound.join()
      let known = this.shapes.get(shape)
      if (known === undefined) this.shapes.set(shape, (known = { bound, caps: new Map() }))
      const key = keyOf(bound, cap.scope)
      known.caps.set(key, [...(known.caps.get(key) ?? []), cap])
    }
  }

  /** The caps that govern a reservation with these values. */
  governing(values: Dimensions): ReadonlyArray<GoverningCap> {
    let key = ""
    for (const name of this.named) key += values[name] === undefined ? "\0" : `=${values[name]}\0`
    let governing = this.known.get(key)
    if (governing === undefined) {
      if (this.known.size >= mostKnown) this.known.clear()
      this.known.set(key, (governing = this.find(values)))
    }
    return governing
  }

  private find(values: Dimensions): ReadonlyArray<GoverningCap> {
    const found: Array<GoverningCap> = []
    for (const { bound, caps } of this.shapes.values()) {
      for (const cap of caps.get(keyOf(bound, values)) ?? []) found.push({ cap, counterKey: counterKey(cap, values) })
    }
    // In the order in which they were made, which is that of their ids.
    return found.length < 2 ? found : found.toSorted((a, b) => (a.cap.id < b.cap.id ? -1 : 1))
  }
}

/** What is called again and again has few values. */
const mostKnown = 1000

const keyOf = (
  bound: ReadonlyArray<Dimension>,
  values: Readonly<Partial<Record<Dimension, string | number | undefined>>>
): string => (bound.length === 0 ? "" : JSON.stringify(bound.map((name) => values[name] ?? null)))

/** What is counted by itself, as JSON; empty where all is counted together. What has no value counts as `none`. */
const counterKey = ({ scope }: StoredCap, values: Dimensions): string => {
  const counted: Record<string, string | number> = {}
  for (const name of dimensions) if (scope[name] === "each") counted[name] = values[name] ?? "none"
  if (Object.keys(counted).length === 0) return ""
  const key = JSON.stringify(counted)
  return key.length <= longestKey ? key : JSON.stringify(abbreviated(counted))
}

/** In UTF-16, of which three bytes at most are stored for one: an index takes 2,704 for all of its columns. */
const longestKey = 800
const longestValue = 40

/** Values that no index would take, each as its beginning and its SHA-256. */
const abbreviated = (counted: Readonly<Record<string, string | number>>): Record<string, string | number> =>
  Object.fromEntries(
    Object.entries(counted).map(([name, value]) => [
      name,
      typeof value === "string" && value.length > longestValue
        ? `${value
            .slice(0, longestValue)
            .toWellFormed()
            .replace(/\uFFFD$/, "")}… (SHA-256 ${hash("sha256", value)})`
        : value
    ])
  )

/** The scope of one counter of a cap: what it counts by itself in the place of `each`. */
export const countedScope = (scope: StoredCap["scope"], key: string): Readonly<Record<string, string | number>> => ({
  ...scope,
  ...(key === "" ? {} : (JSON.parse(key) as Record<string, string | number>))
})
