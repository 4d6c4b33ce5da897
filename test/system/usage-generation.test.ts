import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { runCommand, urlOf } from "../support/command.ts"
import { makeDatabase } from "../support/database.ts"
import { asSuperuser } from "../support/statements.ts"

const command = "src/cli/insights-generate.ts"
const words = ["--rows", "20000", "--days", "40"]

interface Label {
  readonly tenantId: string
  readonly agentId: string
  readonly kind: string
  readonly start: string
  readonly end: string
  readonly factor: number
}

it.live("insights:generate fills an empty Development installation, once, with the anomalies that it prints", () =>
  Effect.gen(function* () {
    const database = yield* makeDatabase
    const settings = { Database__Url: urlOf(database), APP_ENVIRONMENT: "Development" }
    const production = yield* runCommand(command, { ...settings, APP_ENVIRONMENT: "Production" }, words)
    assert.strictEqual(production.code, 1)
    assert.include(production.output, "Usage is generated in a Development installation only (APP_ENVIRONMENT).")

    const { code, output } = yield* runCommand(command, settings, words)
    assert.strictEqual(code, 0, output)
    const labels = output
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Label)
    assert.deepStrictEqual(
      labels.map(({ kind }) => kind),
      ["spike", "loop", "level-shift"]
    )
    yield* asSuperuser(database, (sql) =>
      Effect.gen(function* () {
        const [counts] = yield* sql`
          SELECT count(*) FILTER (WHERE method <> 'refunded')::integer AS calls,
            count(*) FILTER (WHERE method = 'refunded') > 0 AS has_refunds, count(DISTINCT tenant_id)::integer AS tenants,
            count(DISTINCT occurred_at::date)::integer AS days, max(occurred_at) <= now() AS is_past
          FROM usage_rows`
        assert.deepStrictEqual(counts, { calls: 20_000, has_refunds: true, tenants: 4, days: 40, is_past: true })
        for (const { agentId, end, factor, start, tenantId } of labels) {
          // Sizes vary: an anomaly is several times as costly on average, and not exactly its factor.
          const [cost] = yield* sql<{ readonly times: number; readonly tenants: string }>`
            SELECT avg(cost) FILTER (WHERE is_inside) / avg(cost) FILTER (WHERE NOT is_inside) AS times,
              min(tenant_id::text) AS tenants
            FROM (
              SELECT cost, tenant_id, occurred_at >= ${start}::timestamptz AND occurred_at < ${end}::timestamptz AS is_inside
              FROM usage_rows WHERE agent_id = ${agentId} AND method <> 'refunded'
            ) u`
          assert.isAbove(Number(cost?.times), factor / 3)
          assert.strictEqual(cost?.tenants, tenantId)
        }
      })
    )
    const verified = yield* runCommand("src/cli/insights-verify.ts", { Database__Url: urlOf(database) })
    assert.strictEqual(verified.code, 0, verified.output)

    const again = yield* runCommand(command, settings, words)
    assert.strictEqual(again.code, 1)
    assert.include(again.output, "There are agents or usage already: usage is generated where none is.")
    const unclear = yield* runCommand(command, settings, ["--rows", "0"])
    assert.strictEqual(unclear.code, 1)
    assert.include(unclear.output, "npm run insights:generate -- --rows N --days D")
  }).pipe(Effect.scoped)
)
