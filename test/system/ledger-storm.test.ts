import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Layer } from "effect"
import * as crypto from "node:crypto"
import { diceOf } from "../contract/dice.ts"
import { makeDatabase } from "../support/database.ts"
import { kill, startReplica } from "../support/replica.ts"
import { type Answer, type Call, caller } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"

const seconds = Number(process.env.STORM_SECONDS ?? "60")
const clients = 64
const nano = 1e9

layer(Layer.empty, { excludeTestServices: true, timeout: "120 seconds" })("two replicas in a storm", (it) => {
  it.effect(
    "lose nothing and overspend nothing while one of them is killed again and again",
    () =>
      Effect.gen(function* () {
        const database = yield* makeDatabase
        const replicas = [yield* startReplica(database), yield* startReplica(database)]
        yield* Effect.addFinalizer(() => Effect.forEach(replicas, kill, { discard: true }))
        const dice = diceOf("storm of replicas")
        let kills = 0

        /** Asks any replica until one answers: what got no answer is asked again under its key. */
        const ask = Effect.fnUntraced(function* (method: string, path: string, call: Call): Effect.fn.Return<Answer> {
          for (let tries = 0; tries < 400; tries++) {
            const replica = dice.pickOr(replicas, replicas[0])
            const answer = yield* Effect.exit(caller(replica?.url ?? "")(method, path, call))
            if (answer._tag === "Success" && answer.value.status < 500) return answer.value
            yield* Effect.sleep("25 millis")
          }
          return yield* Effect.die(new Error(`${method} ${path} was never answered`))
        })

        const users = Array.from({ length: 10 }, (_, index) => `user ${index}`)
        const limits = new Map<string, number>()
        for (const scope of [{}, { model: "small" }, ...users.map((userId) => ({ userId }))]) {
          const limit = dice.pick([2, 5, 20])
          const body = { name: JSON.stringify(scope), unit: "usd", limit, period: "total", scope }
          const made = yield* ask("POST", "/api/budgets/caps", { body })
          assert.strictEqual(made.status, 201, made.text)
          limits.set(made.body.id, limit)
        }

        const until = (yield* Clock.currentTimeMillis) + seconds * 1000
        const opened = new Map<string, string>()
        const client = Effect.gen(function* () {
          while ((yield* Clock.currentTimeMillis) < until) {
            const key = crypto.randomUUID()
            const body = {
              amountUsd: (1 + dice.below(1000)) / 1000,
              userId: dice.pickOr(users, ""),
              ...(dice.chance(0.5) ? { model: "small" } : {})
            }
            const answer = yield* ask("POST", "/api/spend/reserve", { body, headers: { "idempotency-key": key } })
            if (answer.status === 402) continue
            assert.strictEqual(answer.status, 201, answer.text)
            const { id } = answer.body
            assert.isFalse(opened.has(id), "one reservation for two requests")
            opened.set(id, key)
            if (dice.chance(0.15)) continue
            if (dice.chance(0.7)) yield* ask("DELETE", `/api/spend/reservations/${id}`, {})
            else {
              const settle = { reservationId: id, actualUsd: Math.floor(body.amountUsd * 100) / 1000 }
              const settled = yield* ask("POST", "/api/spend/reconcile", { body: settle })
              assert.strictEqual(settled.status, 200, settled.text)
            }
          }
        })
        const killer = Effect.gen(function* () {
          while ((yield* Clock.currentTimeMillis) < until - 3000) {
            yield* Effect.sleep(`${500 + dice.below(1500)} millis`)
            const at = dice.below(2)
            const victim = replicas[at]
            if (victim !== undefined) yield* kill(victim)
            kills += 1
            replicas[at] = yield* startReplica(database)
          }
        })
        yield* Effect.all([killer, ...Array.from({ length: clients }, () => client)], {
          concurrency: "unbounded",
          discard: true
        })

        const found = yield* asSuperuser(database, (sql) =>
          Effect.all({
            drift: sql`SELECT * FROM budgets_drift()`,
            counters: sql<{ readonly cap_id: string; readonly used: string }>`
              SELECT cap_id, (spent + reserved)::text AS used FROM budget_counters`,
            reservations: sql<{ readonly count: number }>`SELECT count(*)::integer AS count FROM budget_reservations`,
            deadlocks: sql<{ readonly count: string }>`
              SELECT deadlocks::text AS count FROM pg_stat_database WHERE datname = current_database()`
          })
        )
        assert.deepStrictEqual(found.drift, [])
        for (const { cap_id, used } of found.counters) {
          assert.isAtMost(Number(used), (limits.get(cap_id) ?? 0) * nano, `cap ${cap_id}`)
        }
        // Every reservation was answered to somebody, once.
        assert.strictEqual(found.reservations[0]?.count, opened.size)
        assert.strictEqual(found.deadlocks[0]?.count, "0")
        assert.isAbove(kills, 1)
        assert.isAbove(opened.size, clients)
      }),
    (seconds + 120) * 1000
  )
})
