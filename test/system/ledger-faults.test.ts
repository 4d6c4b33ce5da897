import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import { makeAgent } from "../support/agents.ts"
import { makeDatabase } from "../support/database.ts"
import { clockAhead, kill, startReplica } from "../support/replica.ts"
import { caller, TestService } from "../support/service.ts"
import { eventually } from "../support/waiting.ts"

const two = (environment: Readonly<Record<string, string>>) =>
  Effect.gen(function* () {
    const database = yield* makeDatabase
    const replicas = [yield* startReplica(database), yield* startReplica(database, environment)] as const
    yield* Effect.addFinalizer(() => Effect.forEach(replicas, kill, { discard: true }))
    const serviceOf = (at: 0 | 1): TestService["Service"] =>
      TestService.of({
        url: replicas[at].url,
        serviceKey: "",
        database,
        replica: Effect.sync(() => serviceOf(at === 0 ? 1 : 0)),
        call: caller(replicas[at].url)
      })
    return {
      first: serviceOf(0),
      second: serviceOf(1),
      process: replicas[0].process,
      outputOfSecond: replicas[1].output
    }
  })

let made = 0
const key = () => ({ "idempotency-key": `fault ${(made += 1)}` })

layer(Layer.empty, { excludeTestServices: true, timeout: "120 seconds" })("two replicas with faults", (it) => {
  // Invariant L19
  it.effect("do not expire each other's reservations, however wrong the clock of one is", () =>
    Effect.gen(function* () {
      const { first, outputOfSecond, second } = yield* two(clockAhead(120))
      const { id: agentId } = yield* makeAgent(first)
      const cap = { name: "one", unit: "usd", limit: 1, period: "total", scope: { agentId } }
      assert.strictEqual((yield* first.call("POST", "/api/budgets/caps", { body: cap })).status, 201)
      const reserve = { agentId, amountUsd: 1, ttlSeconds: 60 }
      const held = yield* first.call("POST", "/api/spend/reserve", { body: reserve })
      assert.strictEqual(held.status, 201, held.text)
      // What is due is swept before a denial.
      const denied = yield* second.call("POST", "/api/spend/reserve", { body: reserve })
      assert.strictEqual(denied.status, 402, denied.text)
      const seen = yield* second.call("GET", `/api/spend/reservations/${held.body.id}`)
      assert.strictEqual(seen.body.state, "open")
      const plan = yield* first.call("POST", `/api/agents/${agentId}/plans`, { body: { budgetUsd: 1 } })
      assert.strictEqual(plan.status, 402, plan.text)
      const ready = yield* second.call("GET", "/health/ready")
      assert.strictEqual(ready.status, 200, ready.text)
      const clock = ready.body.checks.find(({ name }: { readonly name: string }) => name === "clock")
      assert.match(clock?.detail, /^1(?:19|20|21) s ahead of the database$/u)
      assert.match(outputOfSecond(), /The clock of this machine is 1(?:19|20|21) s ahead of the database/u)
    }).pipe(Effect.scoped)
  )

  // Invariant L24
  it.effect(
    "do not wait for one that is stopped in the middle of keyed changes",
    () =>
      Effect.gen(function* () {
        const { first, process, second } = yield* two({ Database__AcquireTimeoutSeconds: "2" })
        const { id: agentId } = yield* makeAgent(first)
        const cap = { name: "many", unit: "usd", limit: 0, period: "total", mode: "approval", scope: { agentId } }
        const made = yield* first.call("POST", "/api/budgets/caps", { body: cap })
        assert.strictEqual(made.status, 201, made.text)

        const post = (path: string, body: object) => first.call("POST", path, { body, headers: key() })

        /** A reservation that is held, approved, settled and refunded, all under keys. */
        const once = Effect.gen(function* () {
          const held = yield* post("/api/spend/reserve", { agentId, amountUsd: 1 })
          yield* post(`/api/budgets/approvals/${held.body.id}/approve`, { override: true })
          const { body } = yield* post("/api/spend/reconcile", { reservationId: held.body.id, actualUsd: 1 })
          yield* post("/api/spend/refunds", { chargeId: body.charge.id, amountUsd: 0.5, reason: "credited" })
          yield* post(`/api/budgets/caps/${made.body.id}/grants`, { amount: 0.01, reason: "more" })
        })
        for (let round = 0; round < 10; round++) {
          const loops = yield* Effect.forEach(Array.from({ length: 12 }), () =>
            Effect.forkChild(Effect.forever(once), { startImmediately: true })
          )
          yield* eventually(
            second.call("GET", `/api/budgets/caps-status?capId=${made.body.id}`),
            ({ body }) => body.items[0]?.spent > round
          )
          process.kill("SIGSTOP")
          // Answered within its deadline of 2 seconds, however often it is asked.
          for (let tries = 0; tries < 5; tries++) {
            const reserved = yield* second.call("POST", "/api/spend/reserve", { body: { agentId, amountUsd: 1 } })
            assert.include([201, 202], reserved.status, reserved.text)
          }
          process.kill("SIGCONT")
          yield* Fiber.interruptAll(loops)
        }
      }).pipe(Effect.scoped),
    240_000
  )
})
