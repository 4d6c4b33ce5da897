import {
  detect,
  type Episode,
  type EpisodeKind,
  type Parameters,
  type Point
} from "#src/insights/anomalies/detection.ts"

const hour = 3_600_000
const dayHours = 24
const weekHours = 7 * dayHours

/** An episode of a shift that lasts is found late when it takes more than these. */
const maxHoursToFind = 4 * dayHours
const seriesOfTenant = 10

export const injections = ["step", "ramp", "loop", "price change", "drop", "none"] as const
export type Injection = (typeof injections)[number]

/** The hourly cost of a key in dollars, with what was put into it. */
export interface SyntheticSeries {
  readonly points: ReadonlyArray<Point>
  readonly usual: ReadonlyArray<number>
  readonly injection: Injection
  /** The first and the last row of the injection. */
  readonly from: number
  readonly to: number
}

/** Mulberry32: the same numbers on every machine. */
const randomOf = (seed: number) => {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

/** Five to nine weeks with a daily and a weekly season, correlated noise, growth, and sometimes nights without cost. */
export const makeSeries = (seed: number): SyntheticSeries => {
  const random = randomOf(seed * 7919 + 17)
  const normal = () => Math.sqrt(-2 * Math.log(random() + 1e-12)) * Math.cos(2 * Math.PI * random())
  const hours = dayHours * (35 + Math.floor(random() * 28))
  const base = 0.5 * 400 ** random()
  const amplitude = random() * 1.2
  const peak = random() * dayHours
  const weekend = random() < 0.6 ? 0.2 + 0.8 * random() : 1
  const noise = 0.08 + 0.32 * random()
  const growth = (random() - 0.3) * 0.04
  const sleeps = random() < 0.2
  const correlation = 0.5 * random()
  const start = Date.UTC(2026, 0, 5) + Math.floor(random() * 7) * dayHours * hour
  const usual: Array<number> = []
  let drift = 0
  for (let row = 0; row < hours; row++) {
    const at = start + row * hour
    const hourOfDay = (at / hour) % dayHours
    const weekday = new Date(at).getUTCDay()
    drift = correlation * drift + Math.sqrt(1 - correlation ** 2) * normal() * noise
    const season = amplitude * Math.cos(((hourOfDay - peak) / dayHours) * 2 * Math.PI)
    let value = base * Math.exp(season + (growth * row) / weekHours + drift)
    if (weekday === 0 || weekday === 6) value *= weekend
    if (sleeps && (hourOfDay < 6 || hourOfDay >= 22)) value *= 0.02
    if (random() < 0.004) value *= 1 + random()
    usual.push(value)
  }
  const injection = injections[seed % injections.length] ?? "none"
  const from = 3 * weekHours + Math.floor(random() * (hours - 3 * weekHours - 3 * dayHours))
  const usualDay = usual.slice(from - weekHours, from).reduce((sum, value) => sum + value, 0) / 7
  const size = random()
  const length = random()
  const changes: Readonly<Record<Injection, readonly [rows: number, change: (value: number, row: number) => number]>> =
    {
      step: [hours, (value) => value * (2 + 3 * size)],
      "price change": [hours, (value) => value * (1.7 + 1.3 * size)],
      ramp: [4 * dayHours, (value, row) => value * (1 + (2 + 3 * size) * Math.min(1, row / (12 + 36 * length)))],
      loop: [4 + Math.floor(10 * length), (value) => value + usualDay * (0.15 + 0.6 * size)],
      drop: [12 + Math.floor(60 * length), (value) => value * (0.02 + 0.15 * size)],
      none: [0, (value) => value]
    }
  const [rows, change] = changes[injection]
  const to = Math.min(hours, from + rows) - 1
  const points = usual.map((value, row) => ({
    at: start + row * hour,
    value: row >= from && row <= to ? change(value, row - from) : value
  }))
  return { points, usual, injection, from, to }
}

export interface Evaluation {
  readonly precision: number
  readonly recall: number
  readonly found: Readonly<
    Record<Injection, { readonly found: number; readonly missed: number; readonly false: number }>
  >
  readonly kinds: Readonly<Record<string, number>>
  /** Of the dollars that injections cost until midnight of their first day, the share behind the alert. */
  readonly caughtShare: number
  readonly alertsPerTenantWeek: number
  readonly medianHoursToFind: number
}

/** Precision and recall over series; each alert but the first within an injection is false. */
export const evaluate = (
  series: ReadonlyArray<SyntheticSeries>,
  parameters?: Parameters,
  detector: (points: ReadonlyArray<Point>, parameters?: Parameters) => ReadonlyArray<Episode> = detect
): Evaluation => {
  const counts = Object.fromEntries(injections.map((name) => [name, { found: 0, missed: 0, false: 0 }]))
  const kinds: Record<string, number> = {}
  const delays: Array<number> = []
  let weeks = 0
  let alerts = 0
  let dollars = 0
  let caught = 0
  for (const { from, injection, points, to, usual } of series) {
    const count = counts[injection]
    if (count === undefined) continue
    const timeOf = (row: number) => points[row]?.at ?? Infinity
    const episodes = detector(points, parameters)
    const lastToFind = timeOf(Math.min(to, from + maxHoursToFind))
    const hits =
      injection === "none"
        ? []
        : episodes.filter(({ detectedAt }) => detectedAt >= timeOf(from) && detectedAt <= lastToFind)
    const [hit] = hits
    weeks += points.length / weekHours
    alerts += episodes.length
    count.false += episodes.length - (hit === undefined ? 0 : 1)
    if (injection === "none") continue
    if (hit === undefined) count.missed++
    else {
      count.found++
      delays.push((hit.detectedAt - timeOf(from)) / hour)
      const kind: `${Injection} as ${EpisodeKind}` = `${injection} as ${hit.kind}`
      kinds[kind] = (kinds[kind] ?? 0) + 1
    }
    if (injection === "drop") continue
    const midnight = (Math.floor(timeOf(from) / (dayHours * hour)) + 1) * dayHours * hour
    for (let row = from; row <= to && timeOf(row) < midnight; row++) {
      const cost = (points[row]?.value ?? 0) - (usual[row] ?? 0)
      dollars += cost
      if (hit !== undefined && timeOf(row) > hit.detectedAt) caught += cost
    }
  }
  const total = (what: "found" | "missed" | "false") =>
    Object.values(counts).reduce((sum, count) => sum + count[what], 0)
  return {
    precision: total("found") / Math.max(1, total("found") + total("false")),
    recall: total("found") / Math.max(1, total("found") + total("missed")),
    found: counts as Evaluation["found"],
    kinds,
    caughtShare: caught / Math.max(dollars, 1e-9),
    alertsPerTenantWeek: (alerts / weeks) * seriesOfTenant,
    medianHoursToFind: delays.toSorted((a, b) => a - b)[delays.length >> 1] ?? Number.NaN
  }
}
