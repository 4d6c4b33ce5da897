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
export interface Governing {
  readonly cap: Pick<StoredCap, "tenantId" | "id" | "name" | "unit" | "mode" | "period" | "windowSeconds">
  readonly counterKey: string
  readonly isPlan?: true
}

interface GoverningCap extends Governing {
  readonly cap: StoredCap
}

/** The caps of one tenant, found by what they name: as many look-ups as there are kinds of scopes. */
export class CapBook {
  readonly version: bigint
  private readonly shapes = new Map<
    string,
    { readonly bound: ReadonlyArray<Dimension>; readonly caps: Map<string, Array<StoredCap>> }
  >()

  constructor({ caps, version }: Book) {
    this.version = version
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
    const found: Array<GoverningCap> = []
    for (const { bound, caps } of this.shapes.values()) {
      for (const cap of caps.get(keyOf(bound, values)) ?? []) found.push({ cap, counterKey: counterKey(cap, values) })
    }
    // In the order in which they were made, which is that of their ids.
    return found.length < 2 ? found : found.toSorted((a, b) => (a.cap.id < b.cap.id ? -1 : 1))
  }
}

const keyOf = (
  bound: ReadonlyArray<Dimension>,
  values: Readonly<Partial<Record<Dimension, string | number | undefined>>>
): string => (bound.length === 0 ? "" : JSON.stringify(bound.map((name) => values[name] ?? null)))

/** What is counted by itself, as JSON; empty where all is counted together. What has no value counts as `none`. */
const counterKey = ({ scope }: StoredCap, values: Dimensions): string => {
  const counted: Record<string, string | number> = {}
  for (const name of dimensions) if (scope[name] === "each") counted[name] = values[name] ?? "none"
  return Object.keys(counted).length === 0 ? "" : JSON.stringify(counted)
}

/** The scope of one counter of a cap: what it counts by itself in the place of `each`. */
export const countedScope = (scope: StoredCap["scope"], key: string): Readonly<Record<string, string | number>> => ({
  ...scope,
  ...(key === "" ? {} : (JSON.parse(key) as Record<string, string | number>))
})
