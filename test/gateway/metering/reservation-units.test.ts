import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { configure, model, provider } from "../../support/gateway.ts"
import { startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { openAiVendor } from "../../support/vendors.ts"

const free = { inputUsdPerMTok: 0, outputUsdPerMTok: 0 }
const byUnits = {
  voice: { ...free, characterUsd: 0.000015 },
  ears: { ...free, audioSecondUsd: 0.0001 },
  order: { inputUsdPerMTok: 1, searchUnitUsd: 0.002, requestUsd: 0.01 },
  scans: { ...free, pageUsd: 0.003 },
  painter: {
    ...free,
    image: [
      { size: "1024x1024", quality: "standard", usd: 0.04 },
      { size: "1024x1024", quality: "hd", usd: 0.08 },
      { size: "1792x1024", quality: "hd", usd: 0.12 }
    ]
  }
}

const noTokens = { inputTokens: 0, maxOutputTokens: 0 }

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("a reservation by model", (it) => {
  it.effect("holds and charges the units that the model has a price of", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const vendor = yield* startProvider(openAiVendor)
      const models = Object.entries(byUnits).map(([id, prices]) => model(id, ["oa"], { prices }))
      yield* configure(service, [provider("oa", vendor)], models)
      const spend = (path: string, body: object) => service.call("POST", `/api/spend/${path}`, { body })
      const cases = [
        ["voice", { characters: 400 }, 0.006],
        ["ears", { audioSeconds: 61.5 }, 0.00615],
        ["ears", { audioSeconds: 0.0001 }, 0.0000001],
        ["order", { searchUnits: 3 }, 0.016],
        ["scans", { pages: 7, characters: 9 }, 0.021],
        ["painter", { images: [{ count: 2, size: "1024x1024", quality: "standard" }] }, 0.08],
        ["painter", { images: [{ count: 1, size: "1024x1024" }, { count: 1 }] }, 0.2]
      ] as const
      for (const [name, units, amountUsd] of cases) {
        const reserved = yield* spend("reserve", { estimate: { model: name, ...noTokens, units } })
        assert.deepStrictEqual([reserved.status, reserved.body.amountUsd], [201, amountUsd], reserved.text)
        const usage = { model: name, inputTokens: 0, outputTokens: 0, units }
        const settled = yield* spend("reconcile", { reservationId: reserved.body.id, usage })
        assert.deepStrictEqual([settled.status, settled.body.charge?.amountUsd], [200, amountUsd], settled.text)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("is refused where the units that its price is of are not named", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const vendor = yield* startProvider(openAiVendor)
      yield* configure(service, [provider("oa", vendor)], [model("voice", ["oa"], { prices: byUnits.voice })])
      for (const units of [undefined, {}, { pages: 1 }]) {
        const estimate = { model: "voice", ...noTokens, ...(units && { units }) }
        const refused = yield* service.call("POST", "/api/spend/reserve", { body: { estimate } })
        assert.strictEqual(refused.status, 400, refused.text)
        assert.include(refused.body.type, "price-unknown")
      }
      const estimate = { model: "voice", ...noTokens, units: { characters: -1 } }
      const invalid = yield* service.call("POST", "/api/spend/reserve", { body: { estimate } })
      assert.deepStrictEqual(invalid.body.errors[0].path, ["payload", "estimate", "units", "characters"])
    }).pipe(Effect.scoped)
  )
})
