import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { columnOf, columnsOf } from "../../../src/platform/database/columns.ts"
import { makeDatabase } from "../../support/database.ts"
import { asSuperuser } from "../../support/statements.ts"

describe("rows by their columns", () => {
  it("are one array for each name, and undefined where no row has a value", () => {
    const rows = [{ id: "a", amount: 1 }, { id: "b", amount: 2, isLate: true }, undefined]
    assert.deepStrictEqual(
      { ...columnsOf({ ids: "id", amounts: "amount", late: "isLate", notes: "note" }, rows, "ids") },
      {
        ids: "{a,b,NULL}",
        amounts: "{1,2,NULL}",
        late: "{NULL,true,NULL}",
        notes: undefined
      }
    )
    assert.isUndefined(columnOf([]))
  })

  it("have one element when all rows are equal, except for the column of each row", () => {
    const rows = [
      { id: "a", model: "m", rates: { input: "1" }, tokens: 1 },
      { id: "a", model: "m", rates: { input: "1" }, tokens: 2 }
    ]
    assert.deepStrictEqual(columnsOf({ ids: "id", models: "model", rates: "rates", tokens: "tokens" }, rows, "ids"), {
      ids: "{a,a}",
      models: "{m}",
      rates: `{"{\\"input\\":\\"1\\"}"}`,
      tokens: "{1,2}"
    })
  })

  it("treat a value that some rows lack as a difference", () => {
    const rows = [{ provider: "p" }, undefined, { provider: "p", usage: {} }]
    const columns = columnsOf({ providers: "provider", usages: "usage" }, rows, undefined)
    assert.deepStrictEqual(columns, { providers: "{p,NULL,p}", usages: '{NULL,NULL,"{}"}' })
  })

  it.live("are read back by PostgreSQL, whatever text they have", () =>
    Effect.gen(function* () {
      const texts = [
        "",
        "NULL",
        "null",
        " a ",
        "a,b",
        "{a}",
        `"`,
        "\\",
        `\\"`,
        "{}",
        "\t",
        "\u{b}",
        "\n\r\f",
        "\u{a0}",
        "'",
        "\u{1f600}",
        "[1:2]={1,2}",
        "(a)",
        "(a)",
        null,
        "NULL",
        "NULL"
      ]
      const objects = [{ a: `"\\{},` }, ["x", null], [], {}, null]
      const [row] = yield* asSuperuser(
        yield* makeDatabase,
        (sql) => sql<{ readonly texts: ReadonlyArray<unknown>; readonly objects: ReadonlyArray<unknown> }>`
          SELECT to_json(${columnOf(texts)}::text::text[]) AS texts, to_json(${columnOf(objects)}::text::jsonb[]) AS objects`
      )
      assert.deepStrictEqual(row?.texts, texts)
      assert.deepStrictEqual(row?.objects, objects)
    }).pipe(Effect.scoped)
  )
})
