import { assert, describe, it } from "@effect/vitest"
import { DateTime, Schema } from "effect"
import { ChargeId, ReservationId } from "../../../src/budgets/ledger/domain.ts"
import { BatchCharges } from "../../../src/gateway/batches/batch-charges.ts"
import { type StoredBatch } from "../../../src/gateway/batches/domain.ts"
import { RequestPlaces } from "../../../src/gateway/batches/request-places.ts"
import { areSameRates, readRates, writeRates } from "../../../src/gateway/batches/stored-rates.ts"
import { costOf, rateTable } from "../../../src/gateway/catalog/cost.ts"
import { openAiBatches } from "../../../src/gateway/formats/batches/openai-batches.ts"
import { noUsage } from "../../../src/gateway/formats/domain.ts"
import { TenantId } from "../../../src/kernel/identifier.ts"

const id = (digit: number) => `00000000-0000-7000-8000-00000000000${digit}`

const table = rateTable({
  inputUsdPerMTok: 2_000_000_001n,
  outputUsdPerMTok: 9_999_999_999n,
  cacheReadUsdPerMTok: 500_000_003n,
  reasoningUsdPerMTok: 11_000_000_007n,
  longContext: [{ aboveTokens: 300, inputUsdPerMTok: 4_000_000_001n, outputUsdPerMTok: 20_000_000_003n }],
  factors: [{ when: { tier: "batch" }, factor: 0.5 }]
})

const batchOf = (models: number, places: Uint8Array | null, rates: string | null = writeRates(table)): StoredBatch => ({
  tenantId: TenantId.make(id(1)),
  id: id(2),
  createdBy: "api-key:1",
  dialect: "openai",
  provider: "oa",
  providerId: "batch_1",
  state: "running",
  terms: {
    url: "/v1/chat/completions",
    catalogueVersion: "v",
    traceId: null,
    parts: Array.from({ length: models }, (_, index) => ({
      model: `m${index}`,
      asked: `m${index}`,
      target: `t${index}`,
      requests: 10,
      amountNanoUsd: 1_000_001n,
      tokens: 1001,
      rates,
      reservationId: ReservationId.make(id(3 + index)),
      chargeId: ChargeId.make(id(6 + index))
    }))
  },
  places,
  answer: null,
  createdAt: DateTime.makeUnsafe(0),
  heldUntil: DateTime.makeUnsafe(1),
  failures: 0
})

const bytes = (value: unknown) => new TextEncoder().encode(JSON.stringify(value))
const resultOf = (customId: string, body: object, status = 200) => ({
  custom_id: customId,
  response: { status_code: status, body }
})

const Count = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 400 })))
const Line = Schema.Struct({
  input: Count,
  cached: Count,
  output: Count,
  reasoning: Count,
  model: Schema.Literals([0, 1]),
  outcome: Schema.Literals(["done", "failed", "none"])
})

describe("the charge of a batch", () => {
  it.prop(
    "is the sum of those of its requests, whichever of two models each is for",
    [Schema.Array(Line)],
    ([lines]) => {
      const places = new RequestPlaces()
      for (const [index, { model }] of lines.entries()) places.add(`r${index}`, model)
      const charges = new BatchCharges(batchOf(2, places.bytes), openAiBatches)
      const sums = [0n, 0n]
      const tokens = [0, 0]
      for (const [index, { cached, input, model, outcome, output, reasoning }] of lines.entries()) {
        const prompt = input + cached
        const completion = output + reasoning
        const usage = {
          prompt_tokens: prompt,
          completion_tokens: completion,
          total_tokens: prompt + completion,
          prompt_tokens_details: { cached_tokens: cached },
          completion_tokens_details: { reasoning_tokens: reasoning }
        }
        const body = { object: "chat.completion", service_tier: "default", usage }
        if (outcome === "none")
          assert.isTrue(charges.take(bytes({ custom_id: `r${index}`, response: null, error: {} })))
        else assert.isTrue(charges.take(bytes(resultOf(`r${index}`, body, outcome === "done" ? 200 : 500))))
        // A result that is there twice is charged once.
        if (outcome === "done") charges.take(bytes(resultOf(`r${index}`, body)))
        if (outcome !== "done") continue
        sums[model]! += costOf(
          {
            ...noUsage,
            inputTokens: prompt,
            cachedInputTokens: cached,
            outputTokens: completion,
            reasoningTokens: reasoning,
            served: { tier: "batch" }
          },
          table
        )
        tokens[model]! += prompt + completion
      }
      for (const [model, item] of charges.items.entries()) {
        const completed = lines.filter((line) => line.model === model && line.outcome === "done").length
        assert.strictEqual(item.kind, completed > 0 ? "settle" : "release")
        assert.strictEqual(item.amount, sums[model])
        if (completed > 0) assert.strictEqual(item.tokens, tokens[model])
      }
    }
  )

  it("takes a request without a usage at its share of what is held", () => {
    const charges = new BatchCharges(batchOf(1, null), openAiBatches)
    charges.take(bytes(resultOf("a", { object: "chat.completion" })))
    charges.take(bytes(resultOf("b", { usage: { prompt_tokens: 10, completion_tokens: 0, total_tokens: 10 } })))
    const [item] = charges.items
    assert.deepInclude(item, { kind: "settle", amount: 100_001n + 10_001n, tokens: 101 + 10 })
    assert.strictEqual(item?.call?.method, "estimated")
    assert.isFalse(charges.take(bytes({ id: 1 })))
    assert.isFalse(charges.take(new TextEncoder().encode("{")))
  })

  it("is nothing where the price is not known, and stored prices are those that were written", () => {
    const charges = new BatchCharges(batchOf(1, null, null), openAiBatches)
    charges.take(bytes(resultOf("a", { usage: { prompt_tokens: 10, completion_tokens: 1, total_tokens: 11 } })))
    assert.deepInclude(charges.items[0], { kind: "settle", amount: 0n, tokens: 11 })
    assert.deepStrictEqual(readRates(writeRates(table)), table)
    assert.isTrue(areSameRates(writeRates(table), table))
    assert.isFalse(areSameRates(writeRates(table), rateTable({ inputUsdPerMTok: 1n })))
    assert.isFalse(areSameRates(null, table))
  })
})
