import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { makeDatabase } from "../support/database.ts"
import { isLinux, makeDirectory } from "../support/embedded-postgres.ts"
import { beginStream, endless } from "../support/endless-stream.ts"
import { configure, model, provider } from "../support/gateway.ts"
import { startProvider } from "../support/provider.ts"
import { startProcess } from "../support/service-process.ts"
import { serviceKey, startService, type TestService } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"
import { eventually } from "../support/waiting.ts"

const expiryOf = (database: TestService["Service"]["database"]) =>
  Effect.map(
    asSuperuser(
      database,
      (sql) => sql<{ readonly at: number; readonly state: string }>`
        SELECT extract(epoch FROM expires_at)::float8 AS at, state FROM budget_reservations`
    ),
    ([row]) => row
  )

it.live("the hold of a call is renewed while it runs", () =>
  Effect.gen(function* () {
    const service = yield* startService(yield* makeDatabase, { Llm__Gateway__HoldSeconds: "5" })
    const standIn = yield* startProvider(endless)
    yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"])])
    yield* beginStream(service.url, service.serviceKey)
    const first = yield* expiryOf(service.database)
    const later = yield* eventually(expiryOf(service.database), (row) => (row?.at ?? 0) >= (first?.at ?? 0) + 5)
    assert.strictEqual(later?.state, "open")
  }).pipe(Effect.scoped)
)

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
      const [row] = yield* asSuperuser(next.database, (sql) => sql`SELECT method FROM usage_rows`)
      assert.deepStrictEqual(row, { method: "expired" })
    }).pipe(Effect.scoped)
)
