import { assert, it } from "@effect/vitest"
import { Effect, Layer, Option } from "effect"
import { ChainRepository } from "../../../src/audit/chain/chain-repository.ts"
import { makeDatabase } from "../../support/database.ts"
import { makeExplaining } from "../../support/explaining.ts"
import { asSuperuser } from "../../support/statements.ts"

/** Whether something waits in an audit log of 20,000 entries of as many transactions, and what was read to know it. */
const look = Effect.gen(function* () {
  const database = yield* makeDatabase
  yield* asSuperuser(
    database,
    (sql) => sql`
      INSERT INTO audit_entries (occurred_at, action_type, entity_type, entity_id, user_id, actor_type, outcome, transaction_id)
      SELECT now(), 'RoleCreated', 'Role', 'role-' || i, 'service-account', 'service-account', 'success', (1000000000 + i)::text::xid8
      FROM generate_series(1, 20000) i`
  )
  yield* asSuperuser(database, (sql) => sql`ANALYZE audit_entries`)
  const { explained, layer } = yield* makeExplaining(database, { isGeneric: true })
  const looked = Effect.gen(function* () {
    const chain = yield* ChainRepository
    const state = yield* chain.state
    return [
      yield* chain.look({ ...state, linked: "1000030000:1000030000:" }),
      yield* chain.look({ ...state, linked: "1000010000:1000030000:1000010000" }),
      yield* chain.look({ ...state, linked: "1000015000:1000015000:" }),
      yield* chain.look({ ...state, linked: "3:3:" })
    ].map(Option.isSome)
  })
  const waits = yield* Effect.provide(looked, ChainRepository.layer.pipe(Layer.provide(layer)))
  return { waits, explained: explained.filter(({ statement }) => statement.includes("waits")) }
})

it.effect("entries that wait for their link are found by the index, also where there are none", () =>
  Effect.gen(function* () {
    const { explained, waits } = yield* look
    // No server of a test run comes to the numbers of these transactions.
    assert.deepStrictEqual(waits, [false, true, false, true])
    for (const { pages, statement } of explained) assert.isBelow(pages, 50, statement)
    assert.strictEqual(explained.length, 4)
  })
)
