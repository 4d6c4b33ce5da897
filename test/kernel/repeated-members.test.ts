import { assert, describe, it } from "@effect/vitest"
import {
  excessIn,
  maxDepth,
  maxMembers,
  maxShapes,
  maxValues,
  repeatedMember
} from "../../src/kernel/json/json-scanner.ts"
import { type Dice, diceOf } from "../contract/dice.ts"

const found = (text: string) => repeatedMember(new TextEncoder().encode(text))

const words = ["a", "b", 'c"', "d\\", '\\"', "{", "}:", "[,]", "é\n", "", '"a":1', "\u0001😀"] as const

const draw = (dice: Dice, depth: number): unknown => {
  if (depth === 0 || dice.chance(0.3)) return dice.pick([null, 1.5, true, ...words])
  const members = Array.from({ length: dice.below(20) }, () => draw(dice, depth - 1))
  return dice.chance(0.5) ? members : Object.fromEntries(members.map((member) => [dice.pick(words), member]))
}

describe("a member that is there twice", () => {
  it("is found wherever it is, however it is written", () => {
    for (const [text, name] of [
      ['{"a":1,"a":2}', "a"],
      ['{"a":{"b":[{"c":1, "c" : 2}]}}', "c"],
      ['{"a":"}{","\\u0061":"\\\\\\""}', "a"],
      ['{"x":"\\\\","x":1}', "x"],
      [`{${Array.from({ length: 40 }, (_, index) => `"m${index}":1`).join()},"m3":1}`, "m3"],
      [`{"é":1,"é":2}`, "é"],
      ['{"max_tokens":1,"MAX_tokens":2}', "MAX_tokens"],
      ['{"max_tokens":1,"max_token\u017f":2}', "max_token\u017f"],
      ['{"max_tokens":1,"max_to\\u212Aens":2}', "max_to\u212Aens"],
      ['{"stra\u00dfe":1,"STRASSE":2}', "STRASSE"],
      ['{"stra\u1e9ee":1,"strasse":2}', "strasse"],
      ['{"\ufb01n":1,"FIN":2}', "FIN"],
      ['{"properties":{"a":1,"a":2}}', "a"],
      ['{"properties":{"a":{"type":1,"Type":2}}}', "Type"],
      ['{"properties":{"properties":{"type":1,"Type":2}}}', "Type"],
      ['{"properties":[{"a":1,"A":2}]}', "A"],
      ['{"properties":1,"b":{"a":1,"A":2}}', "A"]
    ] as const) {
      assert.strictEqual(found(text), name, text)
    }
  })

  it("is none where names of a schema's properties differ in case alone", () => {
    for (const map of ["properties", "patternProperties", "$defs", "definitions"]) {
      const schema = `{"type":"object","${map}":{"id":{"${map}":{"a":1,"A":1}},"ID":1}}`
      assert.isUndefined(found(`{"tools":[{"function":{"parameters":${schema}}}]}`), map)
    }
  })

  it("is found nowhere else", () => {
    for (let seed = 0; seed < 300; seed++) {
      const value = draw(diceOf(`repeated ${seed}`), seed % 6)
      for (const indent of [0, 1]) {
        const text = JSON.stringify(value, null, indent)
        assert.isUndefined(found(text), text)
      }
    }
    const deep = 200_000
    assert.isUndefined(found(`{"a":${"[".repeat(deep)}{"a":"a"}${"]".repeat(deep)},"b":{"a":1}}`))
  })
})

const excess = (text: string) => excessIn(new TextEncoder().encode(text))
const isDeep = (text: string) => excess(text) !== undefined
const nested = (depth: number) => `${"[".repeat(depth - 1)}{"a":1}${"]".repeat(depth - 1)}`

describe("JSON that is nested too deep", () => {
  it("has more than 1,000 arrays and objects within each other", () => {
    assert.isFalse(isDeep(nested(maxDepth)))
    assert.isTrue(isDeep(nested(maxDepth + 1)))
    assert.isTrue(isDeep("[".repeat(maxDepth + 1)))
  })

  it("is none with many beside each other, or in a string", () => {
    assert.isFalse(isDeep(`[${"[[]],".repeat(maxDepth)}[]]`))
    assert.isFalse(isDeep(JSON.stringify({ a: `"${"[{".repeat(maxDepth)}`, b: "\\" })))
  })
})

const manyShapes = "more than 20000 different names of members, or orders of them"
const named = (members: number, name: (member: number) => number) =>
  Array.from({ length: members }, (_, member) => `"${name(member)}":[{}]`).join()
/** Of few names, but in other orders. */
const digits = (at: number) => (member: number) => 30 * member + (Math.floor(at / 30 ** member) % 30)
const object = (members: number) => `{${Array.from({ length: members }, (_, index) => `"${index}":[1,2]`).join()}}`

describe("JSON that has too much", () => {
  it("has an object with more than 10,000 members, wherever it is, but arrays of any length", () => {
    assert.isUndefined(excess(`[${object(maxMembers)},${object(10)}]`))
    assert.strictEqual(excess(`[{"a":[${object(maxMembers + 1)}]}]`), "an object with more than 10000 members")
    assert.isUndefined(excess(`{"a":[${"1,".repeat(maxMembers)}1]}`))
  })

  it("has more than a million values", () => {
    assert.isUndefined(excess(`[${"1,".repeat(maxValues - 1)}1]`))
    assert.strictEqual(excess(`[${"1,".repeat(maxValues)}1]`), "more than 1000000 values")
    assert.strictEqual(excess(`[${"[],".repeat(maxValues / 2)}1]`), "more than 1000000 values")
    assert.isUndefined(excess(`["${"[],".repeat(maxValues)}"]`))
  })

  it("has more than 20,000 different names of members, or orders of them, but any number of equal objects", () => {
    const manyNames = (count: number) =>
      `[${Array.from({ length: count / 10 }, (_, at) => `{${named(10, (member) => at * 10 + member)}}`).join()},1]`
    assert.isUndefined(excess(manyNames(maxShapes)))
    assert.strictEqual(excess(manyNames(maxShapes + 10)), manyShapes)
    const inOrders = Array.from({ length: maxShapes }, (_, at) => `{${named(3, digits(at))}}`)
    assert.strictEqual(excess(`[${inOrders.join()}]`), manyShapes)
    assert.isUndefined(excess(`[${`{${named(10, Number)}},`.repeat(maxShapes)}1]`))
  })
})
