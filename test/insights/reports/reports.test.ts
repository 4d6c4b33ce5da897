import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeKey, makeTenant, refusesStrangers } from "../../support/authority.ts"
import { foldAll, type MadeUsage, writeUsage } from "../../support/insights.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

const path = "/api/insights"

const setting = Effect.gen(function* () {
  const service = yield* TestService
  const tenantId = yield* makeTenant(service.database)
  const { key } = yield* makeKey(service, ["*:*"], { tenantId })
  const get = (at: string) => service.call("GET", at, { key })
  return {
    service,
    tenantId,
    key,
    get,
    write: (rows: ReadonlyArray<MadeUsage>) => writeUsage(service.database, tenantId, rows)
  }
})

/** Numbers that look random and are the same in each run. */
const random = (seed: number) => () => {
  seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
  return seed / 2 ** 32
}

const agents = ["0198a5b0-7c00-7000-8000-00000000000a", "0198a5b0-7c00-7000-8000-00000000000b", undefined]
const history = (seed: number, count: number, from: string, days: number): ReadonlyArray<MadeUsage> => {
  const next = random(seed)
  const pick = <A>(values: ReadonlyArray<A>): A => values[Math.floor(next() * values.length)]!
  return Array.from({ length: count }, () => {
    const at = new Date(Date.parse(from) + Math.floor(next() * days * 86_400_000)).toISOString()
    const agent = pick(agents)
    const common = {
      at,
      ...(agent === undefined ? {} : { agent_id: agent }),
      model: pick(["gpt-5", "claude-opus", "loopback-1"]),
      provider: pick(["openai", "anthropic"]),
      task_type: pick(["research", "triage"]),
      user_id: pick(["ada", "bob", "eve"])
    }
    return next() < 0.1
      ? { ...common, cost: -Math.floor(next() * 1e6), method: "refunded" }
      : {
          ...common,
          ...pick([
            { method: "provider_usage", cost: Math.floor(next() * 1e9) },
            { method: "reported", cost: 750_000_001 },
            { method: "aborted", cost: 3 },
            { method: "unanswered", cost: 0 },
            { method: "released", cost: 0, attempts: [] },
            { method: "released", cost: 0, attempts: [{ status: 429 }] }
          ]),
          input_tokens: Math.floor(next() * 1000),
          output_tokens: Math.floor(next() * 100),
          latency_ms: Math.ceil(next() * 5000),
          status: pick([200, 200, 200, 499, 500])
        }
  })
}

const usd = (nano: number) => Math.round(nano) / 1e9
/** Not of a call that was sent. */
const isReleased = ({ attempts = [], method }: MadeUsage) => method === "released" && attempts.length === 0
const isRequest = (row: MadeUsage) => row.method !== "refunded" && !isReleased(row)
const sumOf = (rows: ReadonlyArray<MadeUsage>) => ({
  costUsd: usd(rows.reduce((sum, { cost = 0 }) => sum + cost, 0)),
  requests: rows.filter(isRequest).length
})
const inRange = (rows: ReadonlyArray<MadeUsage>, from: string, to: string) =>
  rows.filter(({ at }) => at >= from && at < to)

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(path, (it) => {
  refusesStrangers(it, [
    { name: "overview", method: "GET", path: `${path}/overview`, capability: "insights:read", systemOnly: false },
    { name: "by", method: "GET", path: `${path}/by-agent`, capability: "insights:read", systemOnly: false },
    { name: "caps", method: "GET", path: `${path}/caps-status`, capability: "insights:read", systemOnly: false },
    { name: "usage", method: "GET", path: "/api/usage", capability: "insights:read", systemOnly: false }
  ])

  for (const seed of [1, 2, 3]) {
    it.effect(`sums of roll-ups are those of the rows, whatever the range and the dimension: history ${seed}`, () =>
      Effect.gen(function* () {
        const { get, write } = yield* setting
        const rows = history(seed, 400, "2026-03-25T00:00:00Z", 9)
        // In two parts: the second adds to roll-ups that exist.
        yield* write(rows.slice(0, 250))
        yield* write(rows.slice(250))
        for (const [from, to, zone] of [
          ["2026-03-25T00:00:00.000Z", "2026-04-03T00:00:00.000Z", "UTC"],
          ["2026-03-26T07:31:12.345Z", "2026-04-01T19:02:59.001Z", "Asia/Kolkata"],
          ["2026-03-26T07:45:00.000Z", "2026-03-31T19:00:00.000Z", "Asia/Kathmandu"],
          ["2026-03-27T00:00:00.000Z", "2026-03-31T22:00:00.000Z", "Europe/Berlin"]
        ] as const) {
          const query = `from=${from}&to=${to}&timeZone=${zone}`
          const within = inRange(rows, from, to)
          const { body } = yield* get(`${path}/overview?${query}`)
          const expected = sumOf(within)
          assert.deepInclude(body.totals, expected)
          assert.strictEqual(
            body.totals.inputTokens,
            within.reduce((sum, row) => sum + (isReleased(row) ? 0 : (row.input_tokens ?? 0)), 0)
          )
          assert.strictEqual(
            body.totals.errors,
            within.filter(
              (row) =>
                isRequest(row) &&
                row.method !== "aborted" &&
                (["unanswered", "released"].includes(row.method ?? "") || (row.status ?? 0) >= 400)
            ).length
          )
          assert.strictEqual(
            body.byDay.reduce((sum: number, { requests }: { requests: number }) => sum + requests, 0),
            expected.requests
          )
          const before = new Date(2 * Date.parse(from) - Date.parse(to)).toISOString()
          assert.deepInclude(body.previous, sumOf(inRange(rows, before, from)))
          for (const dimension of [
            "agent",
            "model",
            "provider",
            "task-type",
            "application",
            "plan",
            "user",
            "api-key",
            "tenant",
            "day",
            "hour"
          ]) {
            const { body: found, status, text } = yield* get(`${path}/by-${dimension}?${query}&limit=200`)
            assert.strictEqual(status, 200, text)
            const all = found.items as ReadonlyArray<{
              costUsd: number
              requests: number
              series: ReadonlyArray<{ costUsd: number; requests: number }>
            }>
            assert.deepStrictEqual(
              {
                costUsd: usd(all.reduce((sum, item) => sum + Math.round(item.costUsd * 1e9), 0)),
                requests: all.reduce((sum, item) => sum + item.requests, 0)
              },
              expected,
              `${dimension} ${zone}`
            )
            for (const item of all) {
              assert.strictEqual(
                usd(item.series.reduce((sum, one) => sum + Math.round(one.costUsd * 1e9), 0)),
                item.costUsd
              )
              assert.strictEqual(
                item.series.reduce((sum, one) => sum + one.requests, 0),
                item.requests
              )
            }
          }
        }
      })
    )
  }

  it.effect("filters combine, from roll-ups or rows", () =>
    Effect.gen(function* () {
      const { get, service, tenantId, write } = yield* setting
      const rows = history(9, 300, "2026-05-01T00:00:00Z", 5)
      yield* write(rows)
      const range = "from=2026-05-01T06:00:00.000Z&to=2026-05-05T12:34:00.000Z"
      const within = inRange(rows, "2026-05-01T06:00:00.000Z", "2026-05-05T12:34:00.000Z")
      for (const [query, keeps] of [
        ["model=gpt-5", (row: MadeUsage) => row.model === "gpt-5"],
        [`agentId=${agents[0]}`, (row: MadeUsage) => row.agent_id === agents[0]],
        ["model=gpt-5&userId=ada", (row: MadeUsage) => row.model === "gpt-5" && row.user_id === "ada"]
      ] as const) {
        const kept = within.filter(keeps)
        assert.isNotEmpty(kept)
        assert.deepInclude((yield* get(`${path}/overview?${range}&${query}`)).body.totals, sumOf(kept))
        const byUser = (yield* get(`${path}/by-user?${range}&${query}`)).body.items
        for (const { costUsd, key, requests } of byUser) {
          assert.deepStrictEqual({ costUsd, requests }, sumOf(kept.filter(({ user_id }) => user_id === key)))
        }
        // A system caller reads the rows of every tenant.
        const all = yield* service.call("GET", `${path}/by-tenant?${range}&${query}`)
        assert.strictEqual(all.status, 200, all.text)
        const own = all.body.items.find(({ key }: { key: string }) => key === tenantId)
        assert.deepInclude(own, sumOf(kept))
        const listed = (yield* get(`/api/usage?${range}&${query}&limit=200`)).body.items
        assert.strictEqual(listed.length, kept.filter(isRequest).length)
      }
    })
  )

  it.effect("days of a zone are those of its clocks, the short and the long one too", () =>
    Effect.gen(function* () {
      const { get, write } = yield* setting
      // 29 March 2026 has 23 hours in Berlin and 25 October has 25; Lord Howe shifts by half an hour.
      yield* write(
        ["2026-03-28T22:59:59Z", "2026-03-28T23:00:00Z", "2026-03-29T21:59:59Z", "2026-03-29T22:00:00Z"].map((at) => ({
          at,
          cost: 1e9
        }))
      )
      const { body } = yield* get(
        `${path}/overview?timeZone=Europe/Berlin&from=2026-03-27T23:00:00.000Z&to=2026-03-30T22:00:00.000Z`
      )
      assert.deepStrictEqual(body.byDay, [
        { date: "2026-03-28", costUsd: 1, requests: 1 },
        { date: "2026-03-29", costUsd: 2, requests: 2 },
        { date: "2026-03-30", costUsd: 1, requests: 1 }
      ])
      yield* write(
        ["2026-04-04T13:29:59Z", "2026-04-04T13:00:00Z", "2026-04-05T13:29:59Z", "2026-04-05T13:30:00Z"].map((at) => ({
          at,
          cost: 1e9
        }))
      )
      const lord = yield* get(
        `${path}/by-day?timeZone=Australia/Lord_Howe&from=2026-04-04T13:00:00.000Z&to=2026-04-06T13:30:00.000Z`
      )
      assert.deepStrictEqual(
        lord.body.items.map(({ costUsd, key }: { costUsd: number; key: string }) => [key, costUsd]).toSorted(),
        [
          ["2026-04-05", 3],
          ["2026-04-06", 1]
        ]
      )
    })
  )

  it.effect("latencies are within 5 per cent", () =>
    Effect.gen(function* () {
      const { get, write } = yield* setting
      const next = random(5)
      const latencies = Array.from({ length: 500 }, () => Math.ceil(Math.exp(next() * 9))).toSorted((a, b) => a - b)
      yield* write(
        latencies.map((latency_ms, index) => ({
          at: new Date(Date.UTC(2026, 1, 1, 0, index)).toISOString(),
          latency_ms,
          model: "gpt-5",
          task_type: "research"
        }))
      )
      const range = "from=2026-02-01T00:00:00Z&to=2026-02-02T00:00:00Z"
      const { body } = yield* get(`${path}/by-model?${range}`)
      const [{ p50LatencyMs, p95LatencyMs }] = body.items
      // Filters together are answered from rows, and without any latency in them it is null.
      for (const report of ["by-model?taskType=research", "by-day?taskType=research&model=gpt-5"]) {
        const { body } = yield* get(`${path}/${report}&${range}`)
        assert.deepInclude(body.items[0], { requests: 500, p50LatencyMs, p95LatencyMs })
      }
      yield* write([{ at: "2026-02-03T00:00:00Z", model: "gpt-5", task_type: "triage" }])
      const without = yield* get(
        `${path}/by-day?taskType=triage&model=gpt-5&from=2026-02-03T00:00:00Z&to=2026-02-04T00:00:00Z`
      )
      assert.deepInclude(without.body.items[0], { requests: 1, p50LatencyMs: null, p95LatencyMs: null })
      for (const [found, exact] of [
        [p50LatencyMs, latencies[249]!],
        [p95LatencyMs, latencies[474]!]
      ]) {
        assert.isAtMost(Math.abs(found / exact - 1), 0.05)
      }
    })
  )

  it.effect("pages of items and rows walk all of them", () =>
    Effect.gen(function* () {
      const { get, write } = yield* setting
      yield* write(
        Array.from({ length: 25 }, (_, user) => ({
          at: "2026-02-01T10:00:00Z",
          user_id: `user-${user}`,
          cost: Math.floor(user / 2) * 1e6
        }))
      )
      const range = "from=2026-02-01T00:00:00Z&to=2026-02-02T00:00:00Z"
      for (const [list, member] of [
        [`${path}/by-user`, "key"],
        ["/api/usage", "id"]
      ] as const) {
        const whole = (yield* get(`${list}?${range}&limit=200`)).body.items.map(
          (item: Record<string, string>) => item[member]
        )
        assert.strictEqual(new Set(whole).size, 25)
        const seen: Array<unknown> = []
        let cursor = ""
        do {
          const { body } = yield* get(`${list}?${range}&limit=4${cursor}`)
          seen.push(...body.items.map((item: Record<string, string>) => item[member]))
          cursor = body.nextCursor === null ? "" : `&cursor=${body.nextCursor}`
        } while (cursor !== "")
        assert.deepStrictEqual(seen, whole)
      }
      const exported = (yield* get(`/api/usage/export?${range}`)).text.trim().split("\n")
      assert.strictEqual(exported.length, 25)
      const csv = (yield* get(`/api/usage/export?${range}&format=csv`)).text.trim().split("\n")
      assert.strictEqual(csv.length, 26)
    })
  )

  it.effect("an export as CSV has no cell that is a formula", () =>
    Effect.gen(function* () {
      const { get, write } = yield* setting
      const texts = ["=1", "+1", "-1", "@a", "\tx", "\rx", "\nx", "＝1", "＋1", "－1", "＠a", "plain", "'=1"]
      yield* write(texts.map((user_id) => ({ at: "2026-03-05T10:00:00Z", user_id })))
      const range = "from=2026-03-05T00:00:00Z&to=2026-03-06T00:00:00Z"
      const { text } = yield* get(`/api/usage/export?${range}&format=csv`)
      for (const user of texts) assert.include(text, `,"${/^[\w']/.test(user) ? user : `'${user}`}",`)
    })
  )

  it.effect("a tenant sees its own usage only, and naming another is 403", () =>
    Effect.gen(function* () {
      const { get, service, write } = yield* setting
      const other = yield* setting
      yield* write([{ at: "2026-02-01T10:00:00Z", cost: 1e9, user_id: "ada" }])
      const range = "from=2026-02-01T00:00:00Z&to=2026-02-02T00:00:00Z"
      for (const list of [`${path}/by-user`, "/api/usage", `${path}/caps-status`]) {
        assert.isEmpty((yield* other.get(`${list}?${range}`)).body.items, list)
      }
      assert.strictEqual((yield* other.get(`${path}/overview?${range}`)).body.totals.costUsd, 0)
      assert.strictEqual((yield* other.get(`/api/usage/export?${range}`)).text, "")
      const { tenantId } = yield* setting
      for (const at of [
        `${path}/overview`,
        `${path}/by-user`,
        `${path}/caps-status`,
        "/api/usage",
        "/api/usage/export"
      ]) {
        assertProblem(yield* get(`${at}?tenantId=${tenantId}`), 403, "forbidden")
        assert.strictEqual((yield* service.call("GET", `${at}?tenantId=${tenantId}`)).status, 200)
      }
    })
  )

  for (const [query, path] of [
    ["from=2026-02-02T00:00:00Z&to=2026-02-01T00:00:00Z", "query.from"],
    ["from=2024-01-01T00:00:00Z&to=2026-02-01T00:00:00Z", "query.to"],
    ["timeZone=Europe/Atlantis", "query.timeZone"],
    ["from=yesterday", "query.from"]
  ] as const) {
    it.effect(`400: ${query}`, () =>
      Effect.gen(function* () {
        const { get } = yield* setting
        for (const at of ["overview", "by-agent", "by-day", "caps-status"]) {
          const answer = yield* get(`/api/insights/${at}?${query}`)
          assertProblem(answer, 400, "validation-failed")
          assert.include(faultPaths(answer), path)
        }
      })
    )
  }

  it.effect("400: an unknown dimension, with the valid ones", () =>
    Effect.gen(function* () {
      const { get } = yield* setting
      const answer = yield* get(`${path}/by-colour`)
      assertProblem(answer, 400, "validation-failed")
      assert.include(answer.body.detail, "task-type")
    })
  )

  it.effect("what /api/spend settles is a row; a late charge and a refund count when they are booked", () =>
    Effect.gen(function* () {
      const { get, service, tenantId } = yield* setting
      const { key } = yield* makeKey(service, ["*:*"], { tenantId })
      const post = (at: string, body: object) => service.call("POST", at, { key, body })
      const reserve = Effect.map(
        post("/api/spend/reserve", { amountUsd: 1, taskType: "research", model: "gpt-5", userId: "ada" }),
        ({ body }) => body.id
      )
      const first = yield* reserve
      const { body } = yield* post("/api/spend/reconcile", { reservationId: first, actualUsd: 0.75 })
      const second = yield* reserve
      yield* service.call("DELETE", `/api/spend/reservations/${second}`, { key })
      yield* post("/api/spend/reconcile", { reservationId: second, actualUsd: 0.5 })
      const refund = yield* service.call("POST", "/api/spend/refunds", {
        body: { chargeId: body.charge.id, amountUsd: 0.25, reason: "wrong" }
      })
      assert.strictEqual(refund.status, 201, refund.text)
      yield* foldAll(service.database)
      const overview = yield* get(`${path}/overview`)
      assert.deepInclude(overview.body.totals, { costUsd: 1, requests: 2 })
      const { items } = (yield* get(`${path}/by-model`)).body
      assert.deepInclude(items[0], { key: "gpt-5", costUsd: 1, sharePercent: 100, requests: 2 })
      const rows = (yield* get("/api/usage")).body.items
      assert.deepStrictEqual(
        rows.map(({ costUsd, late, method, taskType }: Record<string, unknown>) => [costUsd, late, method, taskType]),
        [
          [0.5, true, "reported", "research"],
          [0.75, false, "reported", "research"]
        ]
      )
      const differences = yield* asSuperuser(
        service.database,
        (sql) => sql`SELECT * FROM usage_differences() WHERE tenant_id = ${tenantId}`
      )
      assert.isEmpty(differences)
    })
  )
})
