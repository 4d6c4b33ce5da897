import { maxScore } from "./domain.ts"

/** One measurement: when, in milliseconds since 1970, and how much. */
export interface Point {
  readonly at: number
  readonly value: number
}

export type EpisodeKind = "spike" | "level-shift" | "loop"

/** A stretch of rows that the past of their series makes improbable; all times are those of rows. */
export interface Episode {
  readonly start: number
  readonly end: number
  /** The row at which the episode was improbable enough, and worth enough, for an alert. */
  readonly detectedAt: number
  /** Minus the decimal logarithm of the probability of the oddest row. */
  readonly score: number
  readonly kind: EpisodeKind
  readonly expected: number
  readonly actual: number
}

export interface Parameters {
  /** The score at which a row is odd. */
  readonly threshold: number
  /** Rows without an odd one after which an episode is over. */
  readonly quietRows: number
  /** What a barely odd episode has to be worth, in usual hours of the series; counts for rows of an hour and longer. */
  readonly worthHours: number
  /** What every episode has to be worth, in the unit of the values. */
  readonly worth: number
}

export const defaultParameters: Parameters = { threshold: 2.8, quietRows: 72, worthHours: 8, worth: 0 }

const second = 1000
const minute = 60 * second
const hour = 60 * minute
const day = 24 * hour
const week = 7 * day

/** Deviations are averaged over spans: short ones find spikes, long ones find shifts that are small against the noise. */
const fastSpans = [0, hour, 6 * hour, day]
const slowSpans = [3 * hour, 12 * hour]
const rollingSpan = 2 * hour
const minRollingRows = 6
/** The level of a season follows a change within half of these. */
const fastLevel = day
const slowLevel = week
const minSlowLevel = 3 * day
const minFastLevelRows = 5
/** How fast the error of a forecast is forgotten when the best forecast is chosen. */
const errorHalfLife = 3 * day
const calibrationRows = 4000
const minCalibrationRows = 100
const tailShare = 0.05
const minTailRows = 5
const daysKept = 14
const weeksKept = 8
const minSlotValues = 2
/** Odd rows at most this far apart begin one episode. */
const runGapRows = 6
/** Hourly series have no episode before the first, and need more worth before the second: weekends are unknown then. */
const minHistory = week
const fullHistory = 2 * week
/** Of the mean difference so far, what a row needs to belong to an episode. */
const minShareOfEnd = 0.3
const spikeRows = 3
const loopSpan = 2 * day
const loopFactor = 3
const loopSpread = 0.5

/** Values in order of size; the oldest goes when there are too many. */
class Ordered {
  readonly #sorted: Array<number> = []
  #queue: Array<number> = []
  readonly #capacity: number
  #oldest = 0

  constructor(capacity: number) {
    this.#capacity = capacity
  }

  get size(): number {
    return this.#sorted.length
  }

  at(index: number): number {
    return this.#sorted[index] ?? Number.NaN
  }

  get median(): number {
    return this.at(this.size >> 1)
  }

  /** How many values are smaller. */
  rank(value: number): number {
    let low = 0
    let high = this.size
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.at(middle) < value) low = middle + 1
      else high = middle
    }
    return low
  }

  add(value: number): void {
    this.#sorted.splice(this.rank(value), 0, value)
    this.#queue.push(value)
    if (this.size <= this.#capacity) return
    this.#sorted.splice(this.rank(this.#queue[this.#oldest++] ?? value), 1)
    if (this.#oldest > this.#capacity) {
      this.#queue = this.#queue.slice(this.#oldest)
      this.#oldest = 0
    }
  }
}

const medianOf = (values: ReadonlyArray<number>): number => {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted.length >> 1
  const upper = sorted[middle] ?? Number.NaN
  return sorted.length % 2 === 1 ? upper : ((sorted[middle - 1] ?? upper) + upper) / 2
}

/** The conformal score of a deviation: its rank among the past ones, and an exponential tail where it exceeds them. */
const conformalScore = (past: Ordered, deviation: number): number => {
  const size = past.size
  const inTail = Math.max(minTailRows, Math.floor(size * tailShare))
  const tailStart = past.at(size - inTail - 1)
  if (deviation <= tailStart) return -Math.log10((size - past.rank(deviation) + 1) / (size + 1))
  let excess = 0
  for (let index = size - inTail; index < size; index++) excess += past.at(index) - tailStart
  const mean = Math.max(excess / inTail, 0.05 * tailStart + 1e-9)
  return -Math.log10(inTail / (size + 1)) + (deviation - tailStart) / mean / Math.LN10
}

/** The deviations from one forecast, each judged over several spans by those of its own past. */
class Judge {
  readonly #sums = [0]
  readonly #spans: ReadonlyArray<{ rows: number; past: Ordered; recent: Array<number> }>

  constructor(spans: ReadonlyArray<number>) {
    this.#spans = [...new Set(spans)].map((rows) => ({ rows, past: new Ordered(calibrationRows), recent: [] }))
  }

  score(deviation: number): number {
    this.#sums.push((this.#sums.at(-1) ?? 0) + deviation)
    const last = this.#sums.length - 1
    let score = 0
    for (const { past, recent, rows } of this.#spans) {
      const taken = Math.min(rows, last)
      const mean = Math.abs((this.#sums[last] ?? 0) - (this.#sums[last - taken] ?? 0)) / taken
      if (past.size >= minCalibrationRows) score = Math.max(score, conformalScore(past, mean))
      // What overlaps the span of a row would hide it.
      recent.push(mean)
      if (recent.length > 2 * rows) past.add(recent.shift() ?? mean)
    }
    return Math.min(score, maxScore)
  }
}

/** A forecast with the error that it had lately. */
class Forecast {
  readonly #decay: number
  rows = 0
  error = 0

  constructor(halfLifeRows: number) {
    this.#decay = 0.5 ** (1 / halfLifeRows)
  }

  learn(error: number): void {
    this.rows++
    if (this.rows === 1) this.error = error
    else this.error = this.error * this.#decay + (1 - this.#decay) * Math.min(error, 4 * this.error + 1e-9)
  }
}

/** What is usual at each time of the day (of the week), and the level above it that the series has now. */
class Season {
  readonly #slots: ReadonlyArray<Array<number>>
  readonly #medians: Array<number>
  readonly #kept: number
  readonly #minSlowRows: number
  readonly #fastLevel: Ordered
  readonly #slowLevel: Ordered
  readonly fast: Forecast
  readonly slow: Forecast

  constructor(slots: number, kept: number, rowsIn: (span: number) => number) {
    this.#slots = Array.from({ length: slots }, () => [])
    this.#medians = Array.from({ length: slots }, () => Number.NaN)
    this.#kept = kept
    this.#minSlowRows = rowsIn(minSlowLevel)
    this.#fastLevel = new Ordered(rowsIn(fastLevel))
    this.#slowLevel = new Ordered(rowsIn(slowLevel))
    this.fast = new Forecast(rowsIn(errorHalfLife))
    this.slow = new Forecast(rowsIn(errorHalfLife))
  }

  /** The two forecasts of a slot, NaN while too little is known. */
  forecasts(slot: number): { readonly fast: number; readonly slow: number } {
    const usual = this.#usual(slot)
    const level = this.#fastLevel.size > minFastLevelRows ? this.#fastLevel.median : 0
    const isKnown = this.#slowLevel.size >= this.#minSlowRows
    return { fast: usual + level, slow: isKnown ? usual + this.#slowLevel.median : Number.NaN }
  }

  #usual(slot: number): number {
    return this.#medians[slot % this.#slots.length] ?? Number.NaN
  }

  learnLevel(slot: number, value: number): void {
    const usual = this.#usual(slot)
    if (Number.isNaN(usual)) return
    this.#fastLevel.add(value - usual)
    this.#slowLevel.add(value - usual)
  }

  learnSlot(slot: number, value: number): void {
    const index = slot % this.#slots.length
    const values = this.#slots[index] ?? []
    values.push(value)
    if (values.length > this.#kept) values.shift()
    if (values.length >= minSlotValues) this.#medians[index] = medianOf(values)
  }
}

/** The commonest distance between rows. */
const stepOf = (points: ReadonlyArray<Point>): number => {
  const distances = points.slice(1, 200).map(({ at }, index) => at - (points[index]?.at ?? at))
  return distances.length === 0 ? hour : Math.max(second, medianOf(distances))
}

/** The size that divides values before their logarithm, so that small ones, 0 and negative ones have one, too. */
const scaleOf = (points: ReadonlyArray<Point>): number => {
  const early = points.slice(0, Math.max(20, Math.min(Math.floor(points.length * 0.15), 750)))
  const sizes = early.map(({ value }) => Math.abs(value)).filter((size) => size > 0)
  return sizes.length === 0 ? 1 : medianOf(sizes)
}

interface Judged {
  readonly score: number
  readonly expected: number
}

/**
 * Judges each row by those before it, on the logarithm. The fast forecast is the best of a rolling median and the seasons
 * with their level of the last day: spikes stand out from it. The slow one has the level of the last week: shifts do.
 */
const judge = (points: ReadonlyArray<Point>, step: number): ReadonlyArray<Judged> => {
  const rowsIn = (span: number): number => Math.max(1, Math.round(span / step))
  const slotLength = Math.max(step, 15 * minute)
  const scale = scaleOf(points)
  const isCost = points.every(({ value }) => value >= 0)

  const rolling = new Ordered(Math.max(rowsIn(rollingSpan), minRollingRows))
  const rollingForecast = new Forecast(rowsIn(errorHalfLife))
  const seasons = [
    new Season(Math.max(1, Math.round(day / slotLength)), daysKept, rowsIn),
    new Season(Math.max(1, Math.round(week / slotLength)), weeksKept, rowsIn)
  ]
  const fastJudge = new Judge(fastSpans.map(rowsIn))
  const slowJudge = new Judge(slowSpans.map(rowsIn))
  let slot = -1
  let inSlot: Array<number> = []

  return points.map(({ at, value }) => {
    const y = Math.asinh(value / scale)
    const now = Math.floor(at / slotLength)
    if (now !== slot) {
      if (inSlot.length > 0) for (const season of seasons) season.learnSlot(slot, medianOf(inSlot))
      slot = now
      inSlot = []
    }
    let fast = rolling.size > 0 ? rolling.median : y
    let slow = Number.NaN
    let leastFast = rollingForecast.error
    let leastSlow = Infinity
    rollingForecast.learn(Math.abs(y - fast))
    for (const season of seasons) {
      const forecasts = season.forecasts(now)
      if (!Number.isNaN(forecasts.fast)) {
        if (season.fast.rows > rowsIn(day) && season.fast.error < leastFast) {
          fast = forecasts.fast
          leastFast = season.fast.error
        }
        season.fast.learn(Math.abs(y - forecasts.fast))
      }
      if (!Number.isNaN(forecasts.slow)) {
        if (season.slow.error < leastSlow) {
          slow = forecasts.slow
          leastSlow = season.slow.error
        }
        season.slow.learn(Math.abs(y - forecasts.slow))
      }
      season.learnLevel(now, y)
    }
    rolling.add(y)
    inSlot.push(y)
    const hasSlow = !Number.isNaN(slow)
    const score = Math.max(fastJudge.score(y - fast), hasSlow ? slowJudge.score(y - slow) : 0)
    const expected = scale * Math.sinh(hasSlow ? slow : fast)
    return { score, expected: isCost ? Math.max(0, expected) : expected }
  })
}

const runningSums = (values: ReadonlyArray<number>): ReadonlyArray<number> => {
  const sums = [0]
  for (const value of values) sums.push((sums.at(-1) ?? 0) + value)
  return sums
}

/** The sum of the rows from one (inclusive) to another (exclusive). */
const sumOf = (sums: ReadonlyArray<number>, from: number, to: number): number => (sums[to] ?? 0) - (sums[from] ?? 0)

/** A loop costs a multiple at a steady rate and ends soon; a shift varies with the season, or lasts. */
const kindOf = (rows: ReadonlyArray<{ value: number; expected: number }>, step: number): EpisodeKind => {
  if (rows.length <= spikeRows) return "spike"
  const excess = rows.map(({ expected, value }) => value - expected)
  const usual = medianOf(excess)
  const spread = medianOf(excess.map((one) => Math.abs(one - usual)))
  const expected = medianOf(rows.map((row) => row.expected))
  const isMultiple = usual > 0 && usual >= (loopFactor - 1) * expected
  return isMultiple && rows.length * step <= loopSpan && spread <= loopSpread * usual ? "loop" : "level-shift"
}

/** The episodes of a series whose times increase, each found from the rows before its alert alone. */
export const detect = (
  points: ReadonlyArray<Point>,
  { quietRows, threshold, worth, worthHours }: Parameters = defaultParameters
): ReadonlyArray<Episode> => {
  const step = stepOf(points)
  const judged = judge(points, step)
  const values = runningSums(points.map(({ value }) => value))
  const sizes = runningSums(points.map(({ value }) => Math.abs(value)))
  const expectations = runningSums(judged.map(({ expected }) => expected))
  const gainOf = (from: number, to: number) => sumOf(values, from, to) - sumOf(expectations, from, to)
  const timeOf = (row: number) => points[row]?.at ?? 0
  const weekRows = Math.max(1, Math.round(week / step))

  /** What an episode that began at a row has to be worth at another one; the less probable, the less. */
  const neededAt = (start: number, row: number, score: number): number => {
    if (step < hour) return worth
    const age = timeOf(row) - timeOf(0)
    if (age < minHistory) return Infinity
    const from = Math.max(0, start - weekRows)
    const usualHour = (sumOf(sizes, from, start) / Math.max(1, start - from)) * (hour / step)
    const youth = Math.max(1, fullHistory / age) ** 4
    return Math.max(worth, usualHour * worthHours * (threshold / score) * youth)
  }

  /** Averages stay odd after the rows that made them so: a row of an episode has a share of its difference itself. */
  const isPart = ({ end, start }: { readonly start: number; readonly end: number }, row: number): boolean =>
    gainOf(row, row + 1) / (gainOf(start, end + 1) / (end + 1 - start)) >= minShareOfEnd

  const found: Array<{ start: number; end: number; detected: number; score: number }> = []
  let start = 0
  let last = -Infinity
  let lastOfEpisode = -Infinity
  for (const [row, { score }] of judged.entries()) {
    if (score < threshold) continue
    const current = found.at(-1)
    if (current !== undefined && row - lastOfEpisode <= quietRows) {
      lastOfEpisode = row
      current.score = Math.max(current.score, score)
      if (isPart(current, row)) current.end = row
      continue
    }
    if (row - last > runGapRows) start = row
    last = row
    const gain = gainOf(start, row + 1)
    if (Math.abs(gain) < neededAt(start, row, score)) continue
    lastOfEpisode = row
    found.push({ start, end: row, detected: row, score })
  }
  // What goes on long enough is not odd any more, and still belongs to its episode.
  for (const [index, episode] of found.entries()) {
    const limit = found[index + 1]?.start ?? points.length
    while (episode.end + 1 < limit && isPart(episode, episode.end + 1)) episode.end++
  }
  return found.map(({ detected, end, score, start }) => ({
    start: timeOf(start),
    end: timeOf(end),
    detectedAt: timeOf(detected),
    score,
    kind: kindOf(
      judged
        .slice(start, end + 1)
        .map(({ expected }, index) => ({ expected, value: points[start + index]?.value ?? 0 })),
      step
    ),
    expected: sumOf(expectations, start, end + 1),
    actual: sumOf(values, start, end + 1)
  }))
}
