import { assert, describe, it } from "@effect/vitest"
import { cuts, edited, mergePatch, placesIn } from "../../../src/gateway/json/json-edits.ts"
import { isJson, type Json } from "../../../src/kernel/json/parsed-json.ts"
import { type Dice, diceOf } from "../../contract/dice.ts"

const bytesOf = (text: string) => new TextEncoder().encode(text)
const textOf = (bytes: Uint8Array) => Buffer.from(bytes).toString("utf8")

const words = ["a", "b", 'c"', "d\\", '\\"', "{", "}:", "[,]", "é\n", "", '"a":1', "😀", ","] as const
const names = ["a", "b", 'c"', "d\\", "é", ":{", "😀"] as const

const draw = (dice: Dice, depth: number): unknown => {
  if (depth === 0 || dice.chance(0.3)) return dice.pick<unknown>([1.5, true, ...words])
  const members = Array.from({ length: dice.below(6) }, () => draw(dice, depth - 1))
  return dice.chance(0.3) ? members : Object.fromEntries(members.map((member) => [dice.pick(names), member]))
}

const object = (dice: Dice, depth: number): Json => {
  const value = draw(dice, depth)
  return isJson(value) ? value : {}
}

/** RFC 7396, as it is written there. */
const merged = (target: unknown, patch: unknown): unknown => {
  if (!isJson(patch)) return patch
  const whole: Record<string, unknown> = isJson(target) ? { ...target } : {}
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete whole[name]
    else whole[name] = merged(whole[name], value)
  }
  return whole
}

describe("edits of JSON's text", () => {
  it("say what a merge patch says", () => {
    for (let seed = 0; seed < 500; seed++) {
      const dice = diceOf(`patch ${seed}`)
      const body = object(dice, 4)
      const patch = Object.fromEntries(
        Object.entries(object(dice, 3)).map(([name, value]) => [name, dice.chance(0.3) ? null : value])
      )
      for (const indent of [0, 1]) {
        const text = JSON.stringify(body, null, indent)
        const after = textOf(edited(bytesOf(text), mergePatch(bytesOf(text), body, patch)))
        assert.deepStrictEqual(JSON.parse(after), merged(body, patch), `${text} with ${JSON.stringify(patch)}`)
      }
    }
  })

  it("leave everything else byte for byte", () => {
    const text = ' { "n" : 9007199254740993, "mod\\u0065l":"a" ,"price" :1.10,"o":{ "x":1.0 ,"y":2e0},\n"gone":[1] } '
    const patch = { model: "b", o: { y: 3, z: 4 }, gone: null, added: true }
    assert.strictEqual(
      textOf(edited(bytesOf(text), mergePatch(bytesOf(text), JSON.parse(text), patch))),
      ' {"added":true, "n" : 9007199254740993, "mod\\u0065l":"b" ,"price" :1.10,"o":{"z":4, "x":1.0 ,"y":3} } '
    )
  })

  it("cut any elements out of a list", () => {
    const all = Array.from({ length: 5 }, (_, index) => [index, { a: `,${index}]` }])
    for (let mask = 0; mask < 32; mask++) {
      const without = (index: number) => (mask & (1 << index)) !== 0
      for (const indent of [0, 1]) {
        const bytes = bytesOf(JSON.stringify(all, null, indent))
        const after = JSON.parse(textOf(edited(bytes, cuts(placesIn(bytes), without))))
        assert.deepStrictEqual(
          after,
          all.filter((_, index) => !without(index))
        )
      }
    }
  })
})
