import { assert, describe, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import * as fs from "node:fs"
import { makeKey, makeTenant } from "../support/authority.ts"
import { urlOf } from "../support/command.ts"
import { makeDatabase } from "../support/database.ts"
import { assertApart, hasPooler, makeCase, makeLogin, makePooler, settingsOfLogin } from "../support/pooler.ts"
import { assertProblem } from "../support/problem.ts"
import { startService, type TestService } from "../support/service.ts"
import { asSuperuser } from "../support/statements.ts"
import { eventually } from "../support/waiting.ts"

type Service = TestService["Service"]

const person = (at: number) => ({ firstName: "Grace", lastName: "Hopper", email: `grace.${at}@example.com` })

/** Two replicas whose pools share a few sessions of PgBouncer, transaction by transaction. */
const makeReplicas = Effect.gen(function* () {
  const database = yield* makeDatabase
  const { login } = yield* makeLogin(database, settingsOfLogin)
  const pooler = yield* makePooler(login, {
    pool_mode: "transaction",
    ignore_startup_parameters: "",
    default_pool_size: 4,
    server_round_robin: 1
  })
  const start = Effect.map(
    startService(database, { Database__PoolUrl: pooler.url, Database__Url: urlOf(database) }),
    (service): Service => ({ ...service, database })
  )
  const [one, two] = [yield* start, yield* start]
  return { database, login, pooler, one, two, both: [one, two] as const }
})

const usedBy = (database: Service["database"], user: string) =>
  asSuperuser(database, (sql) =>
    Effect.map(
      sql<{ readonly application: string; readonly count: number }>`
        SELECT application_name AS application, count(*)::integer AS count FROM pg_stat_activity
        WHERE usename = ${user} AND datname = current_database() GROUP BY 1`,
      (rows) => new Map(rows.map(({ application, count }) => [application, count]))
    )
  )

/** A block of code of the manual that contains a text. */
const blockOf = (language: string, text: string) =>
  Array.from(
    fs
      .readFileSync(new URL("../../src/platform/README.md", import.meta.url), "utf8")
      .matchAll(/^```(\w+)\n([\s\S]*?)^```$/gmu)
  ).find(([, kind, block]) => kind === language && block?.includes(text))?.[2] ?? assert.fail(`no block with ${text}`)

describe.runIf(hasPooler)("PgBouncer as the manual sets it up", { timeout: 240_000 }, () => {
  it.live("serves", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const user = `am_pool_${crypto.randomUUID().replaceAll("-", "")}`
      const named = (text: string) =>
        text.replaceAll("am_pool", user).replaceAll("DATABASE application_manager", `DATABASE ${database.database}`)
      const statements = named(blockOf("sql", "CREATE ROLE am_pool")).trim().split("\n")
      yield* Effect.acquireRelease(
        asSuperuser(database, (sql) => Effect.forEach(statements, (statement) => sql.unsafe(statement))),
        () =>
          asSuperuser(database, (sql) =>
            Effect.andThen(sql.unsafe(`DROP OWNED BY ${user}`), sql.unsafe(`DROP ROLE ${user}`))
          )
      )
      const settings = Object.fromEntries(
        Array.from(
          (blockOf("ini", "[pgbouncer]").split("[pgbouncer]")[1] ?? "").matchAll(/^(\w+) = (.*)$/gmu),
          ([, name = "", value = ""]) => [name, value] as const
        ).filter(([name]) => !name.startsWith("listen_"))
      )
      assert.include(settings, { pool_mode: "transaction", auth_type: "scram-sha-256" })
      const password = /PASSWORD '([^']*)'/u.exec(statements[0] ?? "")?.[1] ?? ""
      const pooler = yield* makePooler(database, { ...settings, ignore_startup_parameters: "" }, { [user]: password })
      const url = named(/Database__PoolUrl='([^']*)'/u.exec(blockOf("sh", "Database__PoolUrl"))?.[1] ?? "")
        .replace("127.0.0.1:6432", `127.0.0.1:${pooler.database.port}`)
        .replace(/[^/]*$/u, database.database)
      const service = yield* startService(database, { Database__PoolUrl: url, Database__Url: urlOf(database) })
      yield* assertApart(yield* makeCase({ ...service, database }))
    }).pipe(Effect.scoped)
  )
})

describe.runIf(hasPooler)("two replicas behind PgBouncer that pools transactions", { timeout: 240_000 }, () => {
  it.live("keep tenants apart, limits, notifications, the chain, gateway calls and exports", () =>
    Effect.gen(function* () {
      const { both, database, login, one, two } = yield* makeReplicas
      for (const service of both) yield* assertApart(yield* makeCase(service))

      // The ledger: over both, exactly what the cap has room for.
      const tenantId = yield* makeTenant(database)
      const { key, id } = yield* makeKey(one, ["budgets:*", "spend:*"], { tenantId })
      const cap = { name: "hundred", unit: "usd", limit: 100, period: "total", mode: "hard" }
      const made = yield* one.call("POST", "/api/budgets/caps", { key, body: cap })
      assert.strictEqual(made.status, 201, made.text)
      const answers = yield* Effect.forEach(
        Array.from({ length: 300 }, (_, at) => both[at % 2] ?? one),
        (service) => service.call("POST", "/api/spend/reserve", { key, body: { amountUsd: 1 } }),
        { concurrency: 64 }
      )
      const counts = Map.groupBy(answers, ({ status }) => status)
      assert.deepStrictEqual(
        [...counts].map(([status, all]) => [status, all.length]).toSorted(),
        [
          [201, 100],
          [402, 200]
        ],
        answers.find(({ status }) => status >= 500)?.text
      )

      // LISTEN: a key that one replica revokes is refused by the other, which has used it.
      assert.strictEqual((yield* two.call("GET", "/api/budgets/caps", { key })).status, 200)
      assert.strictEqual((yield* one.call("DELETE", `/api/api-keys/${id}`)).status, 204)
      yield* eventually(two.call("GET", "/api/budgets/caps", { key }), ({ status }) => status === 401)

      // The chain links what was written through the pooler.
      assert.strictEqual((yield* two.call("POST", "/api/trial-users", { body: person(1) })).status, 201)
      yield* eventually(one.call("GET", "/api/audit-logs?actionType=UserCreated"), ({ body }) =>
        body.items.some(({ sequence }: { readonly sequence: number | null }) => sequence !== null)
      )
      assert.isTrue((yield* one.call("GET", "/api/audit-logs/verify")).body.ok)

      const call = yield* two.call("POST", "/v1/chat/completions", {
        key: (yield* makeKey(one, ["llm:*"])).key,
        body: { model: "loopback-1", max_tokens: 8, messages: [{ role: "user", content: "Hi" }] }
      })
      assert.strictEqual(call.status, 200, call.text)

      const exported = yield* two.call("GET", "/api/audit-logs/export")
      assert.strictEqual(exported.status, 200)
      assert.isAbove(exported.text.split("\n").length, 5)

      const used = yield* usedBy(database, login.username)
      assert.isAtMost(used.get("application-manager") ?? 0, 4)
    }).pipe(Effect.scoped)
  )

  it.live("answer 503 while it is away, and go on when it is back", () =>
    Effect.gen(function* () {
      const { both, one, pooler } = yield* makeReplicas
      for (const round of [1, 2]) {
        const under = yield* Effect.forkScoped(
          Effect.forEach(
            Array.from({ length: 200 }, (_, at) => at),
            (at) => (both[at % 2] ?? one).call("POST", "/api/trial-users", { body: person(round * 1000 + at) }),
            { concurrency: 8 }
          )
        )
        yield* eventually(one.call("GET", "/api/trial-users"), ({ body }) => body.length > 10)
        yield* pooler.kill
        for (const service of both) {
          yield* eventually(service.call("GET", "/health/ready"), ({ status }) => status === 503)
          assertProblem(yield* service.call("GET", "/api/trial-users"), 503, "overloaded")
          assertProblem(yield* service.call("POST", "/api/trial-users", { body: person(0) }), 503, "overloaded")
          assert.strictEqual((yield* service.call("GET", "/health")).status, 200)
        }
        yield* pooler.startAgain
        for (const service of both) {
          yield* eventually(service.call("GET", "/health/ready"), ({ status }) => status === 200)
          const created = yield* service.call("POST", "/api/trial-users", {
            body: person(round * 1000 + 500 + both.indexOf(service))
          })
          assert.strictEqual(created.status, 201, created.text)
        }
        for (const { status, text } of yield* Fiber.join(under)) assert.include([201, 503], status, text)
      }
    }).pipe(Effect.scoped)
  )
})
