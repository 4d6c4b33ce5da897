import { assert, layer } from "@effect/vitest"
import { Clock, Duration, Effect, Fiber, Layer } from "effect"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { runCommand, urlOf } from "../support/command.ts"
import { makeDatabase, type TestDatabase } from "../support/database.ts"
import { ended, makeDirectory, project } from "../support/embedded-postgres.ts"
import { kill, startReplica } from "../support/replica.ts"
import { caller, encryptionKey } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"
import { eventually } from "../support/waiting.ts"

/** What the made-up next release adds: a column, indexes of tables that are written to, rows that are filled in batches. */
const migration = `import { batches, index, script } from "../src/platform/database/migration-steps.ts"

export default [
  script("CREATE TABLE colors (id integer PRIMARY KEY); ALTER TABLE budget_counters ADD COLUMN color text;"),
  index("usage_rows_provider", "usage_rows", "(tenant_id, provider, occurred_at)"),
  index("audit_entries_reason", "audit_entries", "(tenant_id, reason)"),
  index("budget_counters_color", "budget_counters", "(tenant_id) WHERE color IS NULL"),
  batches(\`
    UPDATE budget_counters SET color = 'red'
    WHERE ctid = ANY (ARRAY(SELECT ctid FROM budget_counters WHERE color IS NULL LIMIT 500))\`),
  script("INSERT INTO colors VALUES (1)")
]
`

/** A copy of this build with another migration, and functions of the next revision. */
const nextRelease = Effect.gen(function* () {
  const directory = yield* makeDirectory()
  yield* Effect.promise(async () => {
    const names = ["src", "migrations", "dist", "package.json", "tsconfig.json"]
    await Promise.all(
      names.map((name) => fs.cp(path.join(project, name), path.join(directory, name), { recursive: true }))
    )
    await fs.symlink(path.join(project, "node_modules"), path.join(directory, "node_modules"))
    await fs.writeFile(path.join(directory, "migrations/0900_colors.ts"), migration)
    const functions = path.join(directory, "migrations/functions")
    const reserve = await fs.readFile(`${functions}/budgets_reserve.sql`, "utf8")
    await fs.writeFile(
      `${functions}/budgets_reserve.sql`,
      reserve.replace("BEGIN\n", "BEGIN\n  -- The next release.\n")
    )
    await fs.writeFile(
      `${functions}/color_of.sql`,
      "CREATE OR REPLACE FUNCTION color_of(id uuid) RETURNS text LANGUAGE sql STABLE AS $$ SELECT 'red' $$;\n"
    )
    const revision = JSON.parse(await fs.readFile(`${functions}/revision.json`, "utf8"))
    await fs.writeFile(`${functions}/revision.json`, JSON.stringify({ ...revision, revision: revision.revision + 1 }))
  })
  return directory
})

/** As much as a small installation has after some months. */
const fill = (database: TestDatabase, tenantId: string) =>
  asSuperuser(database, (sql) =>
    Effect.gen(function* () {
      yield* sql`
        INSERT INTO usage_rows (tenant_id, charge_id, occurred_at, batch, cost, method, created_by, provider)
        SELECT ${tenantId}, new_id(), now() - n * interval '1 second', 0, 1, 'provider_usage', 'filled', 'openai'
        FROM generate_series(1, 200000) n`
      yield* sql`
        INSERT INTO budget_counters (tenant_id, id, cap_id, counter_key, period_start, period_end, unit, created_at)
        SELECT ${tenantId}, new_id(), new_id(), n::text, now() - interval '2 days', now() - interval '1 day', 'usd', now()
        FROM generate_series(1, 100000) n`
      yield* sql`
        INSERT INTO audit_entries (occurred_at, action_type, entity_type, user_id, actor_type, tenant_id, outcome)
        SELECT now() - n * interval '1 second', 'Filled', 'Nothing', 'filled', 'system', ${tenantId}, 'success'
        FROM generate_series(1, 100000) n`
    })
  )

layer(Layer.empty, { excludeTestServices: true, timeout: "180 seconds" })("an upgrade under traffic", (it) => {
  it.effect("loses no request, and replicas of the release before are ready until they are stopped", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const before = [yield* startReplica(database), yield* startReplica(database)]
      const running = new Set(before)
      yield* Effect.addFinalizer(() => Effect.forEach(running, kill, { discard: true }))
      const [first, second] = before as [(typeof before)[0], (typeof before)[0]]
      const tenant = yield* caller(first.url)("POST", "/api/tenants", {
        body: { name: "Northwind", slug: "northwind" }
      })
      assert.strictEqual(tenant.status, 201, tenant.text)
      const cap = { name: "all", unit: "usd", limit: 1_000_000, period: "total", scope: {} }
      assert.strictEqual((yield* caller(first.url)("POST", "/api/budgets/caps", { body: cap })).status, 201)
      yield* fill(database, tenant.body.id)

      // Two clients for each replica that takes requests.
      const taking = new Set(before)
      const refused: Array<string> = []
      let reserved = 0
      let longestMillis = 0
      const state = { isOver: false }
      const client = Effect.fnUntraced(function* (place: number) {
        while (!state.isOver) {
          const replicas = [...taking]
          const { url } = replicas[place % replicas.length]!
          const [duration, answer] = yield* Effect.timed(
            caller(url)("POST", "/api/spend/reserve", { body: { amountUsd: 0.01, userId: `user ${place}` } })
          )
          longestMillis = Math.max(longestMillis, Duration.toMillis(duration))
          if (answer.status === 201) reserved += 1
          else refused.push(`${answer.status} ${answer.text}`)
        }
      })
      const notReady: Array<string> = []
      const watch = Effect.gen(function* () {
        while (!state.isOver) {
          for (const { url } of taking) {
            const ready = yield* caller(url)("GET", "/health/ready")
            if (ready.status !== 200) notReady.push(ready.text)
          }
          yield* Effect.sleep("100 millis")
        }
      })
      const traffic = yield* Effect.forkChild(
        Effect.all([...[0, 1, 2, 3].map(client), watch], { concurrency: "unbounded", discard: true })
      )
      yield* eventually(
        Effect.sync(() => reserved),
        (count) => count > 100
      )

      const build = yield* nextRelease
      const waiting = yield* Effect.forkChild(startReplica(database, { Database__Migrate: "false" }, build))
      const beganAt = yield* Clock.currentTimeMillis
      const { code, output } = yield* runCommand(
        "src/cli/migrate.ts",
        { Database__Url: urlOf(database), Security__EncryptionKey: encryptionKey },
        [],
        build
      )
      assert.strictEqual(code, 0, output)
      assert.include(output, "Applied migration 900_colors")
      const tookMillis = (yield* Clock.currentTimeMillis) - beganAt
      const next = yield* Fiber.join(waiting)
      running.add(next)
      taking.add(next)
      const [counted] = yield* asSuperuser(
        database,
        (sql) =>
          sql<{ readonly left: number }>`SELECT count(*)::integer AS left FROM budget_counters WHERE color IS NULL`
      )
      // Those alone that replicas have opened since.
      assert.isAtMost(counted?.left ?? Number.NaN, 8)

      const applied = asSuperuser(database, (sql) => sql`SELECT revision, checksum FROM applied_functions`)
      const ofNext = yield* applied
      // An old replica that starts again leaves what the next release applied.
      taking.delete(first)
      yield* Effect.sync(() => first.process.kill("SIGTERM"))
      yield* ended(first.process)
      running.delete(first)
      const again = yield* startReplica(database)
      running.add(again)
      taking.add(again)
      assert.deepStrictEqual(yield* applied, ofNext)
      assert.strictEqual((yield* caller(again.url)("GET", "/health/ready")).status, 200)
      const goal = reserved + 200
      yield* eventually(
        Effect.sync(() => reserved),
        (count) => count > goal
      )
      taking.delete(second)
      taking.delete(again)
      state.isOver = true
      yield* Fiber.join(traffic)

      assert.deepStrictEqual(notReady, [])
      assert.deepStrictEqual(refused, [])
      assert.deepStrictEqual(yield* asSuperuser(database, (sql) => sql`SELECT * FROM budgets_drift()`), [])
      process.stdout.write(
        `${reserved} reservations during the upgrade; the longest took ${Math.round(longestMillis)} ms, the migrations ${tookMillis} ms\n`
      )
    }).pipe(Effect.scoped)
  )
})
