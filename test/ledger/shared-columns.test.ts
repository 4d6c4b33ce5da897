import { assert, describe, it } from "@effect/vitest"
import { sharedColumnsOf } from "../../src/ledger/batch-repository.ts"

describe("sharedColumnsOf", () => {
  it("says once what is the same in all rows, and nothing where there is no value", () => {
    const rows = [
      { id: "a", model: "m", rates: { input: "1" }, tokens: 1 },
      { id: "a", model: "m", rates: { input: "1" }, tokens: 2 }
    ]
    assert.deepStrictEqual(sharedColumnsOf(["id", "model", "rates", "tokens", "note"], rows), {
      id: "{a,a}",
      model: "{m}",
      rates: `{"{\\"input\\":\\"1\\"}"}`,
      tokens: "{1,2}",
      note: undefined
    })
  })

  it("takes a value that some rows lack for one that differs", () => {
    assert.deepStrictEqual(
      sharedColumnsOf(["provider", "usage"], [{ provider: "p" }, undefined, { provider: "p", usage: {} }]),
      { provider: "{p,NULL,p}", usage: '{NULL,NULL,"{}"}' }
    )
  })
})
