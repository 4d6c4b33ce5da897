import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { runCommand } from "../support/command.ts"
import { makeDirectory, project } from "../support/embedded-postgres.ts"
import { type ServiceProcess, startProcess } from "../support/service-process.ts"
import { eventually } from "../support/waiting.ts"

interface Use {
  readonly capId: string
  readonly name: string
  readonly spent: number
  readonly limit: number
  readonly reserved: number
  readonly percentUsed: number
  readonly periodStart: string | null
  readonly scope: Readonly<Record<string, string>>
}

interface Listed {
  readonly id: string
  readonly name: string
  readonly tenantId: string
  readonly ownerUserId: string | null
  readonly lastSeenAt: string | null
}

const readIn = (service: ServiceProcess) => (path: string) =>
  Effect.map(service.call("GET", path), ({ body, status, text }) => {
    assert.strictEqual(status, 200, text)
    return body
  })

const sum = (items: ReadonlyArray<{ readonly costUsd: number }>) => items.reduce((all, { costUsd }) => all + costUsd, 0)

/** What a figure of the demo contradicts, found as a reader of its pages would. */
const checkFigures = Effect.fnUntraced(function* (service: ServiceProcess) {
  const read = readIn(service)
  const { items: uses }: { readonly items: ReadonlyArray<Use> } = yield* read("/api/budgets/caps-status?limit=200")
  assert.includeMembers(
    uses.map(({ percentUsed }) => Math.round(percentUsed)),
    [35, 82, 100]
  )
  const { items: caps } = yield* read("/api/budgets/caps?limit=200")
  const tenantOf = new Map<string, string>(
    caps.map(({ id, tenantId }: { readonly id: string; readonly tenantId: string }) => [id, tenantId])
  )
  for (const { capId, limit, name, periodStart, reserved, scope, spent } of uses) {
    // A cap has counted what its page of usage shows for the same time.
    const filter = new URLSearchParams({ ...scope, tenantId: tenantOf.get(capId) ?? "", from: periodStart ?? "" })
    const { totals } = yield* read(`/api/insights/overview?${filter}`)
    assert.closeTo(spent, totals.costUsd, 1e-6, `${name} ${JSON.stringify(scope)}`)
    if (!/each/i.test(name)) assert.isAtMost(spent + reserved, limit + 1e-9, name)
  }
  const { items: agents }: { readonly items: ReadonlyArray<Listed> } = yield* read("/api/agents?limit=200")
  assert.isAbove(agents.filter(({ ownerUserId }) => ownerUserId !== null).length, 40)
  assert.isTrue(agents.every(({ lastSeenAt }) => lastSeenAt !== null))

  // What was spent is with vendors and on models that there are, and on nothing without a name.
  const models = new Set<string>()
  const providers = new Set<string>()
  for (const { id, providers: at } of yield* read("/api/llm/models")) {
    models.add(id)
    for (const one of at) providers.add(one)
  }
  const byModel = yield* read("/api/insights/by-model?limit=200")
  const byProvider = yield* read("/api/insights/by-provider?limit=200")
  for (const { key } of byModel.items) assert.isTrue(models.has(key), `the model ${key}`)
  for (const { key } of byProvider.items) assert.isTrue(providers.has(key), `the provider ${key}`)
  assert.isAbove(byProvider.items.length, 3)
  const { totals } = yield* read("/api/insights/overview")
  assert.closeTo(sum(byModel.items), totals.costUsd, 0.01)
  assert.isAbove(totals.requests, 1_000)

  const { items: anomalies } = yield* read("/api/insights/anomalies?limit=200")
  assert.isAbove(anomalies.length, 0)
  const days = new Set(anomalies.map(({ start }: { readonly start: string }) => start.slice(0, 10)))
  assert.isAbove(days.size, 1, "anomalies over the history")

  // Bills agree but for what is explained, one finding, and the days that are not settled.
  const from = new Date(Date.now() - 40 * 86_400_000).toISOString()
  const bills = yield* read(`/api/insights/reconciliation?limit=200&from=${from}`)
  assert.deepStrictEqual(
    [...new Set(bills.items.map(({ provider }: { readonly provider: string }) => provider))].toSorted(),
    ["anthropic", "openai"]
  )
  const why = bills.items.flatMap(({ explanations }: { readonly explanations: ReadonlyArray<{ kind: string }> }) =>
    explanations.map(({ kind }) => kind)
  )
  assert.sameMembers([...new Set(why)], ["discount", "estimated", "late", "other-clients", "price"])
  assert.strictEqual(bills.totals.findings, 1)

  const { items: held } = yield* read("/api/budgets/approvals")
  assert.lengthOf(held, 1)
  const { caps: waitedFor, reservation } = held[0]
  assert.match(reservation.createdBy, /^api-key:/)
  assert.isNotNull(reservation.agentId)
  assert.isNotNull(reservation.model)
  const short = waitedFor.find(({ hasRoom }: { readonly hasRoom: boolean }) => !hasRoom)
  assert.deepInclude(short, { mayRaise: true, mode: "approval" })
  const refused = yield* read("/api/audit-logs?actionType=SpendRefused")
  assert.isAbove(refused.items.length, 0)
})

layer(Layer.empty, { excludeTestServices: true, timeout: "5 minutes" })("the demo", (it) => {
  it.effect("shows everything, of which nothing contradicts another; and is removed while the service is stopped", () =>
    Effect.gen(function* () {
      const directory = yield* makeDirectory()
      const purge = runCommand("src/cli/demo-purge.ts", { Database__Directory: directory })
      yield* Effect.gen(function* () {
        const service = yield* startProcess(directory, {}, ["--demo"])
        yield* eventually(
          Effect.sync(service.output),
          (output) => /The demo is ready|--demo:/.test(output),
          "4 minutes"
        )
        assert.include(service.output(), "The demo is ready")
        yield* checkFigures(service)
        const refused = yield* purge
        assert.deepStrictEqual(
          [refused.code, refused.output],
          [1, "The service is running on this database: stop it first.\n"]
        )
        yield* service.signal("SIGTERM")
        yield* service.ended
      }).pipe(Effect.scoped)
      const verified = yield* runCommand("src/cli/ledger-verify.ts", { Database__Directory: directory })
      assert.strictEqual(verified.code, 0, verified.output)
      yield* Effect.gen(function* () {
        const again = yield* startProcess(directory, {}, ["--demo"])
        yield* eventually(Effect.sync(again.output), (output) => output.includes("npm run demo:purge empties it"))
      }).pipe(Effect.scoped)
      assert.strictEqual((yield* purge).code, 0)
      const service = yield* startProcess(directory)
      assert.deepStrictEqual((yield* service.call("GET", "/api/agents")).body.items, [])
    }).pipe(Effect.scoped)
  )

  it.effect("is not added to data that are no demo, and the answer says where it would be", () =>
    Effect.gen(function* () {
      const directory = yield* makeDirectory()
      yield* Effect.gen(function* () {
        const service = yield* startProcess(directory)
        const made = yield* service.call("POST", "/api/agents", { body: { name: "own", ownerUserId: "ada" } })
        assert.strictEqual(made.status, 201, made.text)
        yield* service.signal("SIGTERM")
        yield* service.ended
      }).pipe(Effect.scoped)
      const again = yield* startProcess(directory, {}, ["--demo"])
      yield* eventually(Effect.sync(again.output), (output) => output.includes("--demo:"))
      assert.include(again.output(), "has data already, so nothing is added.")
      assert.include(again.output(), "npm start -- --demo uses .demo.")
      assert.lengthOf((yield* again.call("GET", "/api/agents")).body.items, 1)
    }).pipe(Effect.scoped)
  )

  it.effect("is in a directory of its own where no database is named, and there is none to remove before", () =>
    Effect.gen(function* () {
      // The command looks for files of the project where it is started.
      const directory = yield* makeDirectory()
      yield* Effect.promise(() =>
        Promise.all(
          ["src", "migrations", "node_modules", "package.json"].map((name) =>
            fs.symlink(path.join(project, name), path.join(directory, name))
          )
        )
      )
      const purged = yield* runCommand("src/cli/demo-purge.ts", {}, [], directory)
      assert.deepStrictEqual(
        [purged.code, purged.output],
        [1, "There is no demo in .demo (Database:Directory), so nothing is removed.\n"]
      )
      assert.isFalse((yield* Effect.promise(() => fs.readdir(directory))).includes(".demo"))
    }).pipe(Effect.scoped)
  )
})
