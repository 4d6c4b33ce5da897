import { assert, layer } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { Ledger } from "../../src/ledger/service.ts"
import { OwnDatabase } from "../support/clock.ts"
import { closeItem, ledgerLayer, makeCap, makeTenant, reserveItem } from "../support/ledger.ts"
import { asSuperuser } from "../support/statements.ts"
import { untilBlocked } from "../support/waiting.ts"

layer(ledgerLayer(), { timeout: "60 seconds" })("the counters of a cap", (it) => {
  it.effect("are free while a charge is written that takes long, and are locked for its end alone", () =>
    Effect.gen(function* () {
      const ledger = yield* Ledger
      const tenantId = yield* makeTenant
      yield* makeCap(tenantId, { limit: 10 })
      const first = reserveItem(tenantId, 1_000_000_000n)
      yield* ledger.reserveBatch([first])
      const closing = yield* asSuperuser(yield* OwnDatabase, (sql) =>
        sql.withTransaction(
          Effect.gen(function* () {
            yield* sql`LOCK TABLE budget_entries IN SHARE MODE`
            const closing = yield* Effect.forkDetach(ledger.closeBatch([closeItem("settle", first.id, { amount: 1n })]))
            yield* TestClock.withLive(untilBlocked(sql))
            const [reserved] = yield* ledger.reserveBatch([reserveItem(tenantId, 1_000_000_000n)])
            assert.strictEqual(reserved?.verdict, "open")
            assert.isUndefined(closing.pollUnsafe())
            return closing
          })
        )
      )
      const [closed] = yield* Fiber.join(closing)
      assert.strictEqual(closed?.verdict, "done")
    })
  )
})
