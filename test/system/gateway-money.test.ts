import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { type Dice, diceOf } from "../contract/dice.ts"
import { configure, counters, model, provider, spender, usageRows } from "../support/gateway.ts"
import { assertNoDrift } from "../support/plans.ts"
import { type Answerer, json, sse, startProvider } from "../support/provider.ts"
import { sharedServiceLayer, TestService } from "../support/service.ts"
import { eventually } from "../support/waiting.ts"

type Service = TestService["Service"]

const rates = { input: 2000n, output: 10_000n, cacheRead: 500n, audioOutput: 80_000n }
const prices = {
  inputUsdPerMTok: 2,
  outputUsdPerMTok: 10,
  cacheReadUsdPerMTok: 0.5,
  audioOutputUsdPerMTok: 80,
  factors: [
    { when: { tier: "flex" }, factor: 0.5 },
    { when: { tier: "priority" }, factor: 2 }
  ]
}
/** What each tier that answers name costs, in halves; one without a price costs as the dearest. */
const halves = { default: 2n, flex: 1n, priority: 4n, scale: 4n } as const
type Tier = keyof typeof halves
const tiers = ["default", "flex", "priority", "scale"] as const

const kinds = ["whole", "stream", "silent-usage", "error", "no-answer", "broken-stream", "endless"] as const

/** How a provider ends a call, and what it says that it used. */
interface Ending {
  readonly kind: (typeof kinds)[number]
  readonly status: number
  readonly input: number
  readonly cached: number
  readonly output: number
  readonly audio: number
  readonly tier: Tier
}

const limit = 50

const draw = (dice: Dice): Ending => {
  const input = 1 + dice.below(60)
  const output = dice.below(limit + 1)
  return {
    kind: dice.pick(kinds),
    status: dice.pick([400, 404, 429, 500, 503, 529]),
    input,
    cached: dice.below(input + 1),
    output,
    audio: dice.chance(0.5) ? 0 : dice.below(output + 1),
    tier: dice.pick(tiers)
  }
}
const drawMany = (dice: Dice, count: number) => Array.from({ length: count }, () => draw(dice))

const usageOf = ({ audio, cached, input, output }: Ending) => ({
  prompt_tokens: input,
  completion_tokens: output,
  total_tokens: input + output,
  prompt_tokens_details: { cached_tokens: cached },
  completion_tokens_details: { audio_tokens: audio }
})

const line = (tokens: number, rate: bigint) => BigInt(tokens) * rate
const priceOf = ({
  audio,
  cached,
  input,
  output,
  tier
}: Pick<Ending, "audio" | "cached" | "input" | "output" | "tier">) =>
  ((line(input - cached, rates.input) +
    line(cached, rates.cacheRead) +
    line(output - audio, rates.output) +
    line(audio, rates.audioOutput)) *
    halves[tier]) /
  2n

const chunk = (content: string, finish_reason: string | null = null) => ({
  choices: [{ index: 0, delta: { content }, finish_reason }]
})

/** Each request names in its words the place of the ending that it gets. */
const answering =
  (drawn: ReadonlyArray<Ending>): Answerer =>
  ({ body }, response) => {
    const ending = drawn[Number(body.messages[0].content)]
    if (ending === undefined) return json(response, 400, {})
    const usage = usageOf(ending)
    switch (ending.kind) {
      case "error":
        return json(response, ending.status, { error: { message: "No luck." } })
      case "no-answer":
        return
      case "silent-usage":
        return json(response, 200, { choices: [{ message: { content: "Noon." }, finish_reason: "stop" }] })
      case "endless":
        return sse(response, [chunk("It is ")])
      case "broken-stream":
        sse(response, [chunk("It is ")])
        return void response.destroy()
      default:
        if (body.stream !== true) {
          const choices = [{ message: { content: "Noon." }, finish_reason: "stop" }]
          return json(response, 200, { choices, usage, service_tier: ending.tier })
        }
        sse(response, [
          chunk("Noon."),
          chunk("", "stop"),
          { choices: [], usage, service_tier: ending.tier },
          "data: [DONE]\n\n"
        ])
        return void response.end()
    }
  }

/** Makes a call and reads it to its end, or gives up an endless one once it has begun. */
const make = ({ url }: Service, key: string, place: number, { kind }: Ending) =>
  Effect.promise(async () => {
    const streams = kind !== "whole" && kind !== "silent-usage"
    const controller = new AbortController()
    const response = await fetch(`${url}/v1/chat/completions`, {
      method: "POST",
      signal: controller.signal,
      headers: { "x-api-key": key, "content-type": "application/json" },
      body: JSON.stringify({
        model: "gpt",
        max_tokens: limit,
        stream: streams,
        messages: [{ role: "user", content: String(place) }]
      })
    })
    if (response.status === 200 && kind === "endless") {
      await response.body?.getReader().read()
      controller.abort()
      return response.status
    }
    await response.text().catch(() => "")
    return response.status
  })

const options = { excludeTestServices: true, timeout: "120 seconds" } as const

layer(sharedServiceLayer, options)("the money of calls", (it) => {
  it.effect("is the price of what they used, exactly, however they end; afterwards nothing is reserved", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(() => {})
      yield* configure(service, [provider("oa", standIn, { timeoutSeconds: 1 })], [model("gpt", ["oa"], { prices })], {
        retries: 1
      })
      const dice = diceOf("the money of calls")
      for (const drawn of Array.from({ length: 3 }, () => drawMany(dice, 12 + dice.below(36)))) {
        standIn.answer = answering(drawn)
        const { key, tenantId } = yield* spender(service, [
          { limit: 1 },
          { limit: 1, scope: { model: "each" }, period: "month" },
          { unit: "tokens", limit: 1_000_000 }
        ])
        yield* Effect.forEach(drawn, (ending, place) => make(service, key, place, ending), { concurrency: 24 })
        const all = yield* eventually(
          counters(service, tenantId),
          (rows) => rows.length === 3 && rows.every(({ reserved }) => reserved === "0")
        )
        const rows = yield* usageRows(service, tenantId)
        const sum = rows.reduce((total, { cost }) => total + BigInt(cost), 0n)
        // Every cap in money has the same, to the nano-dollar, and it is the sum of the rows.
        assert.lengthOf(
          all.filter(({ spent }) => spent === String(sum)),
          2,
          JSON.stringify(all)
        )
        for (const row of rows) {
          const { tier = "default", tokens: media } = row.priceTerms ?? {}
          const tokens = {
            input: row.inputTokens,
            cached: row.cachedInputTokens,
            output: row.outputTokens,
            audio: media?.audioOutput ?? 0,
            tier: tier as Tier
          }
          if (row.method === "released") assert.strictEqual(row.cost, 0)
          else if (row.method !== "unanswered") assert.strictEqual(BigInt(row.cost), priceOf(tokens))
        }
        // What the provider told is charged once, and by nothing else.
        const told = drawn.filter(({ kind }) => kind === "whole" || kind === "stream")
        const charged = rows.filter(({ method }) => method === "provider_usage")
        assert.deepStrictEqual(
          charged.map(({ cost }) => BigInt(cost)).toSorted((a, b) => Number(a - b)),
          told.map(priceOf).toSorted((a, b) => Number(a - b))
        )
        const count = (kind: Ending["kind"]) => drawn.filter((ending) => ending.kind === kind).length
        const of = (method: string) => rows.filter((row) => row.method === method).length
        assert.strictEqual(of("aborted"), count("endless"))
        assert.isAtLeast(of("estimated"), count("silent-usage"))
        // What was sent and never answered is charged each time that it was tried.
        assert.isAtLeast(of("unanswered"), 2 * count("no-answer"))
      }
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )

  it.effect("is never more than any cap, with 64 callers on its last cent and every ending", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(() => {})
      yield* configure(service, [provider("oa", standIn, { timeoutSeconds: 1 })], [model("gpt", ["oa"], { prices })])
      const drawn = drawMany(diceOf("the last cent"), 64)
      standIn.answer = answering(drawn)
      const { key, tenantId } = yield* spender(service, [{ limit: 0.1 }, { limit: 0.08, scope: { provider: "each" } }])
      const statuses = yield* Effect.forEach(drawn, (ending, place) => make(service, key, place, ending), {
        concurrency: 64
      })
      assert.isTrue(statuses.some((status) => status === 402 || status === 429))
      assert.isTrue(statuses.includes(200))
      const all = yield* eventually(counters(service, tenantId), (rows) =>
        rows.every(({ reserved }) => reserved === "0")
      )
      for (const { spent } of all) assert.isAtMost(Number(spent), 80_000_000)
      yield* assertNoDrift(service.database)
    }).pipe(Effect.scoped)
  )
})
