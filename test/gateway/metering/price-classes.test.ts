import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import {
  acknowledgeBounds,
  ask,
  asks,
  configure,
  counters,
  model,
  provider,
  readAll,
  spender,
  usageRows
} from "../../support/gateway.ts"
import { assertNoDrift } from "../../support/plans.ts"
import { json, type ReceivedRequest, sse, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { eventually } from "../../support/waiting.ts"

type Service = TestService["Service"]

const prices = {
  inputUsdPerMTok: 1,
  outputUsdPerMTok: 10,
  cacheReadUsdPerMTok: 0.1,
  audioInputUsdPerMTok: 40,
  audioOutputUsdPerMTok: 80,
  factors: [
    { when: { tier: "flex" }, factor: 0.5 },
    { when: { tier: "priority" }, prices: { inputUsdPerMTok: 3, outputUsdPerMTok: 30 } },
    { when: { speed: "fast" }, factor: 6 },
    { when: { geo: "us" }, factor: 1.1 }
  ]
}
const usage = { prompt_tokens: 1000, completion_tokens: 100, total_tokens: 1100 }
const usual = 2_000_000

const completion = (members: object = {}) => ({
  id: "c",
  object: "chat.completion",
  choices: [{ index: 0, message: { role: "assistant", content: "Noon." }, finish_reason: "stop" }],
  usage,
  ...members
})
const message = (reported: object = {}) => ({
  id: "m",
  type: "message",
  role: "assistant",
  content: [{ type: "text", text: "Noon." }],
  stop_reason: "end_turn",
  usage: { input_tokens: 1000, output_tokens: 100, ...reported }
})
const response = (members: object = {}) => ({
  id: "resp_1",
  object: "response",
  status: "completed",
  output: [{ type: "message", role: "assistant", content: [{ type: "output_text", text: "Noon." }] }],
  usage: { input_tokens: 1000, output_tokens: 100, total_tokens: 1100 },
  ...members
})

const last = (members: object, choice: object = {}) => ({
  choices: [{ index: 0, delta: {}, finish_reason: "stop", ...choice }],
  ...members
})

/** The last row of a tenant once there are so many. */
const rowAfter = (service: Service, tenantId: string, count: number) =>
  Effect.map(
    eventually(usageRows(service, tenantId), ({ length }) => length === count),
    (rows) => rows.at(-1)
  )

/** One call with a stand-in that answers so, and its row. */
const charged = Effect.fnUntraced(function* (
  service: Service,
  {
    answer,
    body = {},
    caps = [],
    headers = {},
    id = "oa",
    members = {},
    own = { prices },
    path = "/v1/chat/completions"
  }: {
    readonly answer: unknown
    readonly body?: object
    readonly caps?: ReadonlyArray<object>
    readonly headers?: object
    readonly id?: string
    readonly members?: object
    readonly own?: object
    readonly path?: string
  }
) {
  const received: Array<ReceivedRequest> = []
  const standIn = yield* startProvider((request, out) => {
    received.push(request)
    if (!Array.isArray(answer)) return json(out, 200, answer, headers)
    sse(out, answer)
    out.end()
  })
  const dialect = path === "/v1/messages" ? { dialect: "anthropic", baseUrl: standIn.url } : {}
  yield* configure(service, [provider(id, standIn, { ...dialect, ...members })], [model("gpt", [id], own)])
  const { key, tenantId } = yield* spender(service, caps)
  const answered = yield* readAll(service, key, path, {
    model: "gpt",
    ...(path === "/v1/responses" ? { input: "Hi", store: false } : { messages: [{ role: "user", content: "Hi" }] }),
    ...(path === "/v1/messages" ? { max_tokens: 100 } : {}),
    stream: Array.isArray(answer),
    ...body
  })
  const row = answered.status === 200 ? yield* rowAfter(service, tenantId, 1) : undefined
  return { answered, sent: received.at(-1)?.body, row, key, tenantId }
})

const options = { excludeTestServices: true, timeout: "120 seconds" } as const

layer(sharedServiceLayer, options)("the price of a call", (it) => {
  it.effect("has the fee of a request, which its row names beside the tokens", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const own = { prices: { ...prices, requestUsd: 0.005 } }
      const { answered, key, row } = yield* charged(service, { answer: completion(), own })
      assert.strictEqual(answered.headers.get("x-cost-usd"), "0.007")
      assert.strictEqual(row?.cost, usual + 5_000_000)
      const units = [{ unit: "requests", quantity: 1, usdPerUnit: 0.005, costUsd: 0.005 }]
      assert.deepStrictEqual(row?.priceTerms, { units })
      const { body } = yield* service.call("GET", `/api/usage/${row?.reservationId}`)
      const { charges } = body
      assert.deepStrictEqual(charges.at(-1), {
        meter: "requests",
        tokens: null,
        usdPerMTok: null,
        units: 1,
        usdPerUnit: 0.005,
        costUsd: 0.005
      })
      assert.deepStrictEqual(
        charges.map((charge: { readonly costUsd: number }) => charge.costUsd),
        [0.001, 0.001, 0.005]
      )
      const refused = yield* charged(service, { answer: completion(), own, caps: [{ limit: 0.005 }] })
      assert.strictEqual(refused.answered.status, 402)
      const free = { prices: { inputUsdPerMTok: 0, outputUsdPerMTok: 0, requestUsd: 0.005 } }
      const held = yield* charged(service, { answer: completion(), own: free, caps: [{ limit: 0.005 }] })
      assert.strictEqual(held.row?.cost, 5_000_000, key)
    }).pipe(Effect.scoped)
  )

  it.effect("goes by the tier, speed and geography that its answer names, wherever they stand", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const chunks = (tier: string) => [
        { choices: [{ index: 0, delta: { content: "Noon." } }], service_tier: tier },
        { choices: [{ index: 0, delta: {}, finish_reason: "stop" }], service_tier: tier },
        { choices: [], usage, service_tier: tier },
        "data: [DONE]\n\n"
      ]
      const responses = { members: { apis: ["responses"] }, path: "/v1/responses" }
      const messages = { id: "an", path: "/v1/messages" }
      const named = (tier: string, members: object) => ({ type: tier, response: response(members) })
      const cases: ReadonlyArray<readonly [Parameters<typeof charged>[1], number, object | null]> = [
        [{ answer: completion() }, usual, null],
        [{ answer: completion({ service_tier: "default" }) }, usual, null],
        [{ answer: completion({ service_tier: null }) }, usual, null],
        [{ answer: completion({ service_tier: "auto" }) }, usual, null],
        [{ answer: completion({ service_tier: "flex" }), body: { service_tier: "flex" } }, usual / 2, { tier: "flex" }],
        [{ answer: completion({ service_tier: "priority" }) }, 3 * usual, { tier: "priority" }],
        // One thing by two names.
        [{ answer: completion({ service_tier: "fast" }) }, 3 * usual, { tier: "priority" }],
        [{ answer: completion({ usage: { ...usage, service_tier: "flex" } }) }, usual / 2, { tier: "flex" }],
        [{ answer: chunks("flex") }, usual / 2, { tier: "flex" }],
        [{ answer: response({ service_tier: "flex" }), ...responses }, usual / 2, { tier: "flex" }],
        [
          {
            // What was asked for is repeated at the beginning; what was served is said at the end.
            answer: [
              named("response.created", { service_tier: "priority", usage: null, status: "in_progress" }),
              { type: "response.output_text.delta", delta: "Noon." },
              named("response.completed", { service_tier: "default" })
            ],
            ...responses
          },
          usual,
          null
        ],
        [
          { answer: message({ service_tier: "standard", inference_geo: "global", speed: null }), ...messages },
          usual,
          null
        ],
        [{ answer: message({ inference_geo: "us" }), ...messages }, 1.1 * usual, { geo: "us" }],
        [
          { answer: message({ speed: "fast", inference_geo: "us" }), ...messages },
          6.6 * usual,
          { speed: "fast", geo: "us" }
        ]
      ]
      for (const [call, cost, terms] of cases) {
        const { row } = yield* charged(service, call)
        assert.strictEqual(row.cost, Math.round(cost), JSON.stringify(call.answer))
        assert.deepStrictEqual(row.priceTerms, terms, JSON.stringify(call.answer))
        // The row says all that the charge is computed from.
        assert.strictEqual((1000 * Number(row.rates.input) + 100 * Number(row.rates.output)) / 1e6, row.cost)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("is the dearest that is known where the answer names something without a price, and the row says so", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const unknown = yield* charged(service, { answer: completion({ service_tier: "scale" }) })
      assert.strictEqual(unknown.row.cost, 3 * usual)
      assert.deepStrictEqual(unknown.row.priceTerms, { tier: "scale", isUnpriced: true })
      const odd = yield* charged(service, { answer: completion({ service_tier: "<script>" }) })
      assert.deepStrictEqual(odd.row.priceTerms, { tier: "other", isUnpriced: true })
      assert.strictEqual(odd.row.cost, 3 * usual)
      const { factors: _, ...without } = prices
      const none = yield* charged(service, {
        answer: completion({ service_tier: "priority" }),
        own: { prices: without }
      })
      assert.strictEqual(none.row.cost, usual)
      assert.deepStrictEqual(none.row.priceTerms, { tier: "priority", isUnpriced: true })
      const metrics = yield* service.call("GET", "/metrics")
      if (metrics.status === 200) assert.match(metrics.text, /charge_notices[^\n]*tier-unpriced/)
    }).pipe(Effect.scoped)
  )

  it.effect("is of each model by its own prices where advisors and fallback models took part", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const received: Array<ReceivedRequest> = []
      const answers: Array<unknown> = []
      const standIn = yield* startProvider((request, out) => {
        received.push(request)
        const answer = answers.shift()
        if (!Array.isArray(answer)) return json(out, 200, answer)
        sse(out, answer)
        out.end()
      })
      const dear = { prices: { inputUsdPerMTok: 5, outputUsdPerMTok: 50, cacheReadUsdPerMTok: 0.5 } }
      yield* configure(
        service,
        [provider("an", standIn, { dialect: "anthropic", baseUrl: standIn.url })],
        [
          model("gpt", ["an"], { prices }),
          { ...model("big", ["an"], dear), targets: [{ provider: "an", model: "c-big" }] }
        ]
      )
      const { key, tenantId } = yield* spender(service, [])
      const own = { type: "message", input_tokens: 1000, output_tokens: 100 }
      const advisor = {
        ...own,
        type: "advisor_message",
        model: "c-big",
        input_tokens: 500,
        cache_read_input_tokens: 300
      }
      const unknown = { ...advisor, model: "c-unknown" }
      const fallback = { ...own, type: "fallback_message", model: "c-big", output_tokens: 40 }
      const declined = { ...own, output_tokens: 20 }
      const spent = { inputTokens: 800, cachedInputTokens: 300, outputTokens: 100 }
      const costs: ReadonlyArray<readonly [object, number, object | null]> = [
        [{ iterations: [own] }, usual, null],
        [{ iterations: [own, { ...own, type: "compaction" }] }, 2 * usual, null],
        [{ iterations: [own, advisor] }, usual + 500 * 5000 + 300 * 500 + 100 * 50_000, { ...spent, costUsd: 0.00765 }],
        [
          { iterations: [own, unknown] },
          usual + 500 * 1000 + 300 * 100 + 100 * 10_000,
          { ...spent, model: "c-unknown" }
        ],
        // Which of these the usage itself has is not documented, so that the larger one counts.
        [
          { input_tokens: 1000, output_tokens: 40, iterations: [declined, fallback] },
          1000 * 1000 + 20 * 10_000 + 1000 * 5000 + 40 * 50_000,
          { inputTokens: 1000, outputTokens: 40, costUsd: 0.007 }
        ]
      ]
      let calls = 0
      for (const [reported, cost, terms] of costs) {
        for (const streams of [false, true]) {
          const { usage: whole, ...rest } = message(reported)
          answers.push(
            streams
              ? [
                  { type: "message_start", message: { ...rest, content: [], usage: { input_tokens: 1000 } } },
                  { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: whole },
                  { type: "message_stop" }
                ]
              : { ...rest, usage: whole }
          )
          const body = { model: "gpt", max_tokens: 100, messages: [{ role: "user", content: "Hi" }], stream: streams }
          assert.strictEqual((yield* readAll(service, key, "/v1/messages", body)).status, 200)
          const row = yield* rowAfter(service, tenantId, ++calls)
          const told = JSON.stringify({ reported, streams })
          assert.strictEqual(row.cost, cost, told)
          assert.deepInclude(row.priceTerms?.models?.at(-1) ?? {}, terms ?? {}, told)
        }
      }
      const metrics = yield* service.call("GET", "/metrics")
      if (metrics.status === 200) assert.match(metrics.text, /charge_notices[^\n]*model-unpriced/)
      const { body } = yield* service.call("GET", `/api/usage?tenantId=${tenantId}`)
      assert.deepInclude(body.items[0].priceTerms.models, {
        model: "c-big",
        inputTokens: 1000,
        cachedInputTokens: 0,
        cacheWriteTokens: 0,
        cacheWrite1hTokens: 0,
        outputTokens: 40,
        reasoningTokens: 0,
        costUsd: 0.007
      })
    }).pipe(Effect.scoped)
  )

  it.effect("is shown with the tier by the list of usage, its exports and bills, which stay exact", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const details = {
        prompt_tokens_details: { audio_tokens: 300, cached_tokens: 0 },
        completion_tokens_details: { audio_tokens: 40 }
      }
      const answer = completion({ service_tier: "flex", usage: { ...usage, ...details } })
      const { row, tenantId } = yield* charged(service, { answer })
      // 700 and 60 of text, 300 and 40 of audio, at half.
      assert.strictEqual(row.cost, (700 * 1000 + 60 * 10_000 + 300 * 40_000 + 40 * 80_000) / 2)
      const terms = { tier: "flex", tokens: { audioInput: 300, audioOutput: 40 } }
      assert.deepStrictEqual(row.priceTerms, terms)
      const { body } = yield* service.call("GET", `/api/usage?tenantId=${tenantId}`)
      assert.deepInclude(body.items[0], { servedTier: "flex", priceTerms: terms, inputTokens: 1000 })
      const lines = yield* service.call("GET", `/api/usage/export?format=jsonl&tenantId=${tenantId}`)
      assert.deepInclude(JSON.parse(lines.text.trim()), { servedTier: "flex", priceTerms: terms })
      const csv = yield* service.call("GET", `/api/usage/export?format=csv&tenantId=${tenantId}`)
      assert.include(csv.text, '"flex","{""tier"": ""flex""')
    }).pipe(Effect.scoped)
  )

  it.effect("has audio at its own price, however the vendor counts it", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const voxtral = {
        prompt_tokens: 10,
        completion_tokens: 5,
        total_tokens: 390,
        prompt_tokens_details: { audio_tokens: 375 }
      }
      const read = yield* charged(service, { answer: completion({ usage: voxtral }) })
      assert.deepInclude(read.row, { inputTokens: 385, outputTokens: 5, reasoningTokens: 0 })
      assert.strictEqual(read.row.cost, 10 * 1000 + 375 * 40_000 + 5 * 10_000)
      // Without a price of its own it costs what text does.
      const text = { prices: { inputUsdPerMTok: 1, outputUsdPerMTok: 10 } }
      const without = yield* charged(service, { answer: completion({ usage: voxtral }), own: text })
      assert.strictEqual(without.row.cost, 385 * 1000 + 5 * 10_000)
      assert.isNull(without.row.priceTerms)
    }).pipe(Effect.scoped)
  )

  it.effect("is of a stream whose usage stands in its last choice, or in the vendor's own member", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const said = { choices: [{ index: 0, delta: { content: "Noon." } }] }
      const zeros = { prompt_tokens: 0, completion_tokens: 0, total_tokens: 0 }
      for (const [answer, path] of [
        [[said, last({}, { usage }), "data: [DONE]\n\n"], "/v1/chat/completions"],
        [[said, last({ x_groq: { id: "r", usage } }), "data: [DONE]\n\n"], "/v1/chat/completions"],
        [[said, last({}, { usage }), { choices: [], usage: zeros }, "data: [DONE]\n\n"], "/v1/chat/completions"],
        [[said, last({}, { usage }), "data: [DONE]\n\n"], "/v1/responses"]
      ] as const) {
        const { row } = yield* charged(service, { answer: [...answer], path })
        assert.deepInclude(row, { cost: usual, method: "provider_usage" }, JSON.stringify(answer))
      }
      const gathered = yield* charged(service, {
        answer: [said, last({}, { usage }), "data: [DONE]\n\n"],
        body: { stream: false }
      })
      assert.deepInclude(gathered.row, { cost: usual, method: "provider_usage" })
    }).pipe(Effect.scoped)
  )
})

layer(sharedServiceLayer, options)("a hard cap in money and the service of a call", (it) => {
  it.effect("has the usual tier asked for where the caller asks for none", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const caps = [{ limit: 10 }]
      const own = { prices, contextTokens: 100_000, maxOutputTokens: 1000 }
      const openAi = { answer: completion(), id: "openai", own }
      const sentBy = (call: Parameters<typeof charged>[1]) => Effect.map(charged(service, call), ({ sent }) => sent)
      assert.strictEqual((yield* sentBy({ ...openAi, caps })).service_tier, "default")
      assert.strictEqual((yield* sentBy({ ...openAi, caps, body: { service_tier: "auto" } })).service_tier, "default")
      assert.strictEqual((yield* sentBy({ ...openAi, caps, body: { service_tier: "flex" } })).service_tier, "flex")
      assert.notProperty(yield* sentBy(openAi), "service_tier")
      assert.notProperty(yield* sentBy({ ...openAi, caps: [{ unit: "tokens", limit: 1e6 }] }), "service_tier")
      assert.notProperty(yield* sentBy({ ...openAi, id: "other", caps }), "service_tier")
      const responses = { ...openAi, answer: response(), members: { apis: ["responses"] }, path: "/v1/responses" }
      assert.strictEqual((yield* sentBy({ ...responses, caps })).service_tier, "default")
      const anthropic = { answer: message(), caps, id: "anthropic", own, path: "/v1/messages" }
      assert.strictEqual((yield* sentBy(anthropic)).service_tier, "standard_only")
    }).pipe(Effect.scoped)
  )

  it.effect("admits a tier that has a price, with what that costs at most, and refuses others", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const own = { prices, contextTokens: 100_000, maxOutputTokens: 1000 }
      const held = (tier: string | undefined) =>
        charged(service, {
          answer: completion({ service_tier: tier ?? "default" }),
          caps: [{ limit: 10 }],
          id: "openai",
          own,
          body: { max_tokens: 1000, ...(tier === undefined ? {} : { service_tier: tier }) }
        })
      for (const tier of [undefined, "flex", "priority", "fast"]) {
        const { answered, row } = yield* held(tier)
        assert.strictEqual(answered.status, 200, answered.text)
        assert.isAtMost(row.cost, 3 * usual)
      }
      for (const tier of ["scale", "ultrafast", "standard", "PRIORITY "]) {
        const { answered } = yield* held(tier)
        assert.strictEqual(answered.status, 403, answered.text)
        assert.include(answered.text, "service_tier")
      }
    }).pipe(Effect.scoped)
  )

  it.effect("holds the dearest class of what may be written, and refuses audio without a price", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const body = {
        modalities: ["text", "audio"],
        audio: { voice: "alloy", format: "wav" },
        max_tokens: 100
      }
      const details = { completion_tokens_details: { audio_tokens: 100 } }
      const answer = completion({ usage: { ...usage, prompt_tokens: 10, total_tokens: 110, ...details } })
      const call = { answer, body, caps: [{ limit: 1 }] }
      const spoken = yield* charged(service, call)
      assert.strictEqual(spoken.answered.status, 200, spoken.answered.text)
      assert.strictEqual(spoken.row.cost, 10 * 1000 + 100 * 80_000)
      const [counter] = yield* counters(service, spoken.tenantId)
      assert.deepStrictEqual(counter, { spent: String(spoken.row.cost), reserved: "0" })
      const own = { prices: { inputUsdPerMTok: 1, outputUsdPerMTok: 10 } }
      const refused = yield* charged(service, { ...call, own })
      assert.strictEqual(refused.answered.status, 403)
      assert.include(refused.answered.text, "modalities")
      // The hold is that of the dearest class: less does not fit.
      const small = yield* charged(service, { ...call, caps: [{ limit: 0.005 }] })
      assert.notStrictEqual(small.answered.status, 200)
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )
})

layer(sharedServiceLayer, options)("the cost that a provider reports", (it) => {
  const reporting = { members: { reportsCost: "usage.cost" } }

  it.effect("is the charge, exactly, rounded up once", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const cases: ReadonlyArray<readonly [object, number]> = [
        [{ cost: 0.0076509169000000005 }, 7_650_917],
        [{ cost: 1.4e-7 }, 140],
        [{ cost: 0 }, 0],
        [{ cost: 3 }, 3_000_000_000],
        [{ cost: 1e-10 }, 1],
        // The vendor's bill for a key of one's own comes besides; otherwise it is a part of the cost.
        [{ cost: 0.00001, is_byok: true, cost_details: { upstream_inference_cost: 0.0000000001 } }, 10_001],
        [{ cost: 0.001, is_byok: false, cost_details: { upstream_inference_cost: 0.001 } }, 1_000_000]
      ]
      for (const [more, cost] of cases) {
        const { answered, row } = yield* charged(service, {
          answer: completion({ usage: { ...usage, ...more } }),
          ...reporting
        })
        assert.deepInclude(row, { cost, inputTokens: 1000, rates: null, priceTerms: { cost: "reported" } })
        assert.strictEqual(Number(answered.headers.get("x-cost-usd")) * 1e9, cost)
      }
      const chunks = [
        { choices: [{ index: 0, delta: { content: "Noon." }, finish_reason: "stop" }] },
        { choices: [], usage: { ...usage, cost: 0.25 } },
        "data: [DONE]\n\n"
      ]
      assert.strictEqual((yield* charged(service, { answer: chunks, ...reporting })).row.cost, 250_000_000)
      const responses = { members: { ...reporting.members, apis: ["responses"] }, path: "/v1/responses" }
      const whole = response({ usage: { input_tokens: 1, output_tokens: 1, cost: 0.5 } })
      assert.strictEqual((yield* charged(service, { answer: whole, ...responses })).row.cost, 500_000_000)
    }).pipe(Effect.scoped)
  )

  it.effect("is that of the tokens where it is missing or no amount, and the row says so", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const cost of [undefined, -1, "0.5", null, {}, 1e300, true]) {
        const { row } = yield* charged(service, { answer: completion({ usage: { ...usage, cost } }), ...reporting })
        assert.deepInclude(row, { cost: usual, priceTerms: { cost: "unreported" } }, String(cost))
        assert.strictEqual(row.rates.input, "1000000000")
      }
      const byok = { cost: 0.1, is_byok: true, cost_details: { upstream_inference_cost: null } }
      const { row } = yield* charged(service, { answer: completion({ usage: { ...usage, ...byok } }), ...reporting })
      assert.strictEqual(row.cost, usual)
      // A provider that is not to report it does not decide what is charged.
      const other = yield* charged(service, { answer: completion({ usage: { ...usage, cost: 0 } }) })
      assert.deepInclude(other.row, { cost: usual, priceTerms: null })
    }).pipe(Effect.scoped)
  )

  it.effect("is limited to the held prices under a hard cap, and charged in full above what was held", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const caps = [{ limit: 1 }]
      const answer = completion({ usage: { ...usage, cost: 0.7 } })
      const { key, row, sent, tenantId } = yield* charged(service, {
        answer,
        caps,
        ...reporting,
        body: { max_tokens: 100 }
      })
      assert.deepStrictEqual(sent.provider, { max_price: { prompt: 1, completion: 10, request: 0 } })
      assert.strictEqual(row.cost, 700_000_000)
      const [counter] = yield* counters(service, tenantId)
      assert.deepStrictEqual(counter, { spent: "700000000", reserved: "0" })
      assert.strictEqual((yield* ask(service, key, { max_tokens: 100 })).status, 403)
      yield* acknowledgeBounds(service)
      assert.strictEqual((yield* ask(service, key, { max_tokens: 100 })).status, 200)
      // Once it is charged, nothing is left.
      const [spent] = yield* counters(service, tenantId)
      assert.deepStrictEqual(spent, { spent: "1400000000", reserved: "0" })
      assert.notStrictEqual((yield* ask(service, key, { max_tokens: 100 })).status, 200)
      const routed = {
        members: { reportsCost: "usage.cost", requestMembers: ["provider"] },
        body: { max_tokens: 100, provider: { order: ["a"], max_price: { prompt: 0.5, completion: 99 } } }
      }
      const lower = yield* charged(service, { answer, caps, ...routed })
      const lowest = { prompt: 0.5, completion: 10, request: 0 }
      assert.deepStrictEqual(lower.sent.provider, { order: ["a"], max_price: lowest })
      assert.notProperty((yield* charged(service, { answer, ...reporting })).sent, "provider")
    }).pipe(Effect.scoped)
  )
})

layer(sharedServiceLayer, options)("the fees of tools that an answer reports", (it) => {
  it.effect("are charged under any name, whatever the request declares", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const toolUses = { webSearch: 0.01, codeExecution: 0.03, fileSearch: 0.002, imageGeneration: 0.1 }
      const own = { prices: { inputUsdPerMTok: 1, outputUsdPerMTok: 10, toolUses } }
      const told = (more: object) => completion({ usage: { ...usage, ...more } })
      const responses = { members: { apis: ["responses"] }, path: "/v1/responses" }
      const xAi = {
        web_search_calls: 2,
        x_search_calls: 1,
        code_interpreter_calls: 1,
        document_search_calls: 3,
        image_generation_calls: 1,
        mcp_calls: 9
      }
      const executed = {
        role: "assistant",
        content: "Noon.",
        executed_tools: [
          { index: 0, type: "search" },
          { index: 1, type: "python" }
        ]
      }
      const cases: ReadonlyArray<readonly [Parameters<typeof charged>[1], object]> = [
        [{ answer: told({ server_tool_use: { web_search_requests: 3, web_fetch_requests: 5 } }) }, { webSearch: 3 }],
        [
          { answer: told({ server_tool_use_details: { web_search_requests: 1, tool_calls_executed: 7 } }) },
          { webSearch: 1 }
        ],
        [{ answer: told({ num_search_queries: 2 }) }, { webSearch: 2 }],
        [
          { answer: told({ server_tool_use: { web_search_requests: "4", tool_search_requests: 8 } }) },
          { webSearch: 4 }
        ],
        [
          {
            answer: response({
              usage: { input_tokens: 1000, output_tokens: 100, server_side_tool_usage_details: xAi }
            }),
            ...responses
          },
          { webSearch: 3, codeExecution: 1, fileSearch: 3, imageGeneration: 1 }
        ],
        [
          { answer: completion({ choices: [{ index: 0, message: executed, finish_reason: "stop" }] }) },
          { webSearch: 1, codeExecution: 1 }
        ]
      ]
      for (const [call, uses] of cases) {
        const { row } = yield* charged(service, { ...call, own })
        assert.deepStrictEqual(row.toolUses, uses, JSON.stringify(call.answer))
        const fees = Object.entries(uses).reduce((sum, [tool, count]) => sum + count * toolUses[tool as "webSearch"], 0)
        assert.strictEqual(row.cost, usual + Math.round(fees * 1e9))
      }
      for (const count of [-3, Number.NaN, "x", null]) {
        const { row } = yield* charged(service, {
          answer: told({ server_tool_use: { web_search_requests: count } }),
          own
        })
        assert.isNull(row.toolUses)
        assert.strictEqual(row.cost, usual)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("of Google's searches are those of its queries, or of the request", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider((_, out) =>
        json(out, 200, {
          candidates: [
            {
              content: { role: "model", parts: [{ text: "Noon." }] },
              finishReason: "STOP",
              groundingMetadata: { webSearchQueries: ["noon", "oslo", "noon"] }
            }
          ],
          usageMetadata: {
            promptTokenCount: 1000,
            candidatesTokenCount: 100,
            totalTokenCount: 1100,
            promptTokensDetails: [{ modality: "AUDIO", tokenCount: 200 }],
            trafficType: "ON_DEMAND_FLEX"
          }
        })
      )
      for (const [webSearchUnit, searches] of [
        ["use", 2],
        ["request", 1]
      ] as const) {
        const toolUses = { webSearch: 0.014, webSearchUnit }
        yield* configure(
          service,
          [provider("ge", standIn, { dialect: "gemini", baseUrl: `${standIn.url}/v1beta` })],
          [model("gpt", ["ge"], { prices: { ...prices, toolUses } })]
        )
        const { key, tenantId } = yield* spender(service, [])
        const answered = yield* asks(service, key, "/v1/chat/completions", { model: "gpt" })
        assert.strictEqual(answered.status, 200, answered.text)
        const row = yield* rowAfter(service, tenantId, 1)
        assert.strictEqual(row.cost, (800 * 1000 + 200 * 40_000 + 100 * 10_000) / 2 + searches * 14_000_000)
        assert.deepStrictEqual(row.priceTerms, { tier: "flex", tokens: { audioInput: 200 } })
      }
    }).pipe(Effect.scoped)
  )
})
