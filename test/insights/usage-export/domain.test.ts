import { assert, describe, it } from "@effect/vitest"
import { pathOf, pauseSeconds, slicesOf } from "../../../src/insights/usage-export/domain.ts"

describe("the parts of a file that are read at once", () => {
  it.each([
    [[], []],
    [[1], [[1, 1]]],
    [
      [4, 4, 4, 1],
      [
        [1, 3],
        [4, 4]
      ]
    ],
    [
      [100, 1, 1],
      [
        [1, 1],
        [2, 3]
      ]
    ],
    [
      [9, 1, 100],
      [
        [1, 2],
        [3, 3]
      ]
    ]
  ] as const)("of %j", (counts, slices) => {
    assert.deepStrictEqual(slicesOf(counts, 10), slices)
  })
})

it("a file has one path, under its day and hour in UTC", () => {
  const file = { number: 42n, hour: "2026-11-27T04", digest: "9f86d081", rows: 1, costNanoUsd: 1n, counts: [1] }
  assert.strictEqual(pathOf(file), "v1/dt=2026-11-27/hour=04/000000000042-9f86d081.jsonl.gz")
})

it("uploads pause for longer after each failure, and for five minutes at most", () => {
  assert.deepStrictEqual([1, 2, 3, 6, 7, 8, 1000].map(pauseSeconds), [5, 10, 20, 160, 300, 300, 300])
})
