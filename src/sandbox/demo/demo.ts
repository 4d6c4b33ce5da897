import { Context, Effect, Layer, Option, Redacted, Schema } from "effect"
import { FetchHttpClient, HttpClient, HttpClientRequest, HttpClientResponse } from "effect/http"
import { OwnerLayer } from "../../platform/database/connection.ts"
import { Unusable } from "../../platform/runtime/unusable.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { Generation } from "../generation/generation.ts"

const rows = 24_000
const days = 60

const Made = Schema.Struct({ id: Schema.Union([Schema.String, Schema.Int]) })
const Agents = Schema.Struct({ items: Schema.Array(Schema.Struct({ id: Schema.String, tenantId: Schema.String })) })

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

const caps = [
  { name: "Everything", limit: 20, charged: 2.4, scope: {} },
  { name: "Research", limit: 5, charged: 4.1, scope: { taskType: "research" } },
  { name: "Translation", limit: 0.5, charged: 0.5, scope: { taskType: "translation" } }
] as const

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

/** What every page of the console has something to show of: made by calls of the API. */
const makeThings = Effect.fnUntraced(function* (url: string, key: Redacted.Redacted) {
  const call = yield* caller(url, key)
  const { items: agents } = yield* call(Agents, "/api/agents?limit=200")
  const tenantId = agents[0]?.tenantId
  const ofTenant = agents.filter((agent) => agent.tenantId === tenantId)
  for (const { limit, name, scope } of caps) {
    yield* call(Made, "/api/budgets/caps", {
      name,
      unit: "usd",
      limit,
      period: "month",
      scope,
      tenantId
    })
  }
  yield* call(Made, "/api/budgets/caps", {
    name: "Large purchases",
    unit: "usd",
    limit: 0.2,
    period: "day",
    scope: { taskType: "purchase" },
    mode: "approval",
    tenantId
  })
  const agentId = ofTenant[0]?.id
  // What the two narrow caps count, the wide one counts too.
  for (const { charged, scope } of caps) {
    const reservation = yield* call(Made, "/api/spend/reserve", { agentId, amountUsd: charged, ...scope })
    yield* call(Schema.Unknown, "/api/spend/reconcile", { reservationId: reservation.id, actualUsd: charged })
  }
  yield* call(Made, "/api/spend/reserve", { agentId, amountUsd: 0.3, taskType: "research", ttlSeconds: 86_400 })
  yield* call(Made, "/api/spend/reserve", { agentId, amountUsd: 0.45, taskType: "purchase", ttlSeconds: 86_400 })
  yield* call(Schema.Unknown, `/api/agents/${agentId}/plans`, {
    name: "Read the invoices of November",
    budgetUsd: 0.5,
    taskType: "summarize",
    heartbeatSeconds: 86_400
  })
  yield* call(Schema.Unknown, `/api/agents/${ofTenant[1]?.id}`, { status: "suspended" }, "PATCH")
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
  yield* call(Made, "/api/api-keys", { name: "nightly-import", scopes: ["llm:complete", "spend:write"], tenantId })
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
  const { environment } = yield* Settings
  if (environment !== "Development") return yield* say("--demo: demo data are made in a Development installation only.")
  if (Option.isNone(key))
    return yield* say("--demo: set Api:ApiKey to the service-account key, with which demo data are made.")
  const generation = Context.get(yield* Layer.build(Generation.layer.pipe(Layer.provide(OwnerLayer))), Generation)
  if (yield* generation.isUsed) return yield* say("--demo: there are agents or usage already, so nothing is added.")
  yield* say(`Making demo data: ${rows} calls in ${days} days …`)
  yield* generation.run(rows, days)
  yield* makeThings(url, key.value).pipe(Effect.provide(FetchHttpClient.layer))
  yield* say("The demo is ready; npm run demo:purge removes it.")
}, Effect.scoped)
