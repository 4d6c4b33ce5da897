import { assert, describe, it } from "@effect/vitest"
import { parse } from "../../../src/platform/runtime/json-parse.ts"
import { type Dice, diceOf } from "../../contract/dice.ts"

type Value = null | number | string | ReadonlyArray<Value> | { readonly [name: string]: Value }

const characters = ["a", "b", "\\", "u", "0", "6", "n", '"', "\n", "é", "\u{f8ff}", "\ud800"] as const

const drawName = (dice: Dice): string =>
  dice.chance(0.05) ? "__proto__" : Array.from({ length: dice.below(4) }, () => dice.pick(characters)).join("")

const draw = (dice: Dice, depth: number): Value => {
  if (depth === 0 || dice.chance(0.3)) return dice.pick([null, 1.5, drawName(dice)])
  const members = Array.from({ length: dice.below(4) }, () => draw(dice, depth - 1))
  return dice.chance(0.3) ? members : Object.fromEntries(members.map((member) => [drawName(dice), member]))
}

/** A text with any of its characters as an escape. */
const writeText = (dice: Dice, text: string): string =>
  `"${Array.from({ length: text.length }, (_, index) =>
    dice.chance(0.4)
      ? `\\u${text.charCodeAt(index).toString(16).padStart(4, "0")}`
      : JSON.stringify(text[index]).slice(1, -1)
  ).join("")}"`

const write = (dice: Dice, value: Value): string => {
  if (typeof value === "string") return writeText(dice, value)
  if (typeof value !== "object" || value === null) return JSON.stringify(value)
  const blank = dice.pick(["", " ", "\n"])
  if (Array.isArray(value)) return `[${value.map((element: Value) => write(dice, element)).join(`,${blank}`)}]`
  const members = Object.entries(value).map(([name, inner]) => `${writeText(dice, name)}${blank}:${write(dice, inner)}`)
  return `{${members.join()}}`
}

describe("JSON", () => {
  it("is read as it is written, whatever was read before", () => {
    const dice = diceOf("names")
    for (let run = 0; run < 20_000; run++) {
      const value = draw(dice, 3)
      const text = write(dice, value)
      assert.deepStrictEqual(JSON.parse(text), value, text)
      assert.deepStrictEqual(
        parse(text, (_, inner) => inner),
        value,
        text
      )
    }
  })

  it.each([
    ['"\\\\"', '"\\n"'],
    ['"\\\\"', '"\\u006e"'],
    ['"max_token\\\\"', '"max_token\\u0073"'],
    ['"\\\\u0"', '"\\u0061bc"'],
    ['"^\\\\\\\\d+"', '"^\\\\d+$"']
  ])("has the name of neither other: %s, %s", (first, second) => {
    for (const name of [first, second, first, second]) {
      const text = `{"model":"x","stream":true,${name}:1}`
      assert.deepStrictEqual(Object.keys(JSON.parse(text) as object), ["model", "stream", JSON.parse(name)])
    }
  })

  it("is given to a function with the names and the digits that are written", () => {
    const seen: Array<unknown> = []
    const text = '{"a\\\\":[12345678901234567890],"\u{f8ff}":{"\\u0062":1}}'
    parse(text, (name, value, context) => {
      seen.push([name, context?.source])
      return value
    })
    assert.deepStrictEqual(seen, [
      ["0", "12345678901234567890"],
      ["a\\", undefined],
      ["b", "1"],
      ["\u{f8ff}", undefined],
      ["", undefined]
    ])
  })

  it("has the last of members with one name, and an error where it is malformed", () => {
    assert.deepStrictEqual(parse('{"\\\\":0,"a":1,"\\u0061":2}'), { "\\": 0, a: 2 })
    assert.deepStrictEqual(parse('{"\\\\":0,"a":2,"\\u0061":1,"a":3}'), { "\\": 0, a: 3 })
    assert.deepStrictEqual(parse('{"\\\\":0,"\\u0031":"first","1":"last"}'), { "\\": 0, 1: "last" })
    for (const text of ["", '{"\\\\":1', '{"\\q":1}', '"\\']) assert.throws(() => parse(text), SyntaxError)
  })
})
