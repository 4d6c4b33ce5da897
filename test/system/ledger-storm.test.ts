import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Layer, type Scope } from "effect"
import * as crypto from "node:crypto"
import { diceOf } from "../contract/dice.ts"
import { makeDatabase, type TestDatabase } from "../support/database.ts"
import { breakdowns, hasPatroni, makeCluster, mend } from "../support/patroni.ts"
import { hasPooler, makeTransactionPooler, throughPooler } from "../support/pooler.ts"
import { clockAhead, kill, startReplica } from "../support/replica.ts"
import { type Answer, type Call, caller } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"
import { eventually } from "../support/waiting.ts"

const seconds = Number(process.env.STORM_SECONDS ?? "60")
const clients = 64
const nano = 1e9

/** What the replicas run on. */
interface Ground {
  readonly database: TestDatabase
  readonly environment: Readonly<Record<string, string>>
  /** Lets another server become the primary, and the old one its standby. */
  readonly failOver?: Effect.Effect<void, never, Scope.Scope>
  /** Until the database can be asked. */
  readonly settled?: Effect.Effect<unknown>
}

const plain = Effect.map(makeDatabase, (database): Ground => ({ database, environment: {} }))

const cluster = Effect.gen(function* () {
  const { database, isSynchronous, primary } = yield* makeCluster
  const kinds = Object.values(breakdowns)
  let next = 0
  const failOver = Effect.gen(function* () {
    const old = yield* eventually(primary, (node) => node !== undefined, "1 minute")
    const breakdown = kinds[next++ % kinds.length]
    if (old === undefined || breakdown === undefined) return
    yield* breakdown(old)
    yield* eventually(primary, (node) => node !== undefined && node.name !== old.name, "1 minute")
    yield* mend(old)
    yield* eventually(isSynchronous, (is) => is, "2 minutes")
  })
  const settled = eventually(primary, (node) => node !== undefined, "1 minute")
  return {
    database,
    environment: throughPooler(yield* makeTransactionPooler(database)),
    failOver,
    settled
  } satisfies Ground
})

const grounds = [
  ["", plain, true],
  [" through PgBouncer, while primaries break down", cluster, hasPatroni && hasPooler]
] as const

layer(Layer.empty, { excludeTestServices: true, timeout: "120 seconds" })("two replicas in a storm", (it) => {
  for (const [where, ground, hasPrograms] of grounds) {
    // Invariants L1, L17
    it.effect.runIf(hasPrograms)(
      `lose nothing and overspend nothing while replicas are killed and paused, the database hangs, and a clock is wrong${where}`,
      () =>
        Effect.gen(function* () {
          const { database, environment, failOver, settled }: Ground = yield* ground
          const start = (at: number) =>
            startReplica(database, {
              Database__AcquireTimeoutSeconds: "2",
              ...environment,
              ...(at === 1 ? clockAhead(120) : {})
            })
          const replicas = [yield* start(0), yield* start(1)]
          yield* Effect.addFinalizer(() => Effect.forEach(replicas, kill, { discard: true }))
          const dice = diceOf("storm of replicas")
          const faults = { kills: 0, pauses: 0, hangs: 0, ...(failOver === undefined ? {} : { failOvers: 0 }) }
          const kinds = Object.keys(faults) as ReadonlyArray<keyof typeof faults>

          /** Asks any replica until one answers: what got no answer is asked again under its key. */
          const ask = Effect.fnUntraced(function* (
            method: string,
            path: string,
            call: Call
          ): Effect.fn.Return<Answer & { readonly tries: number }> {
            for (let tries = 1; tries <= 2000; tries++) {
              const replica = dice.pickOr(replicas, replicas[0])
              const answer = yield* Effect.exit(caller(replica?.url ?? "")(method, path, call))
              // The request may still run at a replica that is paused.
              const isOpen = answer._tag === "Success" && answer.value.body?.type?.endsWith("idempotency-in-progress")
              if (answer._tag === "Success" && answer.value.status < 500 && !isOpen) return { ...answer.value, tries }
              yield* Effect.sleep("25 millis")
            }
            return yield* Effect.die(new Error(`${method} ${path} was never answered`))
          })

          const keyed = (path: string, body: object) =>
            ask("POST", path, { body, headers: { "idempotency-key": crypto.randomUUID() } })

          const users = Array.from({ length: 10 }, (_, index) => `user ${index}`)
          const limits = new Map<string, number>()
          for (const scope of [{}, { model: "small" }, ...users.map((userId) => ({ userId }))]) {
            const limit = dice.pick([5, 50, 500])
            const body = { name: JSON.stringify(scope), unit: "usd", limit, period: "total", scope }
            const made = yield* ask("POST", "/api/budgets/caps", { body })
            assert.strictEqual(made.status, 201, made.text)
            limits.set(made.body.id, limit)
          }
          const held = {
            name: "held",
            unit: "usd",
            limit: 0,
            period: "total",
            mode: "approval",
            scope: { model: "held" }
          }
          const heldCap = yield* ask("POST", "/api/budgets/caps", { body: held })
          assert.strictEqual(heldCap.status, 201, heldCap.text)
          let granted = 0

          const until = (yield* Clock.currentTimeMillis) + seconds * 1000
          const opened = new Set<string>()
          // A refusal frees the key, so what was asked before and got no answer may be decided once more, later.
          const refusedLate: Array<string> = []
          const client = Effect.gen(function* () {
            while ((yield* Clock.currentTimeMillis) < until) {
              const body = {
                amountUsd: (1 + dice.below(1000)) / 1000,
                userId: dice.pickOr(users, ""),
                ...(dice.chance(0.5) ? { model: dice.chance(0.2) ? "held" : "small" } : {})
              }
              const answer = yield* keyed("/api/spend/reserve", body)
              if (answer.status === 402) {
                if (answer.tries > 1) refusedLate.push(`${body.userId} ${Math.round(body.amountUsd * nano)}`)
                continue
              }
              assert.include([201, 202], answer.status, answer.text)
              const { id } = answer.body
              assert.isFalse(opened.has(id), "one reservation for two requests")
              opened.add(id)
              if (answer.status === 202) {
                const approved = yield* keyed(`/api/budgets/approvals/${id}/approve`, { override: true })
                // The other caps may have no room any more.
                assert.include([200, 409], approved.status, approved.text)
                if (approved.status === 409) continue
              }
              if (dice.chance(0.15)) continue
              if (dice.chance(0.5)) yield* ask("DELETE", `/api/spend/reservations/${id}`, {})
              else {
                const actualUsd = Math.floor(body.amountUsd * 100) / 1000
                const settled = yield* keyed("/api/spend/reconcile", { reservationId: id, actualUsd })
                assert.strictEqual(settled.status, 200, settled.text)
                if (actualUsd === 0 || dice.chance(0.5)) continue
                const refund = { chargeId: settled.body.charge.id, amountUsd: actualUsd, reason: "credited" }
                const refunded = yield* keyed("/api/spend/refunds", refund)
                assert.strictEqual(refunded.status, 201, refunded.text)
                const grant = yield* keyed(`/api/budgets/caps/${heldCap.body.id}/grants`, {
                  amount: 0.001,
                  reason: "more"
                })
                assert.strictEqual(grant.status, 201, grant.text)
                granted += 1
              }
            }
          })

          /** Stops the sessions of the service in the database, whatever they are doing, for longer than a request waits. */
          const hang = Effect.gen(function* () {
            const sessions = yield* asSuperuser(
              database,
              (sql) => sql<{ readonly pid: number }>`
              SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()`
            )
            const signal = (name: NodeJS.Signals) =>
              Effect.forEach(sessions, ({ pid }) => Effect.ignore(Effect.try(() => process.kill(pid, name))), {
                discard: true
              })
            yield* signal("SIGSTOP")
            yield* Effect.ensuring(Effect.sleep("2500 millis"), signal("SIGCONT"))
          })
          const pause = (at: number) =>
            Effect.gen(function* () {
              replicas[at]?.process.kill("SIGSTOP")
              yield* Effect.sleep("2500 millis")
              replicas[at]?.process.kill("SIGCONT")
            })
          const trouble = Effect.gen(function* () {
            for (let round = 0; (yield* Clock.currentTimeMillis) < until - 5000; round++) {
              yield* Effect.sleep(`${500 + dice.below(1500)} millis`)
              const at = dice.below(2)
              const fault = kinds[round % kinds.length] ?? "kills"
              faults[fault] = (faults[fault] ?? 0) + 1
              if (fault === "failOvers") yield* failOver ?? Effect.void
              else if (fault === "hangs") yield* Effect.andThen(settled ?? Effect.void, hang)
              else if (fault === "pauses") yield* pause(at)
              else {
                if (replicas[at] !== undefined) yield* kill(replicas[at])
                yield* settled ?? Effect.void
                replicas[at] = yield* start(at)
              }
            }
          })
          yield* Effect.all([trouble, ...Array.from({ length: clients }, () => client)], {
            concurrency: "unbounded",
            discard: true
          })

          yield* settled ?? Effect.void
          const found = yield* asSuperuser(database, (sql) =>
            Effect.all({
              drift: sql`SELECT * FROM budgets_drift()`,
              counters: sql<{ readonly cap_id: string; readonly used: string }>`
              SELECT cap_id, (spent + reserved)::text AS used FROM budget_counters`,
              granted: sql<{ readonly amount: string }>`SELECT sum(amount)::text AS amount FROM budget_grants
              WHERE reservation_id IS NULL`,
              reservations: sql<{ readonly id: string; readonly asked: string }>`
              SELECT id, user_id || ' ' || amount AS asked FROM budget_reservations`,
              deadlocks: sql<{ readonly count: string }>`
              SELECT deadlocks::text AS count FROM pg_stat_database WHERE datname = current_database()`
            })
          )
          assert.deepStrictEqual(found.drift, [])
          for (const { cap_id, used } of found.counters) {
            if (cap_id === heldCap.body.id) continue
            assert.isAtMost(Number(used), (limits.get(cap_id) ?? 0) * nano, `cap ${cap_id}`)
          }
          // Every reservation was answered to somebody, once, but for those that were refused to who asked again.
          const unanswered = found.reservations.filter(({ id }) => !opened.has(id))
          assert.strictEqual(found.reservations.length - unanswered.length, opened.size)
          for (const { asked } of unanswered) {
            const place = refusedLate.indexOf(asked)
            assert.isAtLeast(place, 0, `${asked} was answered to nobody`)
            refusedLate.splice(place, 1)
          }
          assert.strictEqual(found.deadlocks[0]?.count, "0")
          assert.strictEqual(Number(found.granted[0]?.amount), granted * 1_000_000)
          assert.isAbove(Math.min(...Object.values(faults)), 0, JSON.stringify(faults))
          assert.isAbove(opened.size, clients)
          process.stdout.write(`${opened.size} reservations${where}; faults: ${JSON.stringify(faults)}\n`)
        }),
      (seconds + 300) * 1000
    )
  }
})
