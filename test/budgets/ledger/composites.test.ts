import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { composites } from "../../../src/budgets/ledger/repository.ts"
import { makeDatabase } from "../../support/database.ts"
import { asSuperuser } from "../../support/statements.ts"

it.live("rows of the ledger are declared with the fields, the types and the order that the database has", () =>
  Effect.gen(function* () {
    const rows = yield* asSuperuser(
      yield* makeDatabase,
      (sql) => sql<{ readonly type: string; readonly name: string; readonly fieldType: string }>`
        SELECT t.typname::text AS type, a.attname::text AS name, format_type(a.atttypid, NULL) AS "fieldType"
        FROM pg_type t JOIN pg_attribute a ON a.attrelid = t.typrelid
        WHERE t.typname = ANY (${Object.keys(composites)}) AND a.attnum > 0 AND NOT a.attisdropped
        ORDER BY t.typname, a.attnum`
    )
    const ofDatabase = (type: string) =>
      rows.filter((row) => row.type === type).map(({ fieldType, name }) => [name, fieldType])
    for (const [type, fields] of Object.entries(composites)) {
      assert.deepStrictEqual(Object.entries(fields), ofDatabase(type))
    }
  }).pipe(Effect.scoped)
)
