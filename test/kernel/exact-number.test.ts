import { assert, describe, it } from "@effect/vitest"
import { BigDecimal, Schema } from "effect"
import { exactNumber, readExact } from "../../src/kernel/json/exact-number.ts"

const codec = Schema.toCodecJson(exactNumber({ examples: [1] }))
const encode = Schema.encodeSync(codec)

describe("an exact number", () => {
  it.each([
    [0n, "0"],
    [1n, "0.000000001"],
    [999n, "0.000000999"],
    [1000n, "0.000001"],
    [-250_000_001n, "-0.250000001"],
    [250_000_000n, "0.25"],
    [123_456_789_012_345n, "123456.789012345"],
    [999_999_999_999_999n, "999999.999999999"],
    [1_000_000_000_000_001n, "1000000.000000001"],
    [8_388_607_999_999_999n, "8388607.999999999"],
    [25_165_823_999_999_997n, "25165823.999999997"],
    [9_223_372_036_854_775_807n, "9223372036.854775807"]
  ])("%s nano is written as %s, and read as a number", (nano, text) => {
    assert.strictEqual(JSON.stringify([encode(BigDecimal.make(nano, 9))]), `[${text}]`)
    const read = Schema.decodeUnknownSync(codec)(JSON.parse(text))
    assert.strictEqual(BigDecimal.toNumberUnsafe(read), Number(text))
  })

  it.each(['"1"', "null", "{}", "[1]", "true"])("%s is none", (text) => {
    assert.throws(() => Schema.decodeUnknownSync(codec)(JSON.parse(text)))
  })

  it.each(['{"a":25165823.999999997,"b":[0.25,1e-9,"25165823.999999997"],"c":null}', '{"a":18014398509481982}', "[1]"])(
    "%s is read and written again as it was",
    (text) => {
      assert.strictEqual(JSON.stringify(readExact(text)), text)
    }
  )
})
