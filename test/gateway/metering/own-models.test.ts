import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { focusFaults, parseCsv } from "../../insights/billing/focus.ts"
import { makeKey } from "../../support/authority.ts"
import {
  ask,
  charges,
  configure,
  counters,
  model,
  provider,
  readAll,
  spender,
  usageRows
} from "../../support/gateway.ts"
import { json, sse, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { openAiVendor } from "../../support/vendors.ts"
import { eventually } from "../../support/waiting.ts"
import { costBound, costOf, rateTable } from "#src/gateway/catalog/cost.ts"
import { noUsage } from "#src/gateway/formats/domain.ts"

type Service = TestService["Service"]

const usd = 3.6
const slots = 7
const gpu = { prices: { gpuHour: { usd, slots } } }
const timeoutSeconds = 60

/** What so many milliseconds at the provider cost in nano-dollars: a thousand-millionth of a dollar a microsecond, over 7 calls. */
const costOfTime = (upstreamMs: number) => Math.ceil((upstreamMs * 1000) / slots)
const held = costOfTime(timeoutSeconds * 1000)

/** The rows of a tenant's calls, once there are so many, each of which is charged the time that it says it took. */
const timedRows = Effect.fnUntraced(function* (service: Service, tenantId: string, count: number) {
  const rows = yield* eventually(usageRows(service, tenantId), ({ length }) => length === count)
  for (const row of rows) {
    assert.deepStrictEqual(row.rates, { gpuHour: "3600000000" })
    assert.deepStrictEqual(Object.keys(row.priceTerms.gpu).toSorted(), ["slots", "upstreamMs"])
    assert.strictEqual(row.priceTerms.gpu.slots, slots)
    assert.isAtLeast(row.priceTerms.gpu.upstreamMs, 1)
    assert.isAtMost(row.priceTerms.gpu.upstreamMs, Math.max(1, row.latencyMs))
    assert.strictEqual(row.cost, costOfTime(row.priceTerms.gpu.upstreamMs))
  }
  return rows
})

const configured = (service: Service, providers: ReadonlyArray<object>, models: ReadonlyArray<object>, routing = {}) =>
  configure(service, providers, models, { timeoutSeconds, ...routing })

const wholly = { stream: false, messages: [{ role: "user", content: "Hi" }] }
const chat = "/v1/chat/completions"

describe("the price of a GPU's time", () => {
  it("is bounded by that of the time-out, whatever it is and however many calls run at once", () => {
    for (const nanoUsd of [0n, 1n, 999_999_999n, 4_000_000_007n, 98_000_000_000n]) {
      for (const calls of [1, 3, 7, 64, 100_000]) {
        const table = rateTable({ gpuHour: { usd: nanoUsd, slots: calls } })
        for (const seconds of [1, 59, 600, 3600]) {
          const bound = costBound(1_000_000, 1_000_000, [table], { timeoutSeconds: seconds })
          for (const upstreamMs of [0, 1, 333, 999, 1000 * seconds - 1, 1000 * seconds]) {
            const cost = costOf({ ...noUsage, outputTokens: 1_000_000, upstreamMs }, table)
            assert.isTrue(cost <= bound, JSON.stringify({ nanoUsd: String(nanoUsd), calls, seconds, upstreamMs }))
            // The smallest whole number of nano-dollars that is enough.
            const [whole, part] = [3_600_000n * BigInt(calls), nanoUsd * BigInt(upstreamMs)]
            assert.isTrue(cost * whole >= part && (cost - 1n) * whole < part)
          }
        }
        assert.strictEqual(costBound(1_000_000, 1_000_000, [table]), 0n)
      }
    }
  })

  it("is held beside the prices of the other targets of a model, the dearest of which counts", () => {
    const tables = [
      rateTable({ gpuHour: { usd: 3_600_000_000n, slots: 1 } }),
      rateTable({ inputUsdPerMTok: 10n ** 9n })
    ]
    assert.strictEqual(costBound(1000, 0, tables, { timeoutSeconds: 1 }), 1_000_003n)
    assert.strictEqual(costBound(1000, 0, tables, { timeoutSeconds: 10 }), 10_000_000n)
  })
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "120 seconds" })(
  "a model on a GPU of one's own",
  (it) => {
    it.effect("holds the time-out, and is charged the time that its answer took", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        let letGo: (() => void) | undefined
        const standIn = yield* startProvider((request, out) => {
          letGo = () => openAiVendor(request, out)
        })
        yield* configured(service, [provider("own", standIn)], [model("gpt", ["own"], gpu)])
        const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
        const called = readAll(service, key, chat, { model: "gpt", ...wholly })
        const during = Effect.gen(function* () {
          yield* eventually(
            Effect.sync(() => standIn.requests.length),
            (sent) => sent === 1
          )
          const reserved = yield* counters(service, tenantId)
          letGo?.()
          return reserved
        })
        const [answer, reserved] = yield* Effect.all([called, during], { concurrency: 2 })
        assert.strictEqual(answer.status, 200, answer.text)
        assert.deepStrictEqual(reserved, [{ spent: "0", reserved: String(held) }])
        const [row] = yield* timedRows(service, tenantId, 1)
        assert.deepInclude(row, { method: "provider_usage", status: 200, saved: 0 })
        assert.isAbove(row.inputTokens, 0)
        assert.strictEqual(Math.round(Number(answer.headers.get("x-cost-usd")) * 1e9), row.cost)
        assert.deepStrictEqual(yield* counters(service, tenantId), [{ spent: String(row.cost), reserved: "0" }])
      }).pipe(Effect.scoped)
    )

    it.effect("is charged the time of a stream to its end, and up to when its caller left", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const standIn = yield* startProvider(openAiVendor)
        yield* configured(service, [provider("own", standIn)], [model("gpt", ["own"], gpu)])
        const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
        const whole = yield* readAll(service, key, "/api/llm/complete", { model: "gpt", ...wholly, stream: true })
        const [row] = yield* timedRows(service, tenantId, 1)
        assert.strictEqual(row.method, "provider_usage")
        const [, told = ""] = /"costUsd":([\d.e-]+)/.exec(whole.text) ?? []
        assert.strictEqual(Math.round(Number(told) * 1e9), row.cost, whole.text)

        standIn.answer = (_, out) => sse(out, [{ choices: [{ index: 0, delta: { content: "Noon" } }] }])
        const controller = new AbortController()
        const response = yield* Effect.promise(() =>
          fetch(`${service.url}${chat}`, {
            method: "POST",
            signal: controller.signal,
            headers: { "x-api-key": key, "content-type": "application/json" },
            body: JSON.stringify({ model: "gpt", ...wholly, stream: true })
          })
        )
        yield* Effect.promise(() => response.body!.getReader().read())
        controller.abort()
        const rows = yield* timedRows(service, tenantId, 2)
        assert.strictEqual(rows.at(-1).method, "aborted")
      }).pipe(Effect.scoped)
    )

    it.effect("is charged the time of attempts that failed at work, and nothing of those that were not begun", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const standIn = yield* startProvider(openAiVendor)
        const gone = { id: "gone", dialect: "openai", baseUrl: "http://127.0.0.1:9/v1" }
        const models = [model("gpt", ["own"], gpu), model("none", ["gone"], gpu)]
        yield* configured(service, [provider("own", standIn), gone], models)
        const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
        for (const status of [400, 404, 429, 501, 503, 529]) {
          standIn.answer = (_, out) => json(out, status, { error: { message: "no" } })
          assert.notStrictEqual((yield* ask(service, key)).status, 200)
        }
        assert.strictEqual((yield* ask(service, key, { model: "none" })).status, 502)
        const free = yield* charges(service, tenantId)
        assert.lengthOf(free, 7)
        for (const { amount, state } of free)
          assert.deepStrictEqual({ amount, state }, { amount: "0", state: "released" })

        const working = yield* spender(service, [{ limit: 1 }])
        const faults = [
          (...[, out]: Parameters<typeof standIn.answer>) => json(out, 500, { error: { message: "out of memory" } }),
          (...[, out]: Parameters<typeof standIn.answer>) => out.socket?.destroy(),
          (...[, out]: Parameters<typeof standIn.answer>) => json(out, 200, { choices: [] }),
          (...[, out]: Parameters<typeof standIn.answer>) => {
            sse(out, ["data: [DONE]\n\n"])
            out.end()
          }
        ]
        for (const [place, fault] of faults.entries()) {
          standIn.answer = fault
          const { status } = yield* ask(service, working.key, { stream: place === 3 })
          assert.isAtLeast(status, 500)
          const rows = yield* timedRows(service, working.tenantId, place + 1)
          assert.deepInclude(rows.at(-1), { method: "unanswered" })
        }
        const [{ spent } = { spent: "" }] = yield* counters(service, working.tenantId)
        const rows = yield* timedRows(service, working.tenantId, faults.length)
        assert.strictEqual(
          Number(spent),
          rows.reduce((sum, { cost }) => sum + cost, 0)
        )
        assert.isBelow(Number(spent), held)
      }).pipe(Effect.scoped)
    )

    it.effect("is charged each attempt of a call, the failed one at its own target", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        let times = 0
        const standIn = yield* startProvider((request, out) =>
          times++ === 0 ? json(out, 500, { error: { message: "no" } }) : openAiVendor(request, out)
        )
        yield* configured(service, [provider("own", standIn)], [model("gpt", ["own"], gpu)], { retries: 1 })
        const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
        assert.strictEqual((yield* ask(service, key)).status, 200)
        const rows = yield* timedRows(service, tenantId, 2)
        assert.deepStrictEqual(
          rows.map(({ method }) => method),
          ["unanswered", "provider_usage"]
        )

        const vendor = yield* startProvider(openAiVendor)
        times = 0
        const targets = [
          { provider: "own", model: "gpt" },
          { provider: "oa", model: "gpt-own", priority: 1 }
        ]
        yield* configured(
          service,
          [provider("own", standIn), provider("oa", vendor)],
          [model("gpt", [], { targets, ...gpu }), model("gpt-own", ["oa"])]
        )
        const next = yield* spender(service, [{ limit: 1 }])
        assert.strictEqual((yield* ask(service, next.key)).status, 200)
        yield* timedRows(service, next.tenantId, 2)
      }).pipe(Effect.scoped)
    )

    it.effect("goes on with what a failed attempt left of an earlier reservation", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        let times = 0
        const standIn = yield* startProvider((request, out) =>
          times++ === 0 ? json(out, 500, { error: { message: "no" } }) : openAiVendor(request, out)
        )
        yield* configured(service, [provider("own", standIn)], [model("gpt", ["own"], gpu)], { retries: 1 })
        const { tenantId } = yield* spender(service, [{ limit: 1 }])
        const owner = (yield* makeKey(service, ["*:*"], { tenantId })).key
        const { body } = yield* service.call("POST", "/api/spend/reserve", {
          key: owner,
          body: { amountUsd: (held + 5_000_000) / 1e9, tokens: 100_000, model: "gpt", provider: "own" }
        })
        const answer = yield* ask(service, owner, { max_tokens: 30 }, { "x-reservation-id": body.id })
        assert.strictEqual(answer.status, 200, JSON.stringify([body, answer.text]))
        const rows = yield* timedRows(service, tenantId, 2)
        assert.deepStrictEqual(
          rows.map(({ method }) => method),
          ["unanswered", "provider_usage"]
        )
        // Without room for the time-out of another attempt, the caller gets the failure.
        times = 0
        const exact = yield* service.call("POST", "/api/spend/reserve", {
          key: owner,
          body: { amountUsd: held / 1e9, tokens: 100_000, model: "gpt", provider: "own" }
        })
        const failed = yield* ask(service, owner, { max_tokens: 30 }, { "x-reservation-id": exact.body.id })
        assert.strictEqual(failed.status, 500, failed.text)
        yield* timedRows(service, tenantId, 3)
        assert.strictEqual((yield* counters(service, tenantId))[0]?.reserved, "0")
      }).pipe(Effect.scoped)
    )

    it.effect("needs no bound of its tokens under a cap in money, and one under a cap in tokens", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const standIn = yield* startProvider(openAiVendor)
        yield* configured(service, [provider("own", standIn)], [model("gpt", ["own"], gpu)])
        const file = {
          type: "file",
          file: { file_data: "data:application/pdf;base64,JVBERi0xLjQK", filename: "a.pdf" }
        }
        const body = { messages: [{ role: "user", content: [{ type: "text", text: "Read it" }, file] }] }
        const inMoney = yield* spender(service, [{ limit: 1 }])
        const answered = yield* ask(service, inMoney.key, body)
        assert.strictEqual(answered.status, 200, answered.text)
        const inTokens = yield* spender(service, [{ limit: 1 }, { unit: "tokens", limit: 1_000_000 }])
        const refused = yield* ask(service, inTokens.key, body)
        assert.strictEqual(refused.status, 403, refused.text)

        const short = yield* spender(service, [{ limit: (held - 1) / 1e9 }])
        const tooDear = yield* ask(service, short.key)
        assert.strictEqual(tooDear.status, 402, tooDear.text)
        assert.deepInclude(tooDear.body.error, { code: "request_exceeds_budget" })
        assert.strictEqual(tooDear.body.error.details.requested, held / 1e9)
        const enough = yield* spender(service, [{ limit: held / 1e9 }])
        assert.strictEqual((yield* ask(service, enough.key)).status, 200)
      }).pipe(Effect.scoped)
    )

    it.effect("says what a call holds in a dry run", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const standIn = yield* startProvider(openAiVendor)
        yield* configured(service, [provider("own", standIn)], [model("gpt", ["own"], gpu)])
        const { key } = yield* spender(service, [])
        const body = { model: "gpt", messages: wholly.messages, dryRun: true }
        const dry = yield* service.call("POST", "/api/llm/complete", { key, body })
        assert.deepInclude(dry.body, { dryRun: true, costUsd: held / 1e9 })
        assert.lengthOf(standIn.requests, 0)
      }).pipe(Effect.scoped)
    )

    it.effect("is shown with its time by its request and by bills, and one without a price as free", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const standIn = yield* startProvider(openAiVendor)
        const nothing = { prices: { inputUsdPerMTok: 0 } }
        yield* configured(
          service,
          [provider("own", standIn)],
          [model("gpt", ["own"], gpu), model("free", ["own"], nothing), model("dear", ["own"])]
        )
        const { key, tenantId } = yield* spender(service, [])
        for (const name of ["gpt", "free", "dear"]) {
          assert.strictEqual((yield* ask(service, key, { model: name })).status, 200)
        }
        const rows = yield* eventually(usageRows(service, tenantId), ({ length }) => length === 3)
        const shown = yield* Effect.forEach(rows, ({ chargeId }) => service.call("GET", `/api/usage/${chargeId}`))
        assert.deepStrictEqual(
          shown.map(({ status }) => status),
          [200, 200, 200],
          shown[0]?.text
        )
        const [timed, free, dear] = shown.map(({ body }) => body)
        assert.deepStrictEqual(
          shown.map(({ body }) => body.pricing),
          ["gpu-time", "free", "tokens"]
        )
        const { upstreamMs } = timed.priceTerms.gpu
        assert.deepStrictEqual(timed.charges, [
          {
            meter: "gpu-time",
            tokens: null,
            usdPerMTok: null,
            units: Math.round((upstreamMs * 1e12) / (slots * 3_600_000)) / 1e12,
            usdPerUnit: usd,
            costUsd: timed.costUsd
          }
        ])
        assert.isTrue(free.charges.every((charge: { readonly costUsd: number }) => charge.costUsd === 0))
        assert.deepInclude(dear.charges[0], { meter: "input", units: null, usdPerUnit: null })

        const now = Date.now()
        const range = { from: new Date(now - 3_600_000).toISOString(), to: new Date(now + 3_600_000).toISOString() }
        const focus = (yield* service.call("POST", "/api/insights/billing-report", {
          body: { ...range, tenantId, format: "focus" }
        })).text
        assert.deepStrictEqual(focusFaults("1.4", focus), [])
        const lines = parseCsv(focus).rows
        const line = lines.find(({ x_Model: name }) => name === "gpt")
        assert.deepInclude(line, {
          ChargeDescription: "GPU Time of gpt",
          ConsumedUnit: "GPU-Hours",
          PricingUnit: "GPU-Hours",
          ListUnitPrice: "3.6",
          SkuMeter: "GPU Time",
          SkuPriceId: "own/gpt/gpu-time/3.6"
        })
        assert.strictEqual(line?.ConsumedQuantity, line?.PricingQuantity)
        assert.strictEqual(Number(line?.BilledCost), timed.costUsd)
        for (const { BilledCost: cost, ChargeDescription: what } of lines.filter(({ x_Model: of }) => of === "free")) {
          assert.strictEqual(cost, "0")
          assert.match(what ?? "", /^[A-Z][A-Za-z ]+ Tokens of free, free$/)
        }
      }).pipe(Effect.scoped)
    )

    it.effect("is configured by a GPU's hour or by tokens, never by both or neither", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const standIn = yield* startProvider(openAiVendor)
        const put = (prices: object) =>
          service.call("PUT", "/api/llm/admin/config", {
            body: { providers: [provider("own", standIn)], models: [model("gpt", ["own"], { prices })] }
          })
        for (const prices of [
          {},
          { outputUsdPerMTok: 1 },
          { inputUsdPerMTok: 1, gpuHour: { usd, slots } },
          { gpuHour: { usd, slots }, toolUses: { webSearch: 1 } },
          { gpuHour: { usd } },
          { gpuHour: { usd, slots: 0 } },
          { gpuHour: { usd: -1, slots } }
        ]) {
          const refused = yield* put(prices)
          assert.strictEqual(refused.status, 400, JSON.stringify(prices))
        }
        assert.strictEqual((yield* put({ gpuHour: { usd, slots } })).status, 200)
        const models = yield* service.call("GET", "/api/llm/models")
        const own = models.body.find(({ id }: { readonly id: string }) => id === "gpt")
        assert.deepStrictEqual(own.prices, { gpuHour: { usd, slots } })
      }).pipe(Effect.scoped)
    )
  }
)
