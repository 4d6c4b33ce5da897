/** A cap as the rule of the burn rate sees it; amounts in nano-dollars. */
export interface CapUse {
  readonly capId: string
  readonly headroomNanoUsd: bigint
  /** Spent within the last hour. */
  readonly lastHourNanoUsd: bigint
  /** Spent in the period so far, and how long it runs. */
  readonly spentNanoUsd: bigint
  readonly elapsedHours: number
  readonly remainingHours: number
}

export interface BurnRate {
  /** How many times faster than usual, and within how many hours the cap is reached at that rate. */
  readonly times: number
  readonly hoursToCap: number
}

const minBurnTimes = 3
const maxHoursToCap = 24

/** A cap that this hour's rate exhausts within a day, and before its period ends, at a multiple of its usual rate. */
export const burnRate = (use: CapUse): BurnRate | undefined => {
  const rate = Number(use.lastHourNanoUsd)
  if (rate <= 0 || use.headroomNanoUsd <= 0n || use.elapsedHours < 2) return undefined
  const usual = Math.max(0, Number(use.spentNanoUsd - use.lastHourNanoUsd)) / (use.elapsedHours - 1)
  const times = usual === 0 ? Infinity : rate / usual
  const hoursToCap = Number(use.headroomNanoUsd) / rate
  const isSoon = hoursToCap <= maxHoursToCap && hoursToCap < use.remainingHours
  return isSoon && times >= minBurnTimes ? { times, hoursToCap } : undefined
}

const minPlans = 100

/** The 99th percentile of what plans of an agent cost; undefined while there are too few to have one. */
export const planLimit = (costs: ReadonlyArray<bigint>): bigint | undefined => {
  if (costs.length < minPlans) return undefined
  const sorted = costs.toSorted((a, b) => (a < b ? -1 : a > b ? 1 : 0))
  return sorted[Math.ceil(sorted.length * 0.99) - 1]
}
