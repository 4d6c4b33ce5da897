import { assert, layer } from "@effect/vitest"
import { Clock, Effect } from "effect"
import { diceOf } from "../contract/dice.ts"
import { makeKey } from "../support/authority.ts"
import { assertNoDrift, makeSetting } from "../support/plans.ts"
import { type Answer, serviceLayer, startService, TestService } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"

const seconds = Number(process.env.STORM_SECONDS ?? "60")
const clients = 64

layer(serviceLayer(), { excludeTestServices: true, timeout: "120 seconds" })("64 clients on overlapping caps", (it) => {
  // Invariant L16
  it.effect(
    "do everything that there is to do at once, over two replicas, and nobody waits in a circle",
    () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const replicas = [service, yield* startService(service.database)]
        const dice = diceOf("deadlocks")
        const models = ["small", "large", "huge"]
        const users = [...Array.from({ length: 6 }, (_, index) => `user ${index}`), "asks"]
        const scopes = [
          ...Array.from({ length: 12 }, () => ({
            ...(dice.chance(0.5) ? { model: dice.pickOr([...models, "each"], "") } : {}),
            ...(dice.chance(0.5) ? { userId: dice.pickOr([...users, "each"], "") } : {}),
            ...(dice.chance(0.3) ? { taskType: dice.pick(["extraction", "summaries"]) } : {})
          })),
          { agentId: "each" },
          {}
        ]
        const caps = scopes.map((scope, index) => ({
          scope,
          unit: (["usd", "usd", "tokens", "requests"] as const)[index % 4],
          limit: [30, 60, 200_000, 3000][index % 4],
          mode: index % 5 === 4 ? "approval" : "hard",
          alertThresholds: [{ measure: "committed", percent: 50 + index }],
          period: index % 3 === 0 ? "rolling" : dice.pick(["minute", "day", "total"]),
          windowSeconds: index % 3 === 0 ? 120 : null
        }))
        // Whatever counts on this one waits for somebody, as long as the hard caps have room.
        const asking = { scope: { userId: "asks" }, unit: "usd", limit: 0, mode: "approval", period: "day" }
        const { capIds, collection, key, tenantId } = yield* makeSetting(service, [...caps, asking])
        // Nobody approves what it asked for.
        const { key: approver } = yield* makeKey(service, ["*:*"], { tenantId })
        const open: Array<string> = []
        const held: Array<string> = []
        const plans: Array<string> = []
        const charges: Array<string> = []
        const statuses = new Map<string, number>()
        const faults: Array<string> = []
        const call = (method: string, path: string, body?: unknown, by = key): Effect.Effect<Answer> =>
          (dice.pickOr(replicas, service) ?? service).call(method, path, {
            key: by,
            ...(body === undefined ? {} : { body })
          })
        const some = (list: ReadonlyArray<string>) =>
          dice.pickOr(list.slice(-200), "0198a5b0-7c00-7000-8000-00000000002a")
        const acts: Readonly<Record<string, () => Effect.Effect<Answer>>> = {
          reserve: () =>
            call("POST", "/api/spend/reserve", {
              amountUsd: (1 + dice.below(100)) / 1000,
              tokens: dice.below(50),
              ttlSeconds: dice.pick([5, 60]),
              ...(dice.chance(0.7) ? { model: dice.pickOr(models, "") } : {}),
              ...(dice.chance(0.7) ? { userId: dice.pickOr(users, "") } : {}),
              ...(dice.chance(0.2) ? { planId: some(plans) } : {})
            }),
          settle: () =>
            call("POST", "/api/spend/reconcile", { reservationId: some(open), actualUsd: dice.below(150) / 1000 }),
          release: () => call("DELETE", `/api/spend/reservations/${some(open)}`),
          extend: () => call("POST", `/api/spend/reservations/${some(open)}/extend`, { ttlSeconds: 30 }),
          refund: () =>
            call(
              "POST",
              "/api/spend/refunds",
              { chargeId: some(charges), amountUsd: 0.001, reason: "credited" },
              approver
            ),
          approve: () =>
            call("POST", `/api/budgets/approvals/${some(held)}/approve`, { override: dice.chance(0.5) }, approver),
          deny: () => call("POST", `/api/budgets/approvals/${some(held)}/deny`, { reason: "no" }, approver),
          edit: () =>
            Effect.flatMap(call("GET", `/api/budgets/caps/${some(capIds)}`), ({ body }) =>
              call("PUT", `/api/budgets/caps/${body.id}`, { name: body.name, limit: body.limit, status: "active" })
            ),
          grant: () => call("POST", `/api/budgets/caps/${some(capIds)}/grants`, { amount: 1, reason: "more" }),
          start: () => call("POST", collection, { budgetUsd: 0.5, heartbeatSeconds: dice.pick([5, 120]) }),
          raise: () => call("POST", `${collection}/${some(plans)}/extend`, { additionalUsd: 0.1 }),
          beat: () => call("POST", `${collection}/${some(plans)}/heartbeat`),
          complete: () => call("POST", `${collection}/${some(plans)}/complete`),
          abort: () => call("POST", `${collection}/${some(plans)}/abort`),
          look: () => call("GET", "/api/budgets/caps-status")
        }
        const weighted = Object.keys(acts).flatMap((act) =>
          Array.from({ length: act === "reserve" ? 24 : act === "settle" ? 12 : act === "release" ? 6 : 1 }, () => act)
        )
        const until = (yield* Clock.currentTimeMillis) + seconds * 1000
        const client = Effect.gen(function* () {
          while ((yield* Clock.currentTimeMillis) < until) {
            const act = dice.pickOr(weighted, "reserve")
            const answer = yield* acts[act]?.() ?? call("GET", "/health")
            const name = `${act} ${answer.status}`
            statuses.set(name, (statuses.get(name) ?? 0) + 1)
            if (answer.status >= 500) faults.push(`${act}: ${answer.text}`)
            if (act === "reserve" && answer.status === 201) open.push(answer.body.id)
            if (act === "reserve" && answer.status === 202) held.push(answer.body.id)
            if (act === "start" && answer.status === 201) plans.push(answer.body.id)
            if (act === "settle" && answer.status === 200) charges.push(answer.body.charge.id)
          }
        })
        yield* Effect.all(
          Array.from({ length: clients }, () => client),
          { concurrency: "unbounded", discard: true }
        )
        assert.deepStrictEqual(faults.slice(0, 5), [])
        const [row] = yield* asSuperuser(
          service.database,
          (sql) => sql<{ readonly deadlocks: string }>`
            SELECT deadlocks::text AS deadlocks FROM pg_stat_database WHERE datname = current_database()`
        )
        assert.strictEqual(row?.deadlocks, "0")
        yield* assertNoDrift(service.database)
        // All of it happened: what never succeeds proves nothing.
        const done = Object.keys(acts).filter((act) =>
          [200, 201, 204].some((status) => statuses.has(`${act} ${status}`))
        )
        assert.sameMembers(done, Object.keys(acts), JSON.stringify(Object.fromEntries(statuses)))
        assert.isTrue(statuses.has("reserve 402"))
      }).pipe(Effect.scoped),
    (seconds + 120) * 1000
  )
})
