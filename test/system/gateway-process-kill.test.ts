import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { beginStream, endless } from "../support/endless-stream.ts"
import { isLinux, makeDirectory } from "../support/embedded-postgres.ts"
import { model, provider } from "../support/gateway.ts"
import { startProvider } from "../support/provider.ts"
import { serviceKey } from "../support/service.ts"
import { startProcess } from "../support/service-process.ts"
import { asSuperuser } from "../support/statements.ts"
import { eventually } from "../support/waiting.ts"

it.live.runIf(isLinux)(
  "the hold of a call is settled by whoever comes after a process that was killed, and nothing stays reserved",
  () =>
    Effect.gen(function* () {
      const directory = yield* makeDirectory()
      const standIn = yield* startProvider(endless)
      const cap = { name: "a cap", unit: "usd", limit: 1, period: "total" }
      yield* Effect.scoped(
        Effect.gen(function* () {
          const doomed = yield* startProcess(directory)
          const body = { providers: [provider("oa", standIn)], models: [model("gpt", ["oa"])] }
          assert.strictEqual((yield* doomed.call("PUT", "/api/llm/admin/config", { body })).status, 200)
          assert.strictEqual((yield* doomed.call("POST", "/api/budgets/caps", { body: cap })).status, 201)
          yield* beginStream(doomed.url, serviceKey)
          yield* doomed.signal("SIGKILL")
          assert.strictEqual(yield* doomed.ended, "SIGKILL")
        })
      )
      const next = yield* startProcess(directory)
      const utilization = () =>
        Effect.map(next.call("GET", "/api/budgets/caps-status"), ({ body }) => body.items[0] as Record<string, number>)
      const { reserved = 0, spent = 0 } = yield* utilization()
      assert.isAbove(reserved, 0)
      assert.strictEqual(spent, 0)
      yield* asSuperuser(
        next.database,
        (sql) => sql`UPDATE budget_reservations SET expires_at = now() - interval '1 second' WHERE state = 'open'`
      )
      const after = yield* eventually(utilization(), (one) => one.reserved === 0)
      assert.strictEqual(after.spent, reserved)
      const [row] = yield* asSuperuser(next.database, (sql) => sql`SELECT method FROM gateway_usage`)
      assert.deepStrictEqual(row, { method: "expired" })
    }).pipe(Effect.scoped)
)
