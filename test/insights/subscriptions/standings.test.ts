import { assert, layer } from "@effect/vitest"
import { DateTime, Effect, Layer } from "effect"
import { SubscriptionsRepository } from "../../../src/insights/subscriptions/repository.ts"
import { Database } from "../../../src/platform/database/database.ts"
import { makeTenant } from "../../support/authority.ts"
import { OwnDatabase, poolOnOwnDatabase } from "../../support/clock.ts"
import { writeUsage } from "../../support/insights.ts"
import { asSuperuser } from "../../support/statements.ts"

const repository = SubscriptionsRepository.layer.pipe(Layer.provideMerge(poolOnOwnDatabase))

layer(repository, { excludeTestServices: true })("what the gateway takes for used of a quota", (it) => {
  it.effect("is counted from the moment that the period begins, within an hour too, with synthetic calls", () =>
    Effect.gen(function* () {
      const database = yield* OwnDatabase
      const tenantId = yield* makeTenant(database)
      yield* asSuperuser(
        database,
        (sql) => sql`
          INSERT INTO subscriptions (tenant_id, provider, name, price, quota, period, time_zone, starts_at, overage, created_at,
            created_by, updated_at)
          VALUES (${tenantId}, 'openai', 'Team', 0, '{"unit":"requests","amount":9}', 'day', 'America/St_Johns', '2026-01-01',
            'deny', '2026-01-01', 'test', '2026-01-01')`
      )
      // A day begins there at 03:30 UTC.
      const times = ["03:10", "03:29", "03:30", "03:45", "04:00", "11:59"]
      yield* writeUsage(
        database,
        tenantId,
        [true, false].flatMap((synthetic) =>
          times.map((time) => ({ at: `2026-11-10T${time}:00Z`, cost: 1, provider: "openai", synthetic }))
        )
      )
      const now = DateTime.makeUnsafe("2026-11-10T12:00:00Z")
      const read = SubscriptionsRepository.use(({ standings }) => standings(now))
      const [standing] = yield* Database.use(({ transaction }) => transaction("all", read))
      assert.deepInclude(standing, { requests: 8n, cost: 8n })
    })
  )
})
