import { assert, layer } from "@effect/vitest"
import { Clock, Effect, Exit, Fiber, Layer, type Scope } from "effect"
import * as crypto from "node:crypto"
import { runCommand, urlOf } from "../support/command.ts"
import { beginStream, endless } from "../support/endless-stream.ts"
import { configureVendors } from "../support/gateway-vendors.ts"
import { model, provider, spender } from "../support/gateway.ts"
import { breakdowns, hasPatroni, makeCluster, mend } from "../support/patroni.ts"
import { makeTransactionPooler, throughPooler } from "../support/pooler.ts"
import { startProvider } from "../support/provider.ts"
import { hasRedis, makeRedis } from "../support/redis.ts"
import { kill, startReplica } from "../support/replica.ts"
import { type Answer, type Call, caller, encryptionKey, serviceKey } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"
import { eventually } from "../support/waiting.ts"

/** A fault, and what is left to mend once the service may write again. */
interface Fault {
  readonly name: string
  /** The statuses of requests that are refused; 0 where there is no answer. */
  readonly refusals?: ReadonlyArray<number>
  readonly during: Effect.Effect<Effect.Effect<unknown, never, Scope.Scope>, never, Scope.Scope>
}

layer(Layer.empty, { excludeTestServices: true, timeout: "300 seconds" })("a fail-over under traffic", (it) => {
  it.effect.runIf(hasPatroni)("loses nothing that was acknowledged, and replicas go on without a restart", () =>
    Effect.gen(function* () {
      const { database, isSynchronous, nodes, primary } = yield* makeCluster
      yield* Effect.addFinalizer((exit) =>
        Exit.isSuccess(exit)
          ? Effect.void
          : Effect.forEach(nodes, ({ log, name }) =>
              Effect.map(log, (text) => void process.stdout.write(`Patroni ${name}:\n${text}\n`))
            )
      )
      const pooler = yield* makeTransactionPooler(database)
      const redis = hasRedis ? yield* makeRedis : undefined
      if (redis !== undefined) yield* redis.startAgain
      const start = startReplica(database, {
        Database__AcquireTimeoutSeconds: "2",
        ...throughPooler(pooler),
        ...(redis === undefined
          ? {}
          : { Api__RateLimit__Enabled: "true", Api__RateLimit__PerMinute: "1000000", Redis__Url: redis.url })
      })
      const replicas = [yield* start, yield* start]
      const all = [...replicas]
      yield* Effect.addFinalizer(() => Effect.forEach(all, kill, { discard: true }))
      const [{ url }] = replicas as [(typeof replicas)[0]]
      const service = { url, call: caller(url), database, serviceKey, replica: Effect.never }
      const slow = yield* startProvider(endless)
      yield* configureVendors(service, [model("gpt", ["oa"]), model("slow", ["endless"])], [provider("endless", slow)])
      const { key, tenantId } = yield* spender(service, [{ limit: 1_000_000 }])

      const acknowledged: Array<string> = []
      let answered = 0
      let lastWriteMillis = 0
      const state = { isOver: false }
      let last: string | undefined
      const refusals = new Map<number, number>()
      const defects = new Set<string>()
      const note = Effect.fnUntraced(function* (answer: Answer | undefined, onSuccess: (answer: Answer) => void) {
        if (answer !== undefined && answer.status < 300) {
          lastWriteMillis = yield* Clock.currentTimeMillis
          return onSuccess(answer)
        }
        const status = answer?.status ?? 0
        refusals.set(status, (refusals.get(status) ?? 0) + 1)
        last = answer?.text
        if (status === 500) defects.add(`${answer?.text}`)
        yield* Effect.sleep("20 millis")
      })
      const ask = (place: number, method: string, path: string, call: Call) =>
        caller(replicas[place % replicas.length]!.url)(method, path, call).pipe(
          Effect.exit,
          Effect.map((exit) => (exit._tag === "Success" ? exit.value : undefined))
        )
      const reserving = Effect.fnUntraced(function* (place: number) {
        while (!state.isOver) {
          const headers = { "idempotency-key": crypto.randomUUID() }
          const body = { amountUsd: 0.01 }
          const answer = yield* ask(place, "POST", "/api/spend/reserve", { body, headers })
          yield* note(answer, ({ body }) => void acknowledged.push(body.id))
        }
      })
      const calling = Effect.fnUntraced(function* (place: number) {
        const messages = [{ role: "user", content: "What time is it?" }]
        while (!state.isOver) {
          const body = { model: "gpt", max_tokens: 10, messages, stream: place % 4 > 1 }
          const answer = yield* ask(place, "POST", "/v1/chat/completions", { key, body })
          yield* note(answer, () => void (answered += 1))
        }
      })
      const traffic = yield* Effect.forkChild(
        Effect.all([...[0, 1, 2, 3].map(reserving), ...[0, 1, 2, 3].map(calling)], {
          concurrency: "unbounded",
          discard: true
        })
      )

      const missing = Effect.gen(function* () {
        const asked = [...acknowledged]
        const found = yield* asSuperuser(
          database,
          (sql) => sql<{ readonly id: string }>`SELECT id FROM budget_reservations`
        )
        const ids = new Set(found.map(({ id }) => id))
        return asked.filter((id) => !ids.has(id))
      })
      const more = (count: number) =>
        Effect.suspend(() => {
          const before = acknowledged.length
          return eventually(
            Effect.sync(() => ({ count: acknowledged.length, last })),
            (now) => now.count > before + count
          )
        })
      const statesOf = (asked: string) =>
        asSuperuser(
          database,
          (sql) => sql<{ readonly state: string }>`
            SELECT state FROM budget_reservations WHERE tenant_id = ${tenantId}::uuid AND model = ${asked}`
        ).pipe(Effect.map((rows) => rows.map(({ state }) => state)))
      const endHolds = (asked: string) =>
        asSuperuser(
          database,
          (sql) => sql`
            UPDATE budget_reservations SET expires_at = now() - interval '1 second'
            WHERE tenant_id = ${tenantId}::uuid AND model = ${asked} AND state = 'open'`
        )
      const refused = Effect.suspend(() => {
        const before = refusals.get(503) ?? 0
        return eventually(
          Effect.sync(() => refusals.get(503) ?? 0),
          (count) => count > before
        )
      })
      const faults: ReadonlyArray<Fault> = [
        ...Object.entries(breakdowns).map(([name, fault]): Fault => ({
          name,
          during: Effect.gen(function* () {
            const old = yield* eventually(primary, (node) => node !== undefined)
            yield* fault(old!)
            yield* eventually(primary, (node) => node !== undefined && node.name !== old!.name)
            return Effect.andThen(
              mend(old!),
              eventually(isSynchronous, (is) => is, "2 minutes")
            )
          })
        })),
        ...(pooler === undefined
          ? []
          : [
              {
                name: "kill -9 of PgBouncer",
                during: Effect.as(
                  pooler.kill.pipe(Effect.andThen(refused), Effect.andThen(pooler.startAgain)),
                  Effect.void
                )
              },
              {
                name: "a frozen PgBouncer",
                during: Effect.as(pooler.freeze.pipe(Effect.andThen(refused), Effect.andThen(pooler.thaw)), Effect.void)
              }
            ]),
        ...(redis === undefined
          ? []
          : [
              { name: "kill -9 of Redis", during: Effect.as(redis.kill, Effect.andThen(more(100), redis.startAgain)) },
              { name: "a frozen Redis", during: Effect.as(redis.freeze, Effect.andThen(more(100), redis.thaw)) }
            ]),
        {
          name: "kill -9 of a replica",
          refusals: [0, 503],
          during: Effect.gen(function* () {
            const doomed = replicas[1]!
            yield* beginStream(doomed.url, key, "slow")
            yield* kill(doomed)
            return Effect.gen(function* () {
              yield* more(100)
              // The other one charges the call that was under way, once its hold is over.
              yield* eventually(statesOf("slow"), (states) => states.join() === "open")
              yield* endHolds("slow")
              yield* eventually(statesOf("slow"), (states) => states.join() === "settled")
              const another = yield* start
              all.push(another)
              replicas[1] = another
            })
          })
        }
      ]
      const report: Array<string> = []
      for (const { during, name, refusals: allowed = [503] } of faults) {
        yield* more(200)
        const faultMillis = yield* Clock.currentTimeMillis
        const end = yield* during
        const overMillis = yield* Clock.currentTimeMillis
        yield* eventually(
          Effect.sync(() => lastWriteMillis),
          (millis) => millis > overMillis
        )
        const writesMillis = lastWriteMillis - faultMillis
        report.push(`${name}: over after ${overMillis - faultMillis} ms, writes again after ${writesMillis} ms`)
        // By the manual, with room for a busy machine.
        assert.isBelow(writesMillis, 30_000, name)
        yield* end
        assert.deepStrictEqual(yield* missing, [], name)
        assert.includeMembers([...allowed], [...refusals.keys()], `${name}: ${[...defects].join() || last}`)
      }
      state.isOver = true
      yield* Fiber.join(traffic)

      assert.deepStrictEqual(yield* missing, [])
      // A reservation whose commit was not acknowledged stays open until it expires, with no call made; so does one whose charge a
      // killed replica had not written yet.
      const counted = asSuperuser(
        database,
        (sql) => sql<{ readonly count: number }>`
          SELECT count(*)::integer AS count FROM budget_reservations
          WHERE tenant_id = ${tenantId}::uuid AND origin = 'gateway' AND state IN ('open', 'settled')`
      )
      yield* eventually(counted, ([row]) => (row?.count ?? 0) >= answered)
      yield* endHolds("gpt")
      yield* eventually(statesOf("gpt"), (states) => !states.includes("open"))
      assert.deepStrictEqual(yield* asSuperuser(database, (sql) => sql`SELECT * FROM budgets_drift()`), [])
      for (const command of ["ledger", "insights"]) {
        const settings = { Database__Url: urlOf(database), Security__EncryptionKey: encryptionKey }
        const { code, output } = yield* runCommand(`src/cli/${command}-verify.ts`, settings)
        assert.strictEqual(code, 0, output)
      }
      const verified = yield* service.call("GET", "/api/audit-logs/verify")
      assert.strictEqual(verified.status, 200, verified.text)
      assert.isTrue(verified.body.ok, verified.text)
      const logs = replicas.map(({ output }) => output()).join("\n")
      assert.deepStrictEqual([...defects], [], logs)
      process.stdout.write(
        `${report.join("\n")}\n${acknowledged.length} reservations, ${answered} calls; refused by status: ${JSON.stringify([...refusals])}\n`
      )
    }).pipe(Effect.scoped)
  )
})
