import { Context, DateTime, Effect, Layer, Option, Redacted, Schema } from "effect"
import { FetchHttpClient, HttpClient, HttpClientRequest, HttpClientResponse } from "effect/http"
import { dayMillis } from "../../gateway/bills/domain.ts"
import { Anomalies } from "../../insights/anomalies/service.ts"
import { Reconciliations } from "../../insights/reconciliation/service.ts"
import { OwnerLayer } from "../../platform/database/connection.ts"
import { Unusable } from "../../platform/runtime/unusable.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { Generation } from "../generation/generation.ts"
import { billedDays, billOf } from "./provider-bills.ts"
import { demoDirectory } from "./settings.ts"

const rows = 24_000
const days = 60

const Made = Schema.Struct({ id: Schema.Union([Schema.String, Schema.Int]) })
const MadeKey = Schema.Struct({ key: Schema.String })
const Agents = Schema.Struct({
  items: Schema.Array(Schema.Struct({ id: Schema.String, name: Schema.String, tenantId: Schema.String }))
})
const Tenants = Schema.Struct({ items: Schema.Array(Schema.Struct({ id: Schema.String, slug: Schema.String })) })
const Overview = Schema.Struct({ totals: Schema.Struct({ costUsd: Schema.Finite }) })
const Uses = Schema.Struct({ items: Schema.Array(Schema.Struct({ spent: Schema.Finite })) })

/** Calls of the API, as a client of the running service with a key. */
const caller = (url: string, key: Redacted.Redacted) =>
  Effect.map(HttpClient.HttpClient, (base) => {
    const client = base.pipe(
      HttpClient.mapRequest((request) =>
        request.pipe(HttpClientRequest.prependUrl(url), HttpClientRequest.setHeader("x-api-key", Redacted.value(key)))
      ),
      HttpClient.transformResponse(
        Effect.flatMap((answer) =>
          answer.status < 300
            ? Effect.succeed(answer)
            : Effect.flatMap(answer.text, (text) =>
                Effect.fail(new Unusable({ message: `${answer.request.url}: ${text}` }))
              )
        )
      )
    )
    return <A>(
      answer: Schema.Codec<A, unknown>,
      path: string,
      body?: unknown,
      method: "POST" | "PUT" | "PATCH" = "POST"
    ) =>
      Effect.suspend(() => {
        const request = HttpClientRequest.make(body === undefined ? "GET" : method)(path)
        return client.execute(body === undefined ? request : HttpClientRequest.bodyJsonUnsafe(request, body))
      }).pipe(Effect.flatMap(HttpClientResponse.schemaBodyJson(answer)))
  })

/** Caps of a month, each with the share of it that is used: its limit is made of what the month has cost so far. */
const caps = [
  { name: "Reviews", share: 0.82, room: 1.02, scope: { taskType: "review" } },
  { name: "Translation", share: 1, room: 1.02, scope: { taskType: "translate" } },
  { name: "Northwind, all of it", share: 0.35, room: 1.15, scope: {} }
] as const

const ofSpent = (percent: number) => ({ measure: "spent", percent })

/** The vendors of the generated usage; their models echo within the service, as loopback-1 does. */
const vendors = {
  openai: { baseUrl: "https://openai.example/v1", models: { "gpt-5": [1.25, 10], "gpt-5-mini": [0.25, 2] } },
  anthropic: {
    baseUrl: "https://anthropic.example",
    models: { "claude-opus-4-5": [5, 25], "claude-sonnet-4-5": [3, 15], "claude-haiku-4-5": [1, 5] }
  },
  google: { baseUrl: "https://google.example/v1beta", models: { "gemini-2.5-pro": [1.25, 10] } },
  vllm: { baseUrl: "http://vllm.example/v1", models: { "llama-3.3-70b": [0.2, 0.6] } }
} as const

const gatewayDocument = {
  providers: Object.entries(vendors).map(([id, { baseUrl }]) => ({ id, dialect: "loopback", baseUrl })),
  models: Object.entries(vendors).flatMap(([provider, { models }]) =>
    Object.entries(models).map(([id, [inputUsdPerMTok, outputUsdPerMTok]]) => ({
      id,
      kind: "chat",
      targets: [{ provider, model: id }],
      contextTokens: 200_000,
      maxOutputTokens: 16_000,
      prices: { inputUsdPerMTok, cacheReadUsdPerMTok: inputUsdPerMTok / 10, outputUsdPerMTok }
    }))
  )
}

const versions = [
  "currency: EUR\n",
  "currency: EUR\nretries: 2\n",
  "currency: EUR\nretries: 3\ntimeoutSeconds: 20\n",
  "currency: USD\nretries: 3\ntimeoutSeconds: 20\n",
  "currency: EUR\nretries: 3\ntimeoutSeconds: 30\nfeatures:\n  - invoices\n"
]

const people = [
  ["Ada", "Lovelace", "Analytical Engines Ltd"],
  ["Grace", "Hopper", "Navy Yard Computing"],
  ["Katherine", "Johnson", "Orbit and Sons"],
  ["Annie", "Easley", "Centaur Launch Services"],
  ["Wilhelmina Charlotte", "Featherstonehaugh-Cholmondeley", "A company with a name that is longer than its column"]
] as const

/** The next larger amount that looks like a limit: of two digits. */
const limitAbove = (usd: number): number => {
  const unit = 10 ** (Math.floor(Math.log10(Math.max(usd, 1))) - 1)
  return Math.ceil(usd / unit) * unit
}

/** An amount with nine decimals, which is exact. */
const exact = (usd: number): number => Math.round(usd * 1e9) / 1e9

const largestCharge = 2.5

/** What every page of the console has something to show of: made by calls of the API. */
const makeThings = Effect.fnUntraced(function* (
  url: string,
  serviceKey: Redacted.Redacted,
  countHistory: Effect.Effect<void>
) {
  const call = yield* caller(url, serviceKey)
  const { items: agents } = yield* call(Agents, "/api/agents?limit=200")
  const { items: tenants } = yield* call(Tenants, "/api/tenants?limit=200")
  const tenantId = tenants.find(({ slug }) => slug === "northwind")?.id
  const ofTenant = agents.filter((agent) => agent.tenantId === tenantId)
  const agentId = (name: string) => ofTenant.find((agent) => agent.name === name)?.id
  yield* call(Schema.Unknown, "/api/llm/admin/config", gatewayDocument, "PUT")

  const today = DateTime.toPartsUtc(yield* DateTime.now).day
  // So early in a month there is little that a cap of the month could show.
  const anchor = today < 8 ? 15 : 1
  const begin = DateTime.startOf(yield* DateTime.now, "month")
  const from = anchor === 1 ? begin : DateTime.add(begin, { months: -1, days: anchor - 1 })
  const month = { unit: "usd", period: "month", anchor, alertThresholds: [80, 100].map(ofSpent) }
  const made: Array<{
    readonly id: string | number
    readonly share: number
    readonly scope: object
    readonly limit: number
  }> = []
  for (const { name, room, scope, share } of caps) {
    const filter = new URLSearchParams({ tenantId: tenantId ?? "", from: DateTime.formatIso(from), ...scope })
    const { totals } = yield* call(Overview, `/api/insights/overview?${filter}`)
    const limit = limitAbove((totals.costUsd * room) / share)
    const { id } = yield* call(Made, "/api/budgets/caps", { ...month, name, limit, scope, tenantId })
    made.push({ id, limit, scope, share })
  }
  yield* call(Made, "/api/budgets/caps", {
    ...month,
    name: "Each agent",
    limit: 40,
    scope: { agentId: "each" },
    mode: "soft",
    tenantId: tenants.find(({ slug }) => slug === "contoso")?.id
  })
  yield* call(Made, "/api/budgets/caps", {
    name: "Large batches",
    unit: "usd",
    limit: 5,
    period: "day",
    scope: { taskType: "batch" },
    mode: "approval",
    tenantId
  })
  yield* countHistory

  const { key } = yield* call(MadeKey, "/api/api-keys", {
    name: "nightly-import",
    scopes: ["llm:complete", "spend:write"],
    tenantId
  })
  const asKey = yield* caller(url, Redacted.make(key))
  const openai = { model: "gpt-5", provider: "openai" }
  const review = { agentId: agentId("code-reviewer"), taskType: "review", ...openai }
  const translate = {
    agentId: agentId("translator"),
    taskType: "translate",
    model: "claude-haiku-4-5",
    provider: "anthropic"
  }
  const triage = { agentId: agentId("support-triage"), taskType: "triage", ...openai }
  const reserve = (what: object, amountUsd: number) =>
    asKey(Made, "/api/spend/reserve", { ...what, amountUsd, tokens: 40_000, userId: "user-7" })
  const charge = Effect.fnUntraced(function* (what: object, amountUsd: number) {
    const { id: reservationId } = yield* reserve(what, amountUsd)
    yield* asKey(Schema.Unknown, "/api/spend/reconcile", { reservationId, actualUsd: amountUsd })
  })
  for (const model of ["gpt-5", "claude-sonnet-4-5", "gemini-2.5-pro"]) {
    yield* asKey(Schema.Unknown, "/v1/chat/completions", {
      model,
      max_tokens: 100,
      messages: [{ role: "user", content: "Which invoices are overdue?" }]
    })
  }
  const reader = agentId("invoice-reader")
  const plan = yield* call(Made, `/api/agents/${reader}/plans`, {
    name: "Read the invoices of last month",
    budgetUsd: 5,
    taskType: "extraction",
    heartbeatSeconds: 86_400
  })
  yield* charge({ planId: plan.id, model: "claude-sonnet-4-5", provider: "anthropic" }, 1.8)
  // The calls of today use up what is missing of each share; the wide cap, which counts all of them, comes last.
  for (const [index, what] of [review, translate, triage].entries()) {
    const { id, limit, share } = made[index]!
    const { items } = yield* call(Uses, `/api/budgets/caps-status?capId=${id}`)
    for (let left = limit * share - (items[0]?.spent ?? 0); exact(left) > 0; left -= largestCharge) {
      yield* charge(what, exact(Math.min(left, largestCharge)))
    }
  }
  yield* Effect.ignore(reserve(translate, 0.5))
  yield* Effect.ignore(reserve(translate, 0.5))
  yield* reserve({ ...review, ttlSeconds: 86_400 }, exact(made[0]!.limit * 0.05))
  yield* reserve({ ...triage, taskType: "batch", ttlSeconds: 86_400 }, 7.5)
  yield* call(Schema.Unknown, `/api/agents/${agentId("lead-scorer")}`, { status: "suspended" }, "PATCH")
  yield* call(Made, "/api/subscriptions", {
    provider: "openai",
    name: "Team plan",
    priceUsd: 200,
    quota: { unit: "tokens", amount: 50_000_000 },
    period: "month",
    tenantId
  })

  const application = yield* call(Made, "/api/applications", { name: "Checkout", description: "Where customers pay" })
  const file = yield* call(Made, "/api/configuration", {
    applicationId: application.id,
    name: "checkout.yaml",
    type: "file",
    content: versions[0]
  })
  for (const content of versions.slice(1)) yield* call(Made, `/api/configuration/${file.id}`, { content }, "PUT")
  yield* call(Made, "/api/roles", {
    applicationId: application.id,
    name: "Cashier",
    capabilities: ["payments:read", "payments:write"]
  })

  for (const [firstName, lastName, organization] of people) {
    const email = `${firstName}.${lastName}@example.com`.toLowerCase().replaceAll(" ", "-")
    const person = yield* call(Made, "/api/trial-users", { firstName, lastName, email, organization })
    yield* call(Made, "/api/sessions", { trialUserId: person.id, ipAddress: "203.0.113.7" })
  }
  const integration = yield* call(Made, "/api/integrations", {
    kind: "webhook",
    name: "Trial users to the CRM",
    url: "https://crm.example/hooks/events",
    eventTypes: ["com.application-manager.trial-user.*"]
  })
  // Its receiver does not exist.
  yield* call(Made, `/api/integrations/${integration.id}`, { status: "disabled" }, "PATCH")
  yield* call(Made, "/api/security/reports", { kind: "posture" })
})

const say = (text: string) => Effect.sync(() => void process.stdout.write(`${text}\n`))

/** Fills an empty Development installation with something to look at; says so when it has data already. */
export const makeDemo = Effect.fnUntraced(function* (url: string, key: Option.Option<Redacted.Redacted>) {
  const { database, environment } = yield* Settings
  if (environment !== "Development") return yield* say("--demo: demo data are made in a Development installation only.")
  const generation = Context.get(yield* Layer.build(Generation.layer.pipe(Layer.provide(OwnerLayer))), Generation)
  const place = Option.isSome(database.url) ? "the database of Database:Url" : database.directory
  if (yield* generation.isUsed) {
    return yield* say(
      (yield* generation.isDemo)
        ? `--demo: the demo is in ${place} already; while the service is stopped, npm run demo:purge empties it.`
        : `--demo: ${place} has data already, so nothing is added. Without Database:Directory and Database:Url, npm start -- --demo uses ${demoDirectory}.`
    )
  }
  if (Option.isNone(key)) {
    return yield* say(
      `--demo: an earlier start printed the service-account key of ${place}, which demo data are made with: set it, as in Api__ApiKey=… npm start -- --demo.`
    )
  }
  yield* say(`Making demo data: ${rows} calls in ${days} days …`)
  yield* generation.run(rows, days)
  yield* makeThings(url, key.value, generation.count(days)).pipe(Effect.provide(FetchHttpClient.layer))
  const { keep } = yield* Reconciliations
  const today = Math.floor((yield* DateTime.now).epochMilliseconds / dayMillis) * dayMillis
  for (const provider of ["openai", "anthropic"] as const) {
    yield* keep(provider, { from: today - billedDays * dayMillis, to: today }, billOf(provider, today))
  }
  const { detectSince } = yield* Anomalies
  yield* detectSince(DateTime.subtract(yield* DateTime.now, { days }))
  yield* say("The demo is ready; npm run demo:purge removes it.")
}, Effect.scoped)
