import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { runCommand } from "../support/command.ts"
import { makeDirectory } from "../support/embedded-postgres.ts"
import { startProcess } from "../support/service-process.ts"
import { eventually } from "../support/waiting.ts"

layer(Layer.empty, { excludeTestServices: true, timeout: "5 minutes" })("the demo", (it) => {
  it.effect(
    "shows caps in every state, a held reservation, usage and versions; and is removed while the service is stopped",
    () =>
      Effect.gen(function* () {
        const directory = yield* makeDirectory()
        const purge = runCommand("src/cli/demo-purge.ts", { Database__Directory: directory })
        yield* Effect.gen(function* () {
          const service = yield* startProcess(directory, {}, ["--demo"])
          yield* eventually(Effect.sync(service.output), (output) => output.includes("The demo is ready"))
          const status = yield* service.call("GET", "/api/budgets/caps-status")
          const used: ReadonlyArray<{ readonly percentUsed: number }> = status.body.items
          assert.includeMembers(
            used.map(({ percentUsed }) => Math.round(percentUsed)),
            [35, 82, 100]
          )
          assert.strictEqual((yield* service.call("GET", "/api/budgets/approvals")).body.items.length, 1)
          assert.isAbove((yield* service.call("GET", "/api/insights/overview")).body.totals.requests, 1_000)
          const refused = yield* purge
          assert.deepStrictEqual(
            [refused.code, refused.output],
            [1, "The service is running on this database: stop it first.\n"]
          )
          yield* service.signal("SIGTERM")
          yield* service.ended
        }).pipe(Effect.scoped)
        assert.strictEqual((yield* purge).code, 0)
        const service = yield* startProcess(directory)
        assert.deepStrictEqual((yield* service.call("GET", "/api/agents")).body.items, [])
      }).pipe(Effect.scoped)
  )
})
