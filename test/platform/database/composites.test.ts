import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { compositesOf } from "../../../src/platform/database/composites.ts"
import { makeDatabase } from "../../support/database.ts"
import { asSuperuser } from "../../support/statements.ts"

describe("rows as composites", () => {
  it("have their fields in the declared order, whatever order they are given in, and nothing for what a row lacks", () => {
    const arrayOf = compositesOf({ name: "text", count: "bigint", done: "boolean", notes: "jsonb" })
    const rows = [
      { name: "a", count: 1n, done: undefined, notes: undefined },
      { notes: null, done: true, count: 2, name: "b" },
      { name: undefined, count: undefined, done: undefined, notes: undefined }
    ]
    assert.strictEqual(arrayOf(rows), `{"(a,1,,)","(b,2,true,)","(,,,)"}`)
    assert.isUndefined(arrayOf([]))
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
      const rows = texts.map((text, at) => ({ text, object: objects[at % objects.length] }))
      const [row] = yield* asSuperuser(yield* makeDatabase, (sql) =>
        Effect.andThen(
          sql`CREATE TYPE some_row AS (text text, object jsonb)`,
          sql<{ readonly rows: ReadonlyArray<unknown> }>`
            SELECT to_json(${compositesOf({ text: "text", object: "jsonb" })(rows)}::text::some_row[]) AS rows`
        )
      )
      assert.deepStrictEqual(row?.rows, rows)
    }).pipe(Effect.scoped)
  )
})
