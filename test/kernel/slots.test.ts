import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { Slots } from "../../src/kernel/slots.ts"

const Step = Schema.Tuple([Schema.Literals(["add", "delete"]), Schema.Literals(["a", "b", "c", "d", "e"])])

describe("slots", () => {
  it.prop("hold what a set holds", [Schema.Array(Step)], ([steps]) => {
    const members = Array.from("abcde", (id) => ({ id, slot: undefined }))
    const slots = new Slots<(typeof members)[number]>()
    const set = new Set<string>()
    for (const [step, id] of steps) {
      slots[step](members.find((member) => member.id === id)!)
      set[step](id)
    }
    assert.sameMembers(
      Array.from(slots, ({ id }) => id),
      [...set]
    )
    assert.strictEqual(slots.size, set.size)
  })

  it("may be left by what they are walked for", () => {
    const slots = new Slots()
    for (let count = 0; count < 3; count++) slots.add({ slot: undefined })
    for (const member of slots) slots.delete(member)
    assert.strictEqual(slots.size, 0)
  })
})
