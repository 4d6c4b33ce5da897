import Anthropic from "@anthropic-ai/sdk"
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import OpenAI from "openai"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { makeDatabase } from "../../support/database.ts"
import { configure } from "../../support/gateway.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { anthropicAdminKey, openAiAdminKey, startVendorBills } from "../../support/provider-bills.ts"
import { startServer, type TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

const path = "/api/insights/reconciliation"
const dayMillis = 86_400_000
/** A day that was over so many days ago, in UTC. */
const dayAgo = (days: number): string => new Date(Date.now() - days * dayMillis).toISOString().slice(0, 10)

const rates = { input: "2000000000", output: "8000000000", cacheRead: "500000000", cacheWrite: "2000000000" }

interface Call {
  readonly at: string
  readonly provider: string
  readonly model: string
  readonly input?: number
  readonly cached?: number
  readonly output?: number
  readonly cost: number
  readonly method?: string
  readonly terms?: object
}

/** What a call of so many tokens costs at the rates. */
const costOf = ({ cached = 0, input = 0, output = 0 }: Pick<Call, "cached" | "input" | "output">): number =>
  (input - cached) * 2000 + cached * 500 + output * 8000

/** Rows of calls as the gateway settles them. */
const writeCalls = Effect.fnUntraced(function* ({ database }: TestService["Service"], calls: ReadonlyArray<Call>) {
  const tenantId = yield* makeTenant(database)
  yield* asSuperuser(
    database,
    (sql) => sql`
      INSERT INTO usage_rows (tenant_id, charge_id, reservation_id, occurred_at, batch, cost, method, created_by, operation,
        dialect, model, model_served, provider, input_tokens, output_tokens, cached_input_tokens, cache_write_tokens,
        cache_write_1h_tokens, reasoning_tokens, rates, price_terms)
      SELECT ${tenantId}::uuid, new_id(), new_id(), r.at, nextval('usage_batches'), r.cost, coalesce(r.method, 'provider_usage'),
        'test', 'chat', 'openai', 'our-name', r.model, r.provider, r.input, r.output, r.cached, 0, 0, 0,
        ${JSON.stringify(rates)}::jsonb, r.terms
      FROM json_to_recordset(${JSON.stringify(calls)}::text::json) AS r(at timestamptz, provider text, model text, input bigint,
        cached bigint, output bigint, cost bigint, method text, terms jsonb)`
  )
})

const withServer = Effect.gen(function* () {
  const { service } = yield* startServer(yield* makeDatabase, {})
  const vendor = yield* startVendorBills
  const openai = (billing: object = {}) => ({
    id: "openai",
    dialect: "openai",
    baseUrl: `${vendor.url}/v1`,
    billing: { adminKey: openAiAdminKey, ...billing }
  })
  const anthropic = (billing: object = {}) => ({
    id: "anthropic",
    dialect: "anthropic",
    baseUrl: vendor.url,
    billing: { adminKey: anthropicAdminKey, ...billing }
  })
  const refresh = Effect.flatMap(service.call("POST", `${path}/refresh`, { body: {} }), (answer) => {
    assert.strictEqual(answer.status, 200, answer.text)
    return Effect.succeed(answer.body)
  })
  const list = (query = "") =>
    Effect.flatMap(service.call("GET", `${path}${query}`), (answer) => {
      assert.strictEqual(answer.status, 200, answer.text)
      return Effect.succeed(answer.body)
    })
  return { anthropic, list, openai, refresh, service, vendor }
})

const normal = (path: string) => {
  const url = new URL(path, "http://vendor")
  url.searchParams.delete("beta")
  url.searchParams.sort()
  return `${url.pathname}?${url.searchParams}`
}

const twoCosts = (day: string) => [
  { day, item: "gpt-5, input", amount: "2" },
  { day, item: "gpt-5, output", amount: "9.5" }
]

const costs =
  (results: string, more = '"has_more":false,"next_page":null') =>
  (url: URL) => {
    const start = url.searchParams.get("start_time")
    return `{"object":"page","data":[{"object":"bucket","start_time":${start},"results":[${results}]}],${more}}`
  }
const amount = (value: string, currency = "usd") =>
  costs(`{"amount":{"value":${value},"currency":"${currency}"},"line_item":"gpt-5, input"}`)
const text = (body: string) => () => body

const provider = (members: object) => ({
  providers: [{ id: "p", dialect: "openai", baseUrl: "https://api.openai.com/v1", ...members }]
})

layer(Layer.empty, { excludeTestServices: true, timeout: "60 seconds" })(path, (it) => {
  it.effect("has what OpenAI billed in a day beside what was charged, to the nano-dollar", () =>
    Effect.gen(function* () {
      const { list, openai, refresh, service, vendor } = yield* withServer
      yield* configure(service, [openai()], [])
      const day = dayAgo(5)
      const tokens = { input: 1_000_001, cached: 400_000, output: 50_003 }
      yield* writeCalls(service, [
        { at: `${day}T10:00:00Z`, provider: "openai", model: "gpt-5", ...tokens, cost: costOf(tokens) }
      ])
      vendor.openAiCosts = [
        { day, item: "gpt-5-2025-08-07, input", amount: "1.200002000000000" },
        { day, item: "gpt-5-2025-08-07, cached input", amount: '"0.2"' },
        { day, item: "gpt-5-2025-08-07, output", amount: "0.4000240000000001" }
      ]
      vendor.openAiUsage = [{ day, model: "gpt-5-2025-08-07", ...tokens, requests: 1 }]
      const { providers } = yield* refresh
      assert.deepInclude(providers[0], { provider: "openai", state: "read", reason: null })
      const body = yield* list(`?from=${day}T00:00:00Z`)
      assert.deepInclude(body.items[0], {
        day,
        provider: "openai",
        model: "gpt-5",
        billedModels: ["gpt-5-2025-08-07"],
        billedUsd: 1.800026,
        chargedUsd: 1.800026,
        differenceUsd: 0,
        isFinding: false,
        isSettled: true,
        requests: { billed: 1, charged: 1 },
        explanations: []
      })
      assert.lengthOf(body.items, 1)
      assert.deepInclude(body.totals, { billedUsd: 1.800026, chargedUsd: 1.800026, findings: 0 })
    }).pipe(Effect.scoped)
  )

  it.effect("asks with the queries of the vendors' own clients, and reads all pages", () =>
    Effect.gen(function* () {
      const { anthropic, list, openai, refresh, service, vendor } = yield* withServer
      const providers = [openai({ projectIds: ["proj_1"] }), anthropic({ projectIds: ["wrkspc_1"] })]
      yield* configure(service, providers, [])
      vendor.pageSize = 3
      const days = [4, 5, 6, 7, 20, 31].map(dayAgo)
      vendor.openAiCosts = days.flatMap((day) => [
        { day, item: "gpt-5, input", amount: "1.5", project: "proj_1", key: "key_1" },
        { day, item: "gpt-5, input", amount: "100", project: "proj_2" }
      ])
      vendor.anthropicCosts = days.flatMap((day) => [
        { day, cents: "150.00", model: "claude-opus-5", tokenType: "uncached_input_tokens", workspace: "wrkspc_1" },
        { day, cents: "10000", model: "claude-opus-5", tokenType: "output_tokens", workspace: "wrkspc_2" }
      ])
      const refreshed = yield* refresh
      assert.deepStrictEqual(
        refreshed.providers.map(({ reason, state }: { readonly reason: unknown; readonly state: string }) => [
          state,
          reason
        ]),
        [
          ["read", null],
          ["read", null]
        ]
      )
      const asked = vendor.requests.splice(0)
      const { totals, items } = yield* list(`?from=${dayAgo(40)}T00:00:00Z&limit=200`)
      assert.strictEqual(totals.billedUsd, 2 * days.length * 1.5)
      assert.lengthOf(items, 2 * days.length)

      // The vendors' own clients get the same from the same place, so what stands in for them is as they know it.
      const start = Date.parse(`${dayAgo(31)}T00:00:00Z`)
      const [opens, closes] = [start, start + 31 * dayMillis]
      const client = new OpenAI({ adminAPIKey: openAiAdminKey, apiKey: "none", baseURL: `${vendor.url}/v1` })
      const costs = yield* Effect.promise(() =>
        client.admin.organization.usage.costs({
          start_time: opens / 1000,
          end_time: closes / 1000,
          bucket_width: "1d",
          limit: 31,
          group_by: ["project_id", "api_key_id", "line_item"],
          project_ids: ["proj_1"]
        })
      )
      assert.isTrue(costs.has_more)
      const usage = ["project_id", "api_key_id", "model", "batch", "service_tier"] as const
      yield* Effect.promise(() =>
        client.admin.organization.usage.completions({
          start_time: opens / 1000,
          end_time: closes / 1000,
          bucket_width: "1d",
          limit: 31,
          group_by: [...usage],
          project_ids: ["proj_1"]
        })
      )
      const messages = new Anthropic({ apiKey: anthropicAdminKey, baseURL: vendor.url })
      const range = { starting_at: new Date(opens).toISOString(), ending_at: new Date(closes).toISOString() }
      const amounts = yield* Effect.promise(async () => {
        const found: Array<string> = []
        const rows = messages.beta.organization.analytics.cost.list({
          ...range,
          time_bucket_width: "1d",
          order_by: "time",
          order: "asc",
          limit: 1000,
          group_by: ["api_key_id", "model", "service_tier", "speed", "workspace_id", "cost_type", "token_type"],
          workspace_ids: ["wrkspc_1"]
        })
        for await (const { cost } of rows) found.push(cost.amount)
        return found
      })
      assert.deepStrictEqual(
        amounts,
        days.map(() => "150.00")
      )
      const own = new Set(asked.map(normal))
      for (const path of vendor.requests) assert.isTrue(own.has(normal(path)), path)
      assert.isTrue(asked.some((path) => path.includes("page=page_10")))
    }).pipe(Effect.scoped)
  )

  it.effect("compares Anthropic's bill by key, tier and class of tokens", () =>
    Effect.gen(function* () {
      const { anthropic, list, refresh, service, vendor } = yield* withServer
      yield* configure(service, [anthropic({ apiKeyIds: ["apikey_own"] })], [])
      const day = dayAgo(4)
      const tokens = { input: 3_000_000, cached: 1_000_000, output: 500_000 }
      yield* writeCalls(service, [
        { at: `${day}T00:00:00Z`, provider: "anthropic", model: "claude-opus-5", ...tokens, cost: costOf(tokens) },
        { at: `${day}T23:59:59.999Z`, provider: "anthropic", model: "claude-opus-5", ...tokens, cost: costOf(tokens) },
        // Of other days, or no cost of a provider.
        { at: `${dayAgo(5)}T23:59:59.999Z`, provider: "anthropic", model: "claude-opus-5", ...tokens, cost: 1 },
        { at: `${day}T12:00:00Z`, provider: "anthropic", model: "claude-opus-5", method: "refunded", cost: -5 },
        { at: `${day}T12:00:00Z`, provider: "anthropic", model: "claude-opus-5", method: "cached", cost: 0 }
      ])
      const own = { day, model: "claude-opus-5-20260801", key: "apikey_own" }
      const other = { day, model: "claude-opus-5-20260801", key: "apikey_other" }
      vendor.anthropicCosts = [
        { ...own, tokenType: "uncached_input_tokens", cents: "400" },
        { ...own, tokenType: "cache_read_input_tokens", cents: "50" },
        // A batch at half of the price.
        { ...own, tokenType: "uncached_input_tokens", tier: "batch", cents: "200" },
        { ...own, tokenType: "cache_read_input_tokens", tier: "batch", cents: "25" },
        { ...own, tokenType: "output_tokens", cents: "400" },
        { ...own, tokenType: "output_tokens", tier: "batch", cents: "200" },
        { ...other, tokenType: "output_tokens", cents: "12345.6789123" }
      ]
      const halves = { ...own, input: 2_000_000, cached: 1_000_000, output: 500_000, requests: 1 }
      vendor.anthropicUsage = [halves, { ...halves, tier: "batch" }, { ...other, input: 0, output: 7, requests: 1 }]
      yield* refresh
      const { items } = yield* list(`?from=${day}T00:00:00Z&to=${dayAgo(3)}T00:00:00Z&provider=anthropic`)
      assert.lengthOf(items, 1)
      assert.deepInclude(items[0], {
        model: "claude-opus-5",
        billedUsd: 12.75 + 123.456789123,
        chargedUsd: 17,
        unexplainedUsd: 0,
        isFinding: false,
        isSettled: true,
        requests: { billed: 3, charged: 2 },
        explanations: [
          {
            kind: "other-keys",
            amountUsd: 123.456789123,
            detail: "Keys that are not the gateway's own were billed: apikey_other."
          },
          {
            kind: "batch",
            amountUsd: -4.25,
            detail: "The provider served 3500000 more tokens in batches than were charged as such."
          }
        ]
      })
      // The days are as they were read, until they are read again.
      yield* configure(service, [anthropic()], [])
      const all = yield* list(`?from=${day}T00:00:00Z&to=${dayAgo(3)}T00:00:00Z`)
      assert.notStrictEqual(all.items[0].explanations[0].kind, "other-keys")
    }).pipe(Effect.scoped)
  )

  it.effect("reads Anthropic's older reports where an account has no others", () =>
    Effect.gen(function* () {
      const { anthropic, list, refresh, service, vendor } = yield* withServer
      const billing = { apiKeyIds: ["apikey_own"], projectIds: ["wrkspc_1"] }
      yield* configure(service, [anthropic(billing)], [])
      const day = dayAgo(4)
      const tokens = { input: 2_000_000, cached: 0, output: 500_000 }
      yield* writeCalls(service, [
        { at: `${day}T10:00:00Z`, provider: "anthropic", model: "claude-opus-5", ...tokens, cost: costOf(tokens) }
      ])
      const of = (key: string) => ({ day, model: "claude-opus-5", workspace: "wrkspc_1", key })
      vendor.pageSize = 1
      vendor.anthropicCosts = [
        { ...of("unknown"), tokenType: "uncached_input_tokens", cents: "600.0000001" },
        { ...of("unknown"), tokenType: "output_tokens", cents: "400" },
        { ...of("unknown"), workspace: "wrkspc_2", tokenType: "output_tokens", cents: "999" },
        { ...of("unknown"), day: dayAgo(5), tokenType: "output_tokens", cents: "7" }
      ]
      vendor.anthropicUsage = [
        { ...of("apikey_own"), ...tokens, requests: 1 },
        { ...of("apikey_other"), input: 1_000_000, output: 0, requests: 1 }
      ]
      for (const status of [404, 403]) {
        vendor.requests.length = 0
        vendor.answer = (url, response) => {
          if (!url.pathname.includes("/analytics/")) return false
          response.writeHead(status, { "content-type": "application/json" }).end("{}")
          return true
        }
        assert.deepInclude((yield* refresh).providers[0], { state: "read", reason: null })
        assert.deepStrictEqual(
          vendor.requests.map((path) => path.split("?")[0]),
          [
            "/v1/organizations/analytics/cost",
            "/v1/organizations/cost_report",
            "/v1/organizations/cost_report",
            "/v1/organizations/usage_report/messages"
          ]
        )
        const { items } = yield* list(`?from=${day}T00:00:00Z`)
        assert.deepInclude(items[0], { billedUsd: 10.000000001, chargedUsd: 8, isFinding: false })
        assert.deepInclude(items[0].explanations[0], { kind: "other-keys", amountUsd: 2 })
      }
      vendor.answer = (_, response) => {
        response.writeHead(403, { "content-type": "application/json" }).end("{}")
        return true
      }
      assert.deepInclude((yield* refresh).providers[0], { state: "failed", reason: "forbidden" })
    }).pipe(Effect.scoped)
  )

  it.effect("what nothing explains is an anomaly of the installation, once, and in the billing report", () =>
    Effect.gen(function* () {
      const { list, openai, refresh, service, vendor } = yield* withServer
      yield* configure(service, [openai()], [])
      const day = dayAgo(6)
      const unsettled = dayAgo(2)
      const tokens = { input: 1_000_000, output: 1_000_000 }
      const call = { provider: "openai", model: "gpt-5", ...tokens, cached: 0, cost: costOf(tokens) }
      yield* writeCalls(service, [
        { at: `${day}T10:00:00Z`, ...call },
        { at: `${unsettled}T10:00:00Z`, ...call }
      ])
      vendor.openAiCosts = [...twoCosts(day), ...twoCosts(unsettled)]
      const used = { model: "gpt-5", ...tokens, requests: 1 }
      vendor.openAiUsage = [
        { day, ...used },
        { day: unsettled, ...used }
      ]
      yield* refresh
      yield* refresh
      const { items, totals } = yield* list(`?from=${dayAgo(10)}T00:00:00Z`)
      assert.deepStrictEqual(
        items.map(({ day, explanations, isFinding }: (typeof items)[number]) => [
          day,
          isFinding,
          explanations.map(({ kind }: { readonly kind: string }) => kind)
        ]),
        [
          [unsettled, false, ["late"]],
          [day, true, ["price"]]
        ]
      )
      assert.include(items[1].explanations[0].detail, "output is billed at 9.5 and charged at 8")
      assert.deepInclude(totals, { differenceUsd: 3, unexplainedUsd: 1.5, findings: 1 })
      const anomalies = (yield* service.call("GET", "/api/insights/anomalies")).body.items
      assert.lengthOf(anomalies, 1)
      assert.deepInclude(anomalies[0], {
        tenantId: null,
        dimension: "provider",
        key: "openai",
        kind: "bill",
        start: `${day}T00:00:00.000Z`,
        expectedUsd: 10,
        actualUsd: 11.5,
        impactUsd: 1.5,
        contributors: [{ dimension: "model", key: "gpt-5", costUsd: 1.5 }],
        status: "open"
      })
      const log = yield* service.call("GET", `/api/audit-logs?entityType=Anomaly&entityId=${anomalies[0].id}`)
      assert.lengthOf(log.body.items, 1)
      const decided = yield* service.call("PATCH", `/api/insights/anomalies/${anomalies[0].id}`, {
        body: { status: "acknowledged", reason: "The price list is corrected" }
      })
      assert.strictEqual(decided.status, 200, decided.text)

      const { key } = yield* makeKey(service, ["*:*"], { tenantId: yield* makeTenant(service.database) })
      assert.lengthOf((yield* service.call("GET", "/api/insights/anomalies", { key })).body.items, 0)
      const refused = yield* service.call("GET", `/api/insights/anomalies/${anomalies[0].id}`, { key })
      assertProblem(refused, 404, "anomaly-not-found")
      assertProblem(yield* service.call("GET", path, { key }), 403, "forbidden")
      assertProblem(yield* service.call("POST", `${path}/refresh`, { key, body: {} }), 403, "forbidden")

      const body = { from: `${dayAgo(10)}T00:00:00Z`, to: `${dayAgo(1)}T00:00:00Z`, format: "json", groupBy: ["day"] }
      const report = (more: object = {}, as?: string) =>
        service.call("POST", "/api/insights/billing-report", {
          body: { ...body, ...more },
          ...(as === undefined ? {} : { key: as })
        })
      const ofAll = yield* report()
      assert.deepStrictEqual(ofAll.body.providers, [
        {
          provider: "openai",
          days: 2,
          settledDays: 1,
          billedUsd: 23,
          chargedUsd: 20,
          differenceUsd: 3,
          unexplainedUsd: 1.5
        }
      ])
      assert.strictEqual(ofAll.body.totals.costUsd, 20)
      const signed = yield* report({ sign: true })
      assert.deepStrictEqual(Object.keys(signed.body), ["lines", "totals", "providers", "statement"])
      assert.notProperty((yield* report({}, key)).body, "providers")
      assert.notProperty((yield* report({ tenantId: yield* makeTenant(service.database) })).body, "providers")
      assert.notProperty((yield* report({ from: `${day}T00:00:01Z`, to: `${day}T23:00:00Z` })).body, "providers")
    }).pipe(Effect.scoped)
  )

  it.effect("says why a bill cannot be read, without the key, and keeps what it knows", () =>
    Effect.gen(function* () {
      const { list, openai, refresh, service, vendor } = yield* withServer
      yield* configure(service, [openai()], [])
      const day = dayAgo(5)
      vendor.openAiCosts = [{ day, item: "gpt-5, input", amount: "1.25" }]
      yield* refresh
      const hostile: ReadonlyArray<readonly [string, string, number, (url: URL) => string, Record<string, string>?]> = [
        ["a rejected key", "unauthorized", 401, text(`{"error":{"message":"${openAiAdminKey} is wrong"}}`)],
        ["a key without the right", "forbidden", 403, text("{}")],
        ["no such report", "not-found", 404, text("")],
        ["too many requests", "rate-limited", 429, text("{}"), { "retry-after": "3600" }],
        ["a failing service", "unreachable", 503, text("no"), { "retry-after": "3600" }],
        ["a redirect", "unexpected-answer", 302, text(""), { location: "http://169.254.169.254/" }],
        ["below zero", "unexpected-answer", 200, amount("-1")],
        ["no number", "unexpected-answer", 200, amount('"NaN"')],
        ["NaN", "unexpected-answer", 200, amount("NaN")],
        ["10^30", "unexpected-answer", 200, amount("1e30")],
        ["a huge exponent", "unexpected-answer", 200, amount("1e999999999")],
        ["another currency", "unexpected-answer", 200, amount("1", "eur")],
        [
          "another day",
          "unexpected-answer",
          200,
          text('{"data":[{"start_time":86400,"results":[]}],"has_more":false}')
        ],
        ["half a day", "unexpected-answer", 200, text('{"data":[{"start_time":1,"results":[]}],"has_more":false}')],
        ["no JSON", "unexpected-answer", 200, text("<html>")],
        ["a list", "unexpected-answer", 200, text("[]")],
        ["more without a page", "unexpected-answer", 200, costs("", '"has_more":true,"next_page":null')],
        ["the same page again", "unexpected-answer", 200, costs("", '"has_more":true,"next_page":"page_1"')]
      ]
      for (const [name, reason, status, body, headers] of hostile) {
        vendor.answer = (url, response) => {
          response.writeHead(status, { "content-type": "application/json", ...headers }).end(body(url))
          return true
        }
        const { providers } = yield* refresh
        assert.deepInclude(providers[0], { provider: "openai", state: "failed", reason }, name)
        assert.notInclude(JSON.stringify(providers), openAiAdminKey, name)
        const { items } = yield* list(`?from=${day}T00:00:00Z`)
        assert.lengthOf(items, 1, name)
        assert.strictEqual(items[0].billedUsd, 1.25, name)
      }
      let page = 0
      vendor.requests.length = 0
      vendor.answer = (_, response) => {
        response.writeHead(200, { "content-type": "application/json" })
        response.end(`{"object":"page","data":[],"has_more":true,"next_page":"page_${++page}"}`)
        return true
      }
      const endless = yield* refresh
      assert.deepInclude(endless.providers[0], { state: "failed", reason: "unexpected-answer" })
      assert.lengthOf(vendor.requests, 500)
      // A moment's failure is not one of the bill.
      let failures = 2
      vendor.answer = (_, response) => {
        if (failures-- <= 0) return false
        response.writeHead(429, { "retry-after": "0" }).end()
        return true
      }
      assert.deepInclude((yield* refresh).providers[0], { state: "read", reason: null, detail: null })
      const exported = yield* service.call("GET", "/api/llm/admin/config")
      assert.match(exported.text, /"adminKey":"secret:/)
      assert.notInclude(exported.text, openAiAdminKey)
      const log = yield* service.call("GET", "/api/audit-logs?entityType=GatewayConfiguration")
      assert.notInclude(log.text, openAiAdminKey)
    }).pipe(Effect.scoped)
  )

  it.effect("is read by one replica at a time, and again after one that was killed; a paused one writes nothing", () =>
    Effect.gen(function* () {
      const { list, openai, service, vendor } = yield* withServer
      yield* configure(service, [openai()], [])
      const day = dayAgo(5)
      vendor.openAiCosts = [{ day, item: "gpt-5, input", amount: "1" }]
      const refresh = service.call("POST", `${path}/refresh`, { body: {} })
      const held: Array<() => void> = []
      vendor.answer = (_, response) => {
        held.push(() => response.writeHead(200).end('{"data":[],"has_more":false,"next_page":null}'))
        return true
      }
      const paused = yield* Effect.forkChild(refresh)
      yield* eventually(
        Effect.sync(() => held.length),
        (count) => count > 0
      )
      vendor.answer = undefined
      // While it is claimed, no other reader asks the provider.
      const asked = vendor.requests.length
      assert.deepInclude((yield* refresh).body.providers[0], { state: "unread" })
      assert.lengthOf(vendor.requests, asked)
      // The claim of a replica that was killed is over some time.
      yield* asSuperuser(service.database, (sql) => sql`UPDATE provider_bill_readings SET claimed_until = now()`)
      assert.deepInclude((yield* refresh).body.providers[0], { state: "read" })
      for (const answer of held) answer()
      vendor.answer = (_, response) => {
        response.writeHead(200).end('{"data":[],"has_more":false,"next_page":null}')
        return true
      }
      yield* Fiber.join(paused)
      const { items } = yield* list(`?from=${day}T00:00:00Z`)
      assert.deepStrictEqual(
        items.map(({ billedUsd }: { readonly billedUsd: number }) => billedUsd),
        [1]
      )
    }).pipe(Effect.scoped)
  )

  it.effect("can be read again at once when a caller left while it was read", () =>
    Effect.gen(function* () {
      const { openai, service, vendor } = yield* withServer
      yield* configure(service, [openai()], [])
      let asked = 0
      vendor.answer = () => {
        asked += 1
        return true
      }
      const left = new AbortController()
      const reading = yield* Effect.forkChild(
        Effect.promise(() =>
          fetch(`${service.url}${path}/refresh`, {
            method: "POST",
            headers: { "x-api-key": service.serviceKey, "content-type": "application/json" },
            body: "{}",
            signal: left.signal
          }).catch(() => undefined)
        )
      )
      yield* eventually(
        Effect.sync(() => asked),
        (count) => count > 0
      )
      left.abort()
      yield* Fiber.join(reading)
      vendor.answer = undefined
      const read = yield* eventually(service.call("POST", `${path}/refresh`, { body: {} }), ({ body }) =>
        body.providers.every(({ state }: { readonly state: string }) => state === "read")
      )
      assert.strictEqual(read.status, 200)
    }).pipe(Effect.scoped)
  )

  it.effect("needs an admin key of a vendor that reports what it billed", () =>
    Effect.gen(function* () {
      const { list, service } = yield* withServer
      const empty = yield* list()
      assert.deepStrictEqual(empty.items, [])
      assert.deepStrictEqual(empty.providers, [])
      assertProblem(
        yield* service.call("POST", `${path}/refresh`, { body: { provider: "openai" } }),
        404,
        "provider-billing-not-found"
      )
      const put = (members: object) => service.call("PUT", "/api/llm/admin/config", { body: provider(members) })
      assert.deepStrictEqual(faultPaths(yield* put({ dialect: "gemini", billing: { adminKey: "k" } })), [
        "payload.providers.0.billing"
      ])
      const azure = { platform: "azure", apiVersion: "2024-10-21", apiKey: "k", billing: { adminKey: "k" } }
      assert.include(faultPaths(yield* put(azure)), "payload.providers.0.billing")
      assert.deepStrictEqual(faultPaths(yield* put({ billing: { adminKey: "env:NOT_LISTED" } })), [
        "payload.providers.0.billing.adminKey"
      ])
      assert.deepStrictEqual(faultPaths(yield* put({ billing: { adminKey: "k", apiKeyIds: ["a b"] } })), [
        "payload.providers.0.billing.apiKeyIds.0"
      ])
    }).pipe(Effect.scoped)
  )
})
