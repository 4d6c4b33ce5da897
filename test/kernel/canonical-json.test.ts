import { assert, describe, it } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { canonicalJson } from "../../src/kernel/json/canonical-json.ts"

describe("canonical JSON", () => {
  // RFC 8785 §3.2.2 and §3.2.3, and its appendix B.
  it.each([
    [
      String.raw`{"numbers":[333333333.3333333,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`,
      String.raw`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`
    ],
    [
      String.raw`{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}`,
      `{"\\r":"Carriage Return","1":"One","\u0080":"Control","ö":"Latin Small Letter O With Diaeresis","€":"Euro Sign","😀":"Emoji: Grinning Face","\ufb33":"Hebrew Letter Dalet With Dagesh"}`
    ],
    ['{"b":[{"d":1,"c":2}],"a":{}}', '{"a":{},"b":[{"c":2,"d":1}]}'],
    [' { "a" : -0 , "b" : 1.0 , "c" : 100 } ', '{"a":0,"b":1,"c":100}'],
    ['{"__proto__":1,"constructor":2,"10":3,"9":4}', '{"10":3,"9":4,"__proto__":1,"constructor":2}'],
    ["[]", "[]"],
    ['"\u007f\u2028"', '"\u007f\u2028"']
  ])("of %s", (given, expected) => {
    assert.strictEqual(canonicalJson(given), expected)
  })

  it.each([
    ["12345678901234567890", "12345678901234567891"],
    ["0.1", "0.10000000000000000001"],
    ["333333333.33333329", "333333333.3333333"],
    ["9007199254740992", "9007199254740993"],
    ["1e400", "1e401"],
    ["-1e400", "1e400"],
    ["1e-400", "0"]
  ])("tells %s from %s, which are one double", (one, other) => {
    assert.notStrictEqual(canonicalJson(one), canonicalJson(other))
  })

  it.each([
    ["1.10", "1.1"],
    ["12345678901234567890.50", "123456789012345678905e-1"],
    ["1e400", "10e399"],
    ["100000000000000000000000", "1e23"],
    ["0.000", "-0"]
  ])("takes %s and %s for one number", (one, other) => {
    assert.strictEqual(canonicalJson(one), canonicalJson(other))
  })

  it.each(["{", "", "{'a':1}", "[1,]", "NaN", '{"a":1}x'])("of %j is none", (text) => {
    assert.throws(() => canonicalJson(text), SyntaxError)
  })

  it.effect.prop("is the same however the members stood, and is its own canonical form", [Schema.Json], ([value]) =>
    Effect.sync(() => {
      const canonical = canonicalJson(JSON.stringify(value))
      assert.deepStrictEqual(JSON.parse(canonical), JSON.parse(JSON.stringify(value)))
      assert.strictEqual(canonicalJson(canonical), canonical)
      assert.strictEqual(canonicalJson(JSON.stringify(shuffled(value), null, 2)), canonical)
    })
  )
})

const shuffled = (value: Schema.Json): Schema.Json => {
  if (typeof value !== "object" || value === null) return value
  if (Array.isArray(value)) return value.map(shuffled)
  return Object.fromEntries(
    Object.entries(value)
      .toReversed()
      .map(([name, member]) => [name, shuffled(member)])
  )
}
