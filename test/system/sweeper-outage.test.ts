import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { makeKey } from "../support/authority.ts"
import { makeServer } from "../support/leaving-server.ts"
import { makeDue, statesOf } from "../support/ledger.ts"
import { assertNoDrift } from "../support/plans.ts"
import { startService } from "../support/service.ts"
import { eventually } from "../support/waiting.ts"

describe("the sweeper and a database that goes away", () => {
  it.live(
    "goes on when the database is back, killed in its midst or not",
    () =>
      Effect.gen(function* () {
        const server = yield* makeServer
        const service = yield* startService(server.database)
        const { key } = yield* makeKey(service, ["*:*"])
        const cap = { name: "a cap", unit: "usd", limit: 100, period: "total" }
        const made = yield* service.call("POST", "/api/budgets/caps", { key, body: cap })
        assert.strictEqual(made.status, 201, made.text)
        const reserve = Effect.forEach(
          Array.from({ length: 40 }),
          () => service.call("POST", "/api/spend/reserve", { key, body: { amountUsd: 0.5 } }),
          { concurrency: 8 }
        )
        for (const leave of [server.stop, server.crash]) {
          for (const { status, text } of yield* reserve) assert.strictEqual(status, 201, text)
          const tenantId = (yield* service.call("GET", "/api/spend/reservations?limit=1", { key })).body.items[0]
            .tenantId
          yield* makeDue(server.database, tenantId)
          yield* leave
          assert.strictEqual((yield* service.call("GET", "/api/budgets/caps-status", { key })).status, 503)
          yield* server.startAgain
          yield* eventually(
            Effect.orElseSucceed(Effect.sandbox(statesOf(server.database, tenantId)), (): Record<string, number> => ({
              open: 1
            })),
            ({ open }) => open === undefined
          )
          const { body } = yield* eventually(
            service.call("GET", `/api/budgets/caps-status?capId=${made.body.id}`, { key }),
            ({ status }) => status === 200
          )
          assert.deepInclude(body.items[0], { reserved: 0, spent: 0 })
          yield* assertNoDrift(server.database)
        }
      }).pipe(Effect.scoped),
    120_000
  )
})
