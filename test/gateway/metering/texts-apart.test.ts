import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { configure, model, provider, spender, usageRows } from "../../support/gateway.ts"
import { json, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { eventually } from "../../support/waiting.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("texts that are read apart", (it) => {
  it.effect("are held together, where each may be as long as the context", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(({ body, path }, response) => {
        const tokens = body.input.reduce((sum: number, text: string) => sum + text.length, 0)
        if (path.endsWith("/moderations")) return json(response, 200, { results: [{ flagged: false }] })
        const data = body.input.map((_: string, index: number) => ({ index, embedding: [0] }))
        return json(response, 200, { data, usage: { prompt_tokens: tokens, total_tokens: tokens } })
      })
      const priced = { prices: { inputUsdPerMTok: 1 }, contextTokens: 100 }
      yield* configure(
        service,
        [provider("oa", standIn)],
        [
          model("vectors", ["oa"], { kind: "embedding", ...priced }),
          model("judge", ["oa"], { kind: "moderation", ...priced })
        ]
      )
      const asked = (key: string, path: string, name: string, count: number) =>
        service.call("POST", path, {
          key,
          body: { model: name, input: Array.from({ length: count }, () => "a".repeat(100)) }
        })
      // Ten texts of a hundred tokens cost a thousand, whatever the context is.
      const { key, tenantId } = yield* spender(service, [{ limit: 0.0009 }])
      assert.strictEqual((yield* asked(key, "/v1/embeddings", "vectors", 10)).status, 402)
      assert.strictEqual((yield* asked(key, "/v1/moderations", "judge", 10)).status, 402)
      assert.lengthOf(standIn.requests, 0)
      assert.strictEqual((yield* asked(key, "/v1/embeddings", "vectors", 5)).status, 200)
      const [row] = yield* eventually(usageRows(service, tenantId), ({ length }) => length === 1)
      assert.strictEqual(row.cost, 500_000)
    }).pipe(Effect.scoped)
  )
})
