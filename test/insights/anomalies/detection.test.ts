import { assert, describe, it } from "@effect/vitest"
import { evaluate, makeSeries } from "../../bench/anomaly-series.ts"
import { hasNab, nabDirectory, normalised, readNab, scoreDetections } from "../../bench/nab.ts"
import { defaultParameters, detect, type Episode, type Point } from "#src/insights/anomalies/detection.ts"
import { burnRate, planLimit } from "#src/insights/anomalies/rules.ts"

const hour = 3_600_000
const start = Date.UTC(2026, 0, 5)

/** Six weeks of a daily season, with a small ripple in place of noise. */
const season = (change: (value: number, row: number) => number = (value) => value): ReadonlyArray<Point> =>
  Array.from({ length: 42 * 24 }, (_, row) => {
    const value = 10 * (2 + Math.sin((row / 24) * 2 * Math.PI)) * (1 + 0.05 * Math.sin(row * 12.9898))
    return { at: start + row * hour, value: change(value, row) }
  })

const one = (episodes: ReadonlyArray<Episode>): Episode => {
  assert.lengthOf(episodes, 1)
  return episodes[0] as Episode
}

describe("detect", () => {
  it("finds nothing in a season, in nothing, and in a series that is too short", () => {
    assert.deepStrictEqual(detect(season()), [])
    assert.deepStrictEqual(detect([]), [])
    assert.deepStrictEqual(detect(season((value, row) => (row === 20 ? value * 100 : value)).slice(0, 40)), [])
  })

  it("finds a loop with its first and last row, and what it cost", () => {
    const from = 30 * 24
    const episode = one(detect(season((value, row) => (row >= from && row < from + 8 ? value + 200 : value))))
    assert.strictEqual(episode.start, start + from * hour)
    assert.strictEqual(episode.end, start + (from + 7) * hour)
    assert.strictEqual(episode.kind, "loop")
    assert.approximately(episode.actual - episode.expected, 1600, 100)
  })

  it("calls a single hour a spike", () => {
    const episode = one(detect(season((value, row) => (row === 30 * 24 + 5 ? value * 30 : value))))
    assert.strictEqual(episode.kind, "spike")
    assert.strictEqual(episode.start, episode.end)
    assert.strictEqual(episode.start, episode.detectedAt)
  })

  it("gives one alert to a shift that lasts, and to a drop", () => {
    const shift = one(detect(season((value, row) => (row >= 28 * 24 ? value * 3 : value))))
    assert.strictEqual(shift.kind, "level-shift")
    assert.isBelow(shift.detectedAt - (start + 28 * 24 * hour), 12 * hour)
    const drop = one(detect(season((value, row) => (row >= 28 * 24 ? 0 : value))))
    assert.isBelow(drop.actual, drop.expected)
  })

  it("judges rows by those before them alone", () => {
    const whole = season((value, row) => (row >= 28 * 24 ? value * 3 : value))
    const { detectedAt } = one(detect(whole))
    assert.lengthOf(detect(whole.filter(({ at }) => at < detectedAt)), 0)
    assert.strictEqual(one(detect(whole.filter(({ at }) => at <= detectedAt))).detectedAt, detectedAt)
  })

  it("does not report what is worth too little", () => {
    const points = season((value, row) => (row === 30 * 24 + 5 ? value * 30 : value))
    assert.lengthOf(detect(points, { ...defaultParameters, worth: 10_000 }), 0)
  })

  it("takes rows of any distance, gaps, zeros and negative numbers", () => {
    const odd = Array.from({ length: 2000 }, (_, row) => ({
      at: start + row * 7 * 60_000 + (row > 900 ? 5 * hour : 0),
      value: Math.sin(row * 78.233) * (row === 1500 ? 400 : 1)
    }))
    assert.include(
      detect(odd).map((episode) => episode.start),
      odd[1500]?.at
    )
    assert.deepStrictEqual(detect(odd.map(({ at }) => ({ at, value: 0 }))), [])
  })

  it("keeps precision and recall at 0.9 on injected series", () => {
    const { precision, recall } = evaluate(Array.from({ length: 60 }, (_, seed) => makeSeries(1000 + seed)))
    assert.isAtLeast(precision, 0.9)
    assert.isAtLeast(recall, 0.9)
  })
})

describe("the score of the Numenta Anomaly Benchmark", () => {
  const times = Array.from({ length: 1000 }, (_, row) => row)
  const windows = [[400, 499] as const]

  it("is 0 for silence and 100 for the first row of each window", () => {
    assert.strictEqual(normalised([scoreDetections({ times, windows }, [])]), 0)
    assert.approximately(normalised([scoreDetections({ times, windows }, [400])]), 100, 1e-9)
  })

  it("counts the earliest detection of a window, and none within the probation", () => {
    const late = normalised([scoreDetections({ times, windows }, [490])])
    assert.isBelow(late, 65)
    assert.strictEqual(normalised([scoreDetections({ times, windows }, [10, 490, 495])]), late)
  })

  it("takes 0.11 for a false detection, less right behind a window", () => {
    assert.approximately(scoreDetections({ times, windows }, [200, 400]).sum, 1 - 0.11, 1e-9)
    assert.approximately(scoreDetections({ times, windows }, [400, 999]).sum, 1 - 0.11, 1e-3)
    assert.isAbove(scoreDetections({ times, windows }, [400, 501]).sum, 1 - 0.02)
  })

  it.skipIf(!hasNab)(`is at least 45 for two folders of ${nabDirectory.split("/").slice(-2).join("/")}`, () => {
    const series = readNab(/^(?:realAdExchange|realTraffic)\//)
    const scores = series.map((one) =>
      scoreDetections(
        one,
        detect(one.points).map(({ start }) => start)
      )
    )
    assert.isAtLeast(normalised(scores), 45)
  })
})

describe("rules", () => {
  const use = {
    capId: "cap",
    headroomNanoUsd: 100n,
    lastHourNanoUsd: 20n,
    spentNanoUsd: 120n,
    elapsedHours: 101,
    remainingHours: 500
  }

  it("reports a cap that an unusual rate exhausts within a day", () => {
    assert.deepStrictEqual(burnRate(use), { times: 20, hoursToCap: 5 })
    assert.isUndefined(burnRate({ ...use, headroomNanoUsd: 10_000n }), "reached later")
    assert.isUndefined(burnRate({ ...use, remainingHours: 4 }), "the period ends before")
    assert.isUndefined(burnRate({ ...use, spentNanoUsd: 2_000n }), "the usual rate")
    assert.isUndefined(burnRate({ ...use, lastHourNanoUsd: 0n }), "nothing is spent")
  })

  it("reports a plan above 99 of 100 before it, once there are as many", () => {
    const before = Array.from({ length: 200 }, (_, index) => BigInt(index + 1))
    assert.strictEqual(planLimit(before), 198n)
    assert.isUndefined(planLimit(before.slice(0, 99)))
  })
})
