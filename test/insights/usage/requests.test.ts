import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { bearer } from "../../support/accounts.ts"
import { makeAgent, tokenOf } from "../../support/agents.ts"
import { makeKey, makeTenant } from "../../support/authority.ts"
import { beginStream, endless } from "../../support/endless-stream.ts"
import { ask, configure, costNanoUsd, model, outlive, provider, readAll, spender } from "../../support/gateway.ts"
import { foldAll, type MadeUsage, writeUsage } from "../../support/insights.ts"
import { assertProblem } from "../../support/problem.ts"
import { type Answerer, json, sse, startProvider } from "../../support/provider.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { openAiVendor, used } from "../../support/vendors.ts"
import { eventually } from "../../support/waiting.ts"

const usdOf = (nano: number) => nano / 1e9
const secret = "the prompt of somebody"
const sse500: Answerer = (_, response) => {
  sse(response, [
    { id: "c", choices: [{ index: 0, delta: { role: "assistant", content: "It is" } }] },
    { error: { code: "server_overloaded", message: `It repeats ${secret}` } }
  ])
  response.end()
}
const refusing =
  (status: number, error: object): Answerer =>
  (_, response) =>
    json(response, status, { error })

/** A tenant whose calls go to a provider, and its requests as the API has them. */
const makeCaller = Effect.gen(function* () {
  const service = yield* TestService
  const standIn = yield* startProvider(openAiVendor)
  yield* configure(service, [provider("oa", standIn, { timeoutSeconds: 1 })], [model("gpt", ["oa"])])
  const { key, tenantId } = yield* spender(service, [{ name: "Everything", limit: 1 }])
  const { key: reader } = yield* makeKey(service, ["insights:read"], { tenantId })
  const list = (query: string) => service.call("GET", `/api/usage?tenantId=${tenantId}&${query}`)
  const get = (id: string, more: object = {}) => service.call("GET", `/api/usage/${id}`, more)
  /** The only request, once it is there. */
  const last = Effect.flatMap(
    eventually(list("limit=1"), ({ body }) => body.items.length === 1),
    ({ body }) => Effect.map(get(body.items[0].id), (answer) => answer.body)
  )
  return { get, key, last, list, reader, service, standIn, tenantId }
})

layer(serviceLayer({ Llm__Gateway__LogContent: "true" }), { excludeTestServices: true, timeout: "60 seconds" })(
  "one request",
  (it) => {
    it.effect("has its tokens with their prices, its attempts, what counted it, and where its transcript is", () =>
      Effect.gen(function* () {
        const { get, key, reader, service, tenantId } = yield* makeCaller
        const answer = yield* ask(service, key, { max_tokens: 30, metadata: { ticket: "4711" } })
        const reservationId = answer.headers.get("x-reservation-id") ?? ""
        const { body: found, status } = yield* get(reservationId)
        assert.strictEqual(status, 200)
        assert.deepInclude(found, {
          reservationId,
          tenantId,
          status: 200,
          error: null,
          model: "gpt",
          modelAsked: "gpt",
          dialect: "openai",
          operation: "chat",
          costUsd: usdOf(costNanoUsd),
          hasTranscript: true
        })
        assert.isAtMost(found.upstreamLatencyMs, found.latencyMs)
        assert.match(found.traceId, /^[\da-f]{32}$/)
        const byTokens = { units: null, usdPerUnit: null }
        assert.deepStrictEqual(found.charges, [
          {
            ...byTokens,
            meter: "input",
            tokens: used.input - used.cached,
            usdPerMTok: 2,
            costUsd: usdOf((used.input - used.cached) * 2000)
          },
          {
            ...byTokens,
            meter: "cached-input",
            tokens: used.cached,
            usdPerMTok: 0.5,
            costUsd: usdOf(used.cached * 500)
          },
          {
            ...byTokens,
            meter: "output",
            tokens: used.output - used.reasoning,
            usdPerMTok: 10,
            costUsd: usdOf((used.output - used.reasoning) * 10_000)
          },
          {
            ...byTokens,
            meter: "reasoning",
            tokens: used.reasoning,
            usdPerMTok: 10,
            costUsd: usdOf(used.reasoning * 10_000)
          }
        ])
        assert.lengthOf(found.attempts, 1)
        assert.deepInclude(found.attempts[0], { provider: "oa", model: "gpt", status: 200 })
        assert.deepInclude(found.reservation, { state: "settled", origin: "gateway" })
        assert.deepInclude(found.caps[0], { name: "Everything", unit: "usd", mode: "hard", period: "total" })
        assert.lengthOf(found.caps, 1)
        // By its charge, too, and by a key of its tenant that may read insights.
        assert.deepStrictEqual((yield* get(found.id, { key: reader })).body, found)
        const stranger = yield* makeKey(service, ["insights:read"], { tenantId: yield* makeTenant(service.database) })
        assertProblem(yield* get(found.id, { key: stranger.key }), 404, "usage-not-found")
        assertProblem(yield* get("01a21789-a0f2-7000-8000-000000000000"), 404, "usage-not-found")
        assert.strictEqual((yield* get("nothing")).status, 400)
      }).pipe(Effect.scoped)
    )

    it.effect("of an agent is shown to that agent, and to no other", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const members = { scopeCeiling: ["spend:*", "insights:read"] }
        const agents = [yield* makeAgent(service, members), yield* makeAgent(service, members)] as const
        const [own, other] = yield* Effect.all(
          agents.map((agent) => Effect.map(tokenOf(service, agent), ({ accessToken }) => bearer(accessToken)))
        )
        const { body: reserved } = yield* service.call("POST", "/api/spend/reserve", { ...own, body: { amountUsd: 1 } })
        const settling = { ...own, body: { reservationId: reserved.id, actualUsd: 0.5 } }
        yield* service.call("POST", "/api/spend/reconcile", settling)
        const path = `/api/usage/${reserved.id}`
        assertProblem(yield* service.call("GET", path, other), 404, "usage-not-found")
        const { body } = yield* service.call("GET", path, own)
        assert.deepInclude(body, {
          agentId: agents[0].id,
          costUsd: 0.5,
          method: "reported",
          attempts: [],
          error: null,
          hasTranscript: false,
          charges: [{ meter: "spend", tokens: null, usdPerMTok: null, units: null, usdPerUnit: null, costUsd: 0.5 }]
        })
      }).pipe(Effect.scoped)
    )

    const endings: ReadonlyArray<readonly [string, Answerer, object, object]> = [
      [
        "a refusal of the provider",
        refusing(400, { code: "context_length_exceeded", message: `Too long: ${secret}` }),
        { code: "context_length_exceeded", message: "The request is longer than the model's context." },
        { status: 400 }
      ],
      [
        "a code that nobody knows",
        refusing(422, { type: "weird.Code-1", message: secret }),
        { code: "weird.Code-1", message: "The provider answered with status 422." },
        { status: 422 }
      ],
      [
        "a text in the place of a code",
        refusing(422, { code: `It says ${secret}`, message: secret }),
        { code: "provider-error", message: "The provider answered with status 422." },
        { status: 422 }
      ],
      [
        "a key that is refused",
        refusing(401, { code: "invalid_api_key", message: "sk-secret" }),
        { code: "provider-credentials", message: "The provider refuses the gateway's key." },
        { status: 502 }
      ],
      [
        "a limit of the provider",
        refusing(429, { type: "rate_limit_exceeded", message: secret }),
        { code: "rate_limit_exceeded", message: "The provider's rate limit is reached." },
        { status: 429 }
      ],
      [
        "a provider that does not answer in time",
        () => {},
        { code: "provider-timeout", message: "The provider did not answer in time." },
        { status: 504, method: "unanswered" }
      ],
      [
        "a provider that breaks the connection off",
        (_, response) => void response.destroy(),
        { code: "provider-unavailable", message: "The provider broke the connection off." },
        { status: 502, method: "unanswered" }
      ]
    ]
    for (const [what, answer, error, ended] of endings) {
      it.effect(`that failed says why, in the gateway's own words: ${what}`, () =>
        Effect.gen(function* () {
          const { key, last, list, service, standIn, tenantId } = yield* makeCaller
          standIn.answer = answer
          yield* ask(service, key, { max_tokens: 30, messages: [{ role: "user", content: secret }] })
          const found = yield* last
          assert.deepInclude(found, { error, ...ended })
          assert.deepInclude(found.attempts.at(-1), { error })
          assert.notInclude(JSON.stringify(found), secret)
          assert.notInclude(JSON.stringify(found), "sk-secret")
          assert.deepInclude((yield* list("failed=true")).body.items[0], { id: found.id, error })
          const lines = yield* service.call("GET", `/api/usage/export?tenantId=${tenantId}&failed=true`)
          assert.deepInclude(JSON.parse(lines.text), { id: found.id, error, traceId: found.traceId })
        }).pipe(Effect.scoped)
      )
    }

    it.effect("that fell back has the failure in its attempts, and none of its own", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const failing = yield* startProvider(refusing(503, { code: "overloaded", message: secret }))
        const standIn = yield* startProvider(openAiVendor)
        yield* configure(service, [provider("one", failing), provider("two", standIn)], [model("gpt", ["one", "two"])])
        const { key } = yield* spender(service, [{ limit: 1 }])
        const answer = yield* ask(service, key, { max_tokens: 30 })
        const { body } = yield* service.call("GET", `/api/usage/${answer.headers.get("x-reservation-id")}`)
        assert.deepInclude(body, { status: 200, error: null, provider: "two" })
        assert.deepStrictEqual(
          body.attempts.map(({ error, provider: at, status }: Readonly<Record<string, unknown>>) => [
            at,
            status,
            error
          ]),
          [
            ["one", 503, { code: "overloaded", message: "The provider is overloaded." }],
            ["two", 200, undefined]
          ]
        )
      }).pipe(Effect.scoped)
    )

    it.effect("says that its caller left, that a stream ended with an error, or that nobody settled it", () =>
      Effect.gen(function* () {
        const { key, list, service, standIn, tenantId } = yield* makeCaller
        const errors = (count: number) =>
          Effect.map(
            eventually(list("sort=occurredAt"), ({ body }) => body.items.length === count),
            ({ body }) => body.items.map(({ error, status }: Readonly<Record<string, unknown>>) => [status, error])
          )
        standIn.answer = sse500
        const body = { model: "gpt", messages: [{ role: "user", content: "Hello" }], stream: true }
        yield* readAll(service, key, "/v1/chat/completions", body)
        const broken = { code: "server_overloaded", message: "The provider's answer ended with an error." }
        assert.deepStrictEqual(yield* errors(1), [[502, broken]])
        standIn.answer = endless
        yield* Effect.scoped(beginStream(service.url, key))
        const left = {
          code: "client-closed-request",
          message: "The caller closed the connection before the answer was complete."
        }
        assert.deepStrictEqual((yield* errors(2)).at(-1), [499, left])
        yield* beginStream(service.url, key)
        yield* outlive(service, tenantId)
        assert.deepStrictEqual((yield* errors(3)).at(-1), [
          null,
          {
            code: "expired",
            message: "The call was not settled before its reservation expired, so all of it was charged."
          }
        ])
      }).pipe(Effect.scoped)
    )
  }
)

const at = (minute: number) => new Date(Date.UTC(2026, 2, 1, 12, minute)).toISOString()
const range = "from=2026-03-01T00:00:00Z&to=2026-03-02T00:00:00Z"
const call = { status: 200, latency_ms: 100, cost: 1_000_000, model: "m" }
const rows: ReadonlyArray<MadeUsage> = [
  { ...call, at: at(0) },
  { ...call, at: at(1), status: 500, cost: 0 },
  { ...call, at: at(2), status: 429, latency_ms: 5000 },
  { ...call, at: at(3), status: 499, method: "aborted" },
  { ...call, at: at(4), method: "unanswered", status: 504, cost: 2_000_000_000 },
  { at: at(5), method: "expired", cost: 500_000_000 },
  { at: at(6), method: "released", status: 502, attempts: [{ status: 502 }], model: "n" },
  { at: at(7), method: "released", attempts: [] },
  { at: at(8), method: "refunded", cost: -1_000_000 },
  { at: at(9), method: "reported", cost: 3_000_000_001 }
]

layer(serviceLayer({}), { excludeTestServices: true, timeout: "60 seconds" })("requests", (it) => {
  it.effect("are narrowed to what failed, as the reports count errors, and by status, cost, latency and order", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const tenants = [yield* makeTenant(service.database), yield* makeTenant(service.database)]
      for (const tenantId of tenants) yield* writeUsage(service.database, tenantId, rows)
      yield* foldAll(service.database)
      const [tenantId = ""] = tenants
      const minutes = (query: string) =>
        Effect.map(
          service.call("GET", `/api/usage?tenantId=${tenantId}&${range}&${query}`),
          ({ body, status, text }) => {
            assert.strictEqual(status, 200, text)
            return body.items.map(({ occurredAt }: { readonly occurredAt: string }) =>
              new Date(occurredAt).getUTCMinutes()
            )
          }
        )
      assert.deepStrictEqual(yield* minutes(""), [9, 6, 5, 4, 3, 2, 1, 0])
      assert.deepStrictEqual(yield* minutes("sort=occurredAt"), [0, 1, 2, 3, 4, 5, 6, 9])
      assert.deepStrictEqual(yield* minutes("sort=-occurredAt&failed=false"), [9, 3, 0])
      const failed = yield* minutes("failed=true")
      assert.deepStrictEqual(failed, [6, 5, 4, 2, 1])
      const { body } = yield* service.call("GET", `/api/insights/overview?tenantId=${tenantId}&${range}`)
      assert.strictEqual(body.totals.errors, failed.length)
      assert.deepStrictEqual(yield* minutes("status=499"), [3])
      assert.deepStrictEqual(yield* minutes("status=200&model=m"), [0])
      assert.deepStrictEqual(yield* minutes("minCostUsd=0.5"), [9, 5, 4])
      assert.deepStrictEqual(yield* minutes("minCostUsd=3.000000001&sort=occurredAt"), [9])
      assert.deepStrictEqual(yield* minutes("minLatencyMs=101"), [2])
      assert.deepStrictEqual(yield* minutes("minCostUsd=0.0005&failed=true&search=m&sort=occurredAt"), [2, 4])
      // Pages go on where they ended, in both orders and over all tenants.
      for (const query of ["", "&sort=occurredAt", "&minCostUsd=0.001&sort=occurredAt", "&failed=true"]) {
        const whole = yield* service.call("GET", `/api/usage?${range}${query}`)
        const ids: Array<string> = []
        let cursor = ""
        do {
          const page = yield* service.call("GET", `/api/usage?${range}${query}&limit=3${cursor}`)
          ids.push(...page.body.items.map(({ id }: { readonly id: string }) => id))
          cursor = page.body.nextCursor === null ? "" : `&cursor=${page.body.nextCursor}`
        } while (cursor !== "")
        assert.deepStrictEqual(
          ids,
          whole.body.items.map(({ id }: { readonly id: string }) => id),
          query
        )
      }
      for (const query of ["status=99", "failed=maybe", "minCostUsd=-1", "minCostUsd=1e3", "minLatencyMs=1.5"]) {
        assert.strictEqual((yield* service.call("GET", `/api/usage?${query}`)).status, 400, query)
      }
      const csv = yield* service.call("GET", `/api/usage/export?tenantId=${tenantId}&${range}&format=csv&minCostUsd=2`)
      assert.include(csv.headers.get("content-disposition"), `"usage-2026-03-01-2026-03-02.csv"`)
      assert.lengthOf(csv.text.trim().split("\n"), 3)
      assert.match(csv.text, /,eventTime,traceId,error\n/)
    })
  )
})
