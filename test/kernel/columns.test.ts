import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { columnOf, columnsOf } from "../../src/kernel/columns.ts"
import { makeDatabase } from "../support/database.ts"
import { asSuperuser } from "../support/statements.ts"

describe("rows by their columns", () => {
  it("are one array for each name, and none for what no row has", () => {
    const rows = [{ id: "a", amount: 1 }, { id: "b", amount: 2, isLate: true }, undefined]
    assert.deepStrictEqual(
      { ...columnsOf(["id", "amount", "isLate", "note"], rows, "id") },
      {
        id: "{a,b,NULL}",
        amount: "{1,2,NULL}",
        isLate: "{NULL,true,NULL}",
        note: undefined
      }
    )
    assert.isUndefined(columnOf([]))
  })

  it("say once what is the same in all rows, but for those that stand for them", () => {
    const rows = [
      { id: "a", model: "m", rates: { input: "1" }, tokens: 1 },
      { id: "a", model: "m", rates: { input: "1" }, tokens: 2 }
    ]
    assert.deepStrictEqual(columnsOf(["id", "model", "rates", "tokens"], rows, "id"), {
      id: "{a,a}",
      model: "{m}",
      rates: `{"{\\"input\\":\\"1\\"}"}`,
      tokens: "{1,2}"
    })
  })

  it("take a value that some rows lack for one that differs", () => {
    const rows = [{ provider: "p" }, undefined, { provider: "p", usage: {} }]
    const columns = columnsOf(["provider", "usage"], rows, undefined)
    assert.deepStrictEqual(columns, { provider: "{p,NULL,p}", usage: '{NULL,NULL,"{}"}' })
  })

  it.live("are what PostgreSQL reads again, whatever stands in them", () =>
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
