import { assert, layer } from "@effect/vitest"
import { Effect, Layer } from "effect"
import { makeTenant } from "../../support/authority.ts"
import { makeDatabase } from "../../support/database.ts"
import { configure } from "../../support/gateway.ts"
import { openAiAdminKey, startVendorBills } from "../../support/provider-bills.ts"
import { startServer, type TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"

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
  const refresh = Effect.flatMap(service.call("POST", `${path}/refresh`, { body: {} }), (answer) => {
    assert.strictEqual(answer.status, 200, answer.text)
    return Effect.succeed(answer.body)
  })
  const list = (query = "") =>
    Effect.flatMap(service.call("GET", `${path}${query}`), (answer) => {
      assert.strictEqual(answer.status, 200, answer.text)
      return Effect.succeed(answer.body)
    })
  return { list, openai, refresh, service, vendor }
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
})
