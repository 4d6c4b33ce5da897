import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { costBound, costOf, rateTable } from "../../../src/gateway/catalog/cost.ts"
import { Prices, unitPrices } from "../../../src/gateway/catalog/rate-domain.ts"
import { completedUnits, unitCharges, unitRatesOf } from "../../../src/gateway/catalog/unit-costs.ts"
import { noUsage, type UsageUnits } from "../../../src/gateway/formats/domain.ts"

const prices = (members: object) => Schema.decodeUnknownSync(Prices)({ inputUsdPerMTok: 0, ...members })
const table = (members: object) => rateTable(prices(members))
const cost = (units: UsageUnits, members: object) => costOf({ ...noUsage, units }, table(members))
const amount = (nano: number) => nano / 1e9

describe("units other than tokens", () => {
  it("cost their price each, and a request its fee once, beside the tokens", () => {
    assert.strictEqual(cost({ searchUnits: 3 }, { searchUnitUsd: 0.002 }), 6_000_000n)
    assert.strictEqual(cost({ characters: 17 }, { characterUsd: 0.000015 }), 255_000n)
    assert.strictEqual(cost({ audioMilliseconds: 1501 }, { audioSecondUsd: 0.0001 }), 150_100n)
    assert.strictEqual(cost({ audioMilliseconds: 1 }, { audioSecondUsd: 0.000000001 }), 1n)
    assert.strictEqual(cost({ pages: 2 }, { pageUsd: 0.001 }), 2_000_000n)
    assert.strictEqual(cost({}, { requestUsd: 0.005 }), 5_000_000n)
    const all = table({ inputUsdPerMTok: 1, requestUsd: 0.005, searchUnitUsd: 0.002 })
    assert.strictEqual(costOf({ ...noUsage, inputTokens: 7, units: { searchUnits: 1 } }, all), 7_007_000n)
  })

  it("cost nothing without a price", () => {
    const units = { searchUnits: 3, characters: 9, images: [{ count: 2 }] }
    assert.strictEqual(cost(units, {}), 0n)
    assert.deepStrictEqual(unitCharges(units, table({ searchUnitUsd: 0 })), [])
    assert.isUndefined(unitRatesOf(prices({ searchUnitUsd: 0, image: [{ usd: 0 }] })))
  })

  it("name every price that there is", () => {
    const each = Object.keys(unitPrices).map((name) => [name, name === "image" ? [{ usd: 1 }] : 1])
    assert.sameMembers(Object.keys(unitRatesOf(prices(Object.fromEntries(each))) ?? {}), Object.keys(unitPrices))
  })

  it("have the dearest price that an image may have", () => {
    const image = [
      { size: "small", quality: "low", usd: 0.01 },
      { size: "small", quality: "high", usd: 0.04 },
      { size: "large", usd: 0.08 },
      { usd: 0.02 }
    ]
    const of = (one: object) => cost({ images: [{ count: 2, ...one }] }, { image })
    assert.strictEqual(of({ size: "small", quality: "low" }), 40_000_000n)
    assert.strictEqual(of({ size: "small", quality: "high" }), 80_000_000n)
    assert.strictEqual(of({ quality: "low" }), 160_000_000n)
    assert.strictEqual(of({}), 160_000_000n)
    const listed = { image: image.slice(0, 3) }
    assert.strictEqual(cost({ images: [{ count: 1, size: "huge" }] }, listed), 80_000_000n)
  })

  it("that an answer does not report are those of the bound, where they have a price", () => {
    const most = { searchUnits: 5, characters: 9, images: [{ count: 4 }] }
    const priced = table({ searchUnitUsd: 1, image: [{ usd: 1 }] })
    assert.deepStrictEqual(completedUnits(undefined, most, priced), { searchUnits: 5, images: [{ count: 4 }] })
    assert.deepStrictEqual(completedUnits({ searchUnits: 1 }, most, priced), {
      searchUnits: 1,
      images: [{ count: 4 }]
    })
    assert.isUndefined(completedUnits(undefined, most, table({})))
    assert.isUndefined(completedUnits(undefined, undefined, priced))
  })

  const Count = Schema.Int.pipe(Schema.check(Schema.isBetween({ minimum: 0, maximum: 2_000_000 })))
  const Kind = Schema.Literals(["a", "b", "c"])
  const Priced = Schema.Struct({ size: Schema.optionalKey(Kind), quality: Schema.optionalKey(Kind), usd: Count })
  it.prop(
    "cost no more than their bound, whatever the answer reports within it",
    [Schema.Array(Count), Schema.Array(Priced), Kind, Kind],
    ([[a = 1, b = 2, c = 3, d = 4, e = 5], image, size, quality]) => {
      const rates = table({
        searchUnitUsd: amount(a),
        characterUsd: amount(b),
        audioSecondUsd: amount(c),
        requestUsd: amount(d),
        image: image.slice(0, 100).map((one) => Object.assign({}, one, { usd: amount(one.usd) }))
      })
      const maxUnits = { searchUnits: e, characters: d, audioMilliseconds: a, images: [{ count: 3 }] }
      const units = {
        searchUnits: Math.floor(e / 2),
        characters: d,
        audioMilliseconds: Math.floor(a / 3),
        images: [
          { count: 1, size },
          { count: 2, size, quality }
        ]
      }
      assert.isTrue(costOf({ ...noUsage, units }, rates) <= costBound(0, 0, [rates], { maxUnits }))
    }
  )
})
