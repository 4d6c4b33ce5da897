import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { compositesOf } from "../../../src/platform/database/composites.ts"
import { makeDatabase } from "../../support/database.ts"
import { asSuperuser } from "../../support/statements.ts"

describe("rows as composites", () => {
  it("have their fields in the order given, and nothing for what a row lacks", () => {
    const rows = [
      ["a", 1n, undefined, undefined],
      ["b", 2, true, null],
      [undefined, undefined, undefined, undefined]
    ]
    assert.strictEqual(compositesOf(rows), `{"(a,1,,)","(b,2,true,)","(,,,)"}`)
    assert.isUndefined(compositesOf([]))
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
            SELECT to_json(${compositesOf(rows.map(({ object, text }) => [text, object]))}::text::some_row[]) AS rows`
        )
      )
      assert.deepStrictEqual(row?.rows, rows)
    }).pipe(Effect.scoped)
  )
})
