import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { Usd, UsdOrZero, usdText } from "../../src/kernel/usd.ts"

const decode = Schema.decodeUnknownExit(Usd)
const decodeOrZero = Schema.decodeUnknownExit(UsdOrZero)

describe("US dollars", () => {
  it.each([
    [0.000000001, 1n],
    [1, 1_000_000_000n],
    [0.1, 100_000_000n],
    [0.3, 300_000_000n],
    [1e-9, 1n],
    [8_388_607.999999999, 8_388_607_999_999_999n],
    [4_194_304.123456789, 4_194_304_123_456_789n]
  ])("%d are %d nano-dollars, and back", (usd, nanoUsd) => {
    assert.strictEqual(Schema.decodeSync(Usd)(usd), nanoUsd)
    assert.strictEqual(Schema.encodeSync(Usd)(nanoUsd), usd)
    assert.strictEqual(Number(usdText(nanoUsd)), usd)
  })

  it.each([
    0.1 + 0.2,
    1e-10,
    0.1234567891,
    -1,
    -0.000000001,
    Number.NaN,
    Number.POSITIVE_INFINITY,
    8_388_608,
    1e300,
    "1",
    null,
    1n
  ])("%s are none", (value) => {
    assert.strictEqual(decode(value)._tag, "Failure")
    assert.strictEqual(decodeOrZero(value)._tag, "Failure")
  })

  it("zero is a limit or an actual, and nothing to reserve", () => {
    assert.strictEqual(decode(0)._tag, "Failure")
    assert.strictEqual(Schema.decodeSync(UsdOrZero)(0), 0n)
  })

  it.each([
    [0n, "0"],
    [1n, "0.000000001"],
    [-1_500_000_000n, "-1.5"],
    [9_223_372_036_854_775_807n, "9223372036.854775807"]
  ])("%d is written %s", (nanoUsd, text) => {
    assert.strictEqual(usdText(nanoUsd), text)
  })
})
