import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { ask, charges, configure, model, provider, spender } from "../../support/gateway.ts"
import { startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { openAiVendor } from "../../support/vendors.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("a cap that was just made", (it) => {
  const setting = Effect.fnUntraced(function* (cap: object) {
    const service = yield* TestService
    const standIn = yield* startProvider(openAiVendor)
    const { prices: _, ...unpriced } = model("odd", ["oa"])
    yield* configure(service, [provider("oa", standIn)], [model("gpt", ["oa"]), unpriced])
    const { key, tenantId } = yield* spender(service, [])
    // From here on the caps of this tenant are kept in memory.
    assert.strictEqual((yield* ask(service, key)).status, 200)
    const body = { tenantId, name: "new", period: "total", ...cap }
    assert.strictEqual((yield* service.call("POST", "/api/budgets/caps", { body })).status, 201)
    standIn.requests.length = 0
    return { service, standIn, key, tenantId }
  })

  it.effect("in money lets no call through that has no price, or no bound", () =>
    Effect.gen(function* () {
      for (const [members, code] of [
        [{ model: "odd" }, "model_unpriced"],
        [{ search_parameters: {} }, "cost_unbounded"]
      ] as const) {
        const { key, service, standIn, tenantId } = yield* setting({ unit: "usd", limit: 1 })
        const refused = yield* ask(service, key, members)
        assert.deepStrictEqual([refused.status, refused.body.error.code], [403, code])
        assert.isEmpty(standIn.requests)
        assert.isFalse((yield* charges(service, tenantId)).some(({ state }) => state === "open"))
      }
    }).pipe(Effect.scoped)
  )

  it.effect("is told of by a dry run", () =>
    Effect.gen(function* () {
      const { key, service } = yield* setting({ unit: "usd", limit: 1 })
      const body = { model: "gpt", messages: [{ role: "user", content: "Hi" }], dryRun: true }
      const dry = yield* service.call("POST", "/api/llm/complete", { key, body })
      assert.lengthOf(dry.body.caps, 1)
      const odd = yield* service.call("POST", "/api/llm/complete", { key, body: { ...body, model: "odd" } })
      assert.strictEqual(odd.status, 403)
    }).pipe(Effect.scoped)
  )

  it.effect("limits the output of the first call already", () =>
    Effect.gen(function* () {
      for (const cap of [
        { unit: "tokens", limit: 1000 },
        { unit: "usd", limit: 0.005 }
      ]) {
        const { key, service, standIn } = yield* setting(cap)
        const answer = yield* ask(service, key)
        assert.strictEqual(answer.status, 200, answer.text)
        assert.isAbove(standIn.requests[0]?.body.max_tokens, 0)
      }
    }).pipe(Effect.scoped)
  )
})
