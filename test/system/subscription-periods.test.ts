import { assert, it } from "@effect/vitest"
import { Effect } from "effect"
import { makeTenant } from "../support/authority.ts"
import { makeDatabase } from "../support/database.ts"
import { clockAhead, kill, startReplica } from "../support/replica.ts"
import { caller, serviceKey } from "../support/service.ts"

const day = 86_400
const tokens = (amount: number) => ({ unit: "tokens", amount })

it.live("a pending quota applies at the end of its period, exactly once on any number of replicas", () =>
  Effect.gen(function* () {
    const database = yield* makeDatabase
    const tenantId = yield* makeTenant(database)
    const replicas = yield* Effect.forEach(
      [0, day, day, 2 * day],
      (ahead) => startReplica(database, clockAhead(ahead)),
      {
        concurrency: 2
      }
    )
    yield* Effect.addFinalizer(() => Effect.forEach(replicas, kill))
    const [now, tomorrow, tomorrowToo, dayAfter] = replicas.map(({ url }) => caller(url))
    const body = { provider: "openai", name: "Team", priceUsd: 20, quota: tokens(1000), period: "day" }
    const made = yield* now!("POST", "/api/subscriptions", { key: serviceKey, body: { ...body, tenantId } })
    assert.strictEqual(made.status, 201, made.text)
    const path = `/api/subscriptions/${made.body.id}`
    const get = (ask: typeof now) => Effect.map(ask!("GET", path, { key: serviceKey }), (answer) => answer.body)
    const put = (ask: typeof now, members: object) =>
      Effect.map(ask!("PUT", path, { key: serviceKey, body: { ...body, ...members } }), (answer) => {
        assert.strictEqual(answer.status, 200, answer.text)
        return answer.body
      })

    yield* put(now, { quota: tokens(5000), priceUsd: 80 })
    assert.deepInclude(yield* get(now), { quota: tokens(1000), priceUsd: 20 })
    for (const ask of [tomorrow, tomorrowToo]) {
      assert.deepInclude(yield* get(ask), { quota: tokens(5000), priceUsd: 80, pending: null })
      const { body: used } = yield* ask!("GET", `${path}/utilization`, { key: serviceKey })
      assert.deepStrictEqual(used.quota, tokens(5000))
    }

    // Both store what has applied, and each wants another change for the period after.
    const changed = yield* Effect.all(
      [tomorrow, tomorrowToo].map((ask, index) => put(ask, { quota: tokens(7000 + index), priceUsd: 90 })),
      { concurrency: "unbounded" }
    )
    for (const one of changed) assert.deepInclude(one, { quota: tokens(5000), priceUsd: 80 })
    const stored = yield* get(tomorrow)
    assert.deepInclude(stored, { quota: tokens(5000), priceUsd: 80 })
    assert.include([7000, 7001], stored.pending.quota.amount)
    assert.deepInclude(yield* get(dayAfter), { quota: stored.pending.quota, priceUsd: 90, pending: null })
    // Cancelled before its time: the first change stays, and is not made again.
    yield* put(tomorrow, { quota: tokens(5000), priceUsd: 80, pending: null })
    assert.deepInclude(yield* get(dayAfter), { quota: tokens(5000), priceUsd: 80, pending: null })
  }).pipe(Effect.scoped)
)
