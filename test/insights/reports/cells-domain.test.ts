import { assert, describe, it } from "@effect/vitest"
import { CellSums, Histograms, Keys, placeOf } from "../../../src/insights/reports/cells-domain.ts"

describe("the cells of roll-ups", () => {
  it("have the place of their key, also where keys have one hash", () => {
    const texts = ["1xgcqqj1jf", "1o3s7tc2ky8", "", "gpt-5"]
    const keys = new Keys(texts)
    assert.deepStrictEqual(
      texts.map((text) => keys.placeOf(text)),
      [0, 1, 2, 3]
    )
    assert.strictEqual(keys.placeOf("ключ"), texts.length)
    const marked = "\ufeffmarked"
    assert.strictEqual(keys.texts[keys.placeOf(marked)], marked)
    assert.strictEqual(keys.find("ключ"), texts.length)
    assert.strictEqual(keys.find("-ключ-"), -1)
  })

  it.each([
    [9, -1],
    [10, 0],
    [19, 0],
    [20, 1],
    [30, 2],
    [31, 2]
  ])("at %s are in place %s between 10, 20 and 30", (at, place) => {
    assert.strictEqual(placeOf([10, 20, 30], at), place)
  })

  it("are added by key and place, and those that have none are none", () => {
    const sums = new CellSums(3, ["cost", "requests"])
    sums.add(1000, 2, [2n ** 62n, 1n])
    sums.add(0, 1, [0n, 0n])
    sums.add(1000, 2, [-1n, 2n])
    const read = (key: number, place: number) => {
      const values: Array<bigint> = []
      const isThere = sums.read(key, place, (column, sum) => (values[column] = sum))
      return isThere ? values : undefined
    }
    assert.deepStrictEqual(read(1000, 2), [2n ** 62n - 1n, 3n])
    assert.deepStrictEqual(read(0, 1), [0n, 0n])
    sums.add(7, 0, [-1n, -(2n ** 63n)])
    assert.deepStrictEqual(read(7, 0), [-1n, -(2n ** 63n)])
    for (let time = 0; time < 4; time++) sums.add(7, 0, [2n ** 63n - 1n, -(2n ** 63n)])
    assert.deepStrictEqual(read(7, 0), [2n ** 65n - 5n, -5n * 2n ** 63n])
    assert.isUndefined(read(0, 0))
    assert.isUndefined(read(5000, 0))
  })

  it("are added exactly, however many they are", () => {
    const sums = new CellSums(1, ["cost"])
    const many = 2 ** 21 + 5
    for (let time = 0; time < many; time++) sums.add(0, 0, [2n ** 32n - 1n])
    let found = 0n
    sums.read(0, 0, (_, sum) => (found = sum))
    assert.strictEqual(found, BigInt(many) * (2n ** 32n - 1n))
  })

  it("have the buckets that half and 95 of 100 of their calls are up to", () => {
    const histograms = new Histograms(2)
    for (const [bucket, calls] of [
      [-1, 10],
      [40, 40],
      [41, 45],
      [458, 5]
    ] as const) {
      histograms.add(3, 1, bucket, calls)
    }
    assert.deepStrictEqual(histograms.percentiles(), [{ key: 3, place: 1, p50: 40, p95: 41 }])
  })
})
