import { assert, layer } from "@effect/vitest"
import { CohereClient, CohereClientV2, CohereError } from "cohere-ai"
import { Effect } from "effect"
import { configure, model, provider, spender, usageRows } from "../../support/gateway.ts"
import { startProvider } from "../../support/provider.ts"
import { rerankVendor } from "../../support/rerank-vendor.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { eventually } from "../../support/waiting.ts"

const documents = ["Paris is the capital of France.", "Rome lies in Italy.", "The Seine is a river."]
const query = "What is the capital of France?"
const perUnit = 2_000_000

/** A model that is priced by search units, at a stand-in of Cohere. */
const setting = (caps: ReadonlyArray<object>, changed: object = {}) =>
  Effect.gen(function* () {
    const service = yield* TestService
    const standIn = yield* startProvider(rerankVendor("cohere", changed))
    yield* configure(
      service,
      [{ id: "cohere", dialect: "openai", baseUrl: `${standIn.url}/compatibility/v1`, catalogue: false }],
      [
        model("rerank-v3.5", ["cohere"], { kind: "rerank", prices: { inputUsdPerMTok: 0, searchUnitUsd: 0.002 } }),
        model("gpt", ["cohere"])
      ]
    )
    const { key, tenantId } = yield* spender(service, caps)
    const options = { token: key, environment: service.url, maxRetries: 0 }
    return { key, service, standIn, tenantId, v1: new CohereClient(options), v2: new CohereClientV2(options) }
  })

/** The status that a call of Cohere's SDK ends with. */
const statusOf = (client: CohereClientV2, asked: Parameters<CohereClientV2["rerank"]>[0]) =>
  Effect.promise(async () => {
    try {
      await client.rerank(asked)
      return 200
    } catch (error) {
      return error instanceof CohereError ? error.statusCode : undefined
    }
  })

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("reranking", (it) => {
  it.effect("is served unchanged to Cohere's SDK, and charged by the search units that Cohere bills", () =>
    Effect.gen(function* () {
      const { service, standIn, tenantId, v2 } = yield* setting([{ limit: 0.002 }])
      const ranked = yield* Effect.promise(() => v2.rerank({ model: "rerank-v3.5", query, documents, topN: 2 }))
      assert.deepStrictEqual(
        ranked.results.map(({ index }) => index),
        [0, 2]
      )
      assert.strictEqual(ranked.meta?.billedUnits?.searchUnits, 1)
      assert.deepStrictEqual(
        standIn.requests.map(({ body, path }) => [path, body]),
        [["/v2/rerank", { model: "rerank-v3.5", query, documents, top_n: 2, max_tokens_per_doc: 4096 }]]
      )
      const [row] = yield* eventually(usageRows(service, tenantId), ({ length }) => length === 1)
      assert.deepInclude(row, { operation: "rerank", cost: perUnit, status: 200, method: "provider_usage" })
      assert.deepStrictEqual(row.priceTerms.units, [
        { unit: "searchUnits", quantity: 1, usdPerUnit: 0.002, costUsd: 0.002 }
      ])
      // Nothing is left for another one.
      assert.strictEqual(yield* statusOf(v2, { model: "rerank-v3.5", query, documents }), 402)
      assert.lengthOf(standIn.requests, 1)
    }).pipe(Effect.scoped)
  )

  it.effect("holds what Cohere may bill: a document counts once for each 500 tokens of it with the query", () =>
    Effect.gen(function* () {
      const { service, standIn, tenantId, v2 } = yield* setting([{ limit: 0.004 }])
      // 101 documents are two units, and so are 99 of which two are cut in two.
      const asked = (texts: ReadonlyArray<string>, members: object = {}) =>
        statusOf(v2, { model: "rerank-v3.5", query: "a", documents: [...texts], ...members })
      const short = Array.from({ length: 101 }, () => "b")
      assert.strictEqual(yield* asked([...short, ...short]), 402)
      assert.strictEqual(yield* asked(["b".repeat(100_000), ...short.slice(0, 98)], { maxTokensPerDoc: 10 }), 200)
      assert.strictEqual(yield* asked(short), 402)
      assert.strictEqual(yield* asked(["b".repeat(100_000)]), 200)
      const rows = yield* eventually(usageRows(service, tenantId), ({ length }) => length === 2)
      assert.deepStrictEqual(
        rows.map(({ cost }) => cost),
        [perUnit, perUnit]
      )
      assert.strictEqual(standIn.requests.length, 2)
    }).pipe(Effect.scoped)
  )

  it.effect("charges the hold where the answer has no search units that can be", () =>
    Effect.gen(function* () {
      const many = Array.from({ length: 150 }, (_, index) => `Document ${index}`)
      for (const units of [-1, 0, 1e12, "NaN", null, [1], undefined]) {
        const meta = { billed_units: units === undefined ? {} : { search_units: units } }
        const { key, service, tenantId } = yield* setting([{ limit: 0.004 }], { meta })
        const made = yield* service.call("POST", "/v2/rerank", {
          key,
          body: { model: "rerank-v3.5", query, documents: many }
        })
        assert.strictEqual(made.status, 200, made.text)
        const [row] = yield* eventually(usageRows(service, tenantId), ({ length }) => length === 1)
        assert.deepInclude(row, { cost: 2 * perUnit, method: "estimated" }, String(units))
      }
      const service = yield* TestService
      const metrics = yield* service.call("GET", "/metrics")
      if (metrics.status === 200) assert.match(metrics.text, /charge_notices[^\n]*units-unreported/)
    }).pipe(Effect.scoped)
  )

  it.effect("charges more than was held where Cohere bills more", () =>
    Effect.gen(function* () {
      const { key, service, tenantId } = yield* setting([{ limit: 1 }], { meta: { billed_units: { search_units: 3 } } })
      const body = { model: "rerank-v3.5", query, documents }
      assert.strictEqual((yield* service.call("POST", "/v2/rerank", { key, body })).status, 200)
      const [row] = yield* eventually(usageRows(service, tenantId), ({ length }) => length === 1)
      assert.strictEqual(row.cost, 3 * perUnit)
    }).pipe(Effect.scoped)
  )

  it.effect("charges the hold of a call that its caller leaves", () =>
    Effect.gen(function* () {
      const { key, service, standIn, tenantId } = yield* setting([{ limit: 0.002 }])
      const left = new AbortController()
      standIn.answer = () => left.abort()
      yield* Effect.promise(() =>
        fetch(`${service.url}/v2/rerank`, {
          method: "POST",
          headers: { "x-api-key": key, "content-type": "application/json" },
          body: JSON.stringify({ model: "rerank-v3.5", query, documents }),
          signal: left.signal
        }).catch(() => undefined)
      )
      const [row] = yield* eventually(usageRows(service, tenantId), ({ length }) => length === 1)
      assert.deepInclude(row, { cost: perUnit, method: "aborted" })
    }).pipe(Effect.scoped)
  )

  it.effect("is served to the client of Cohere's first version, which may give objects and get them back", () =>
    Effect.gen(function* () {
      const { standIn, v1 } = yield* setting([])
      const ranked = yield* Effect.promise(() =>
        v1.rerank({
          model: "rerank-v3.5",
          query,
          documents: documents.map((text) => ({ text })),
          topN: 1
        })
      )
      assert.deepStrictEqual(
        ranked.results.map(({ index }) => index),
        [0]
      )
      assert.deepStrictEqual(standIn.requests[0]?.body.documents, documents)
    }).pipe(Effect.scoped)
  )

  it.effect(
    "is charged by tokens at Jina and Voyage, each in its own form, with the query read for each document",
    () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const [jina, voyage] = [
          yield* startProvider(rerankVendor("jina")),
          yield* startProvider(rerankVendor("voyage"))
        ]
        const priced = { kind: "rerank", prices: { inputUsdPerMTok: 0.05 }, contextTokens: 40 }
        yield* configure(
          service,
          [provider("jina", jina), provider("voyage", voyage, { catalogue: false })],
          [model("jina-reranker-v2-base-multilingual", ["jina"], priced), model("rerank-2.5", ["voyage"], priced)]
        )
        const { key, tenantId } = yield* spender(service, [{ limit: 0.0001 }])
        const asked = (name: string, path: string, members: object = {}) =>
          service.call("POST", path, { key, body: { model: name, query, documents, top_n: 2, ...members } })
        const own = yield* asked("jina-reranker-v2-base-multilingual", "/v1/rerank")
        assert.strictEqual(own.status, 200, own.text)
        const tokens = own.body.usage.total_tokens
        assert.isAbove(tokens, 40)
        const theirs = yield* asked("rerank-2.5", "/v2/rerank", { return_documents: true })
        assert.strictEqual(theirs.status, 200, theirs.text)
        assert.deepStrictEqual(theirs.body.results, [
          { index: 0, relevance_score: theirs.body.results[0].relevance_score, document: { text: documents[0] } },
          { index: 2, relevance_score: theirs.body.results[1].relevance_score, document: { text: documents[2] } }
        ])
        assert.deepStrictEqual(voyage.requests[0]?.body, {
          model: "rerank-2.5",
          query,
          documents,
          top_k: 2,
          return_documents: true
        })
        const rows = yield* eventually(usageRows(service, tenantId), ({ length }) => length === 2)
        for (const row of rows) {
          assert.deepInclude(row, {
            inputTokens: tokens,
            cost: tokens * 50,
            method: "provider_usage",
            priceTerms: null
          })
        }
      }).pipe(Effect.scoped)
  )

  it.effect("is refused under a hard cap for what has no bound, and for models that do not rerank", () =>
    Effect.gen(function* () {
      const { key, service, standIn } = yield* setting([{ limit: 1 }])
      const asked = (body: object) => service.call("POST", "/v1/rerank", { key, body: { query, documents, ...body } })
      for (const [body, param] of [
        [{ documents: [{ image: "https://example.com/a.png" }] }, "documents.0.image"],
        [{ documents: ["a", { url: "https://example.com/a.txt" }] }, "documents.1.url"],
        [{ query: { text: "a" } }, "query"],
        [{ instruction: "Be strict" }, "instruction"]
      ] as const) {
        const refused = yield* asked({ model: "rerank-v3.5", ...body })
        assert.deepStrictEqual(
          [refused.status, refused.body.error.code, refused.body.error.param],
          [403, "cost_unbounded", param]
        )
      }
      for (const [body, param] of [
        [{ documents: [] }, "documents"],
        [{ documents: ["a", 1] }, "documents.1"],
        [{ documents: "a" }, "documents"],
        [{ query: "" }, "query"],
        [{ max_tokens_per_doc: -1 }, "max_tokens_per_doc"],
        [{ documents: Array.from({ length: 10_001 }, () => "a") }, "documents"]
      ] as const) {
        const refused = yield* asked({ model: "rerank-v3.5", ...body })
        assert.deepStrictEqual([refused.status, refused.body.error.param], [400, param], refused.text)
      }
      const chat = yield* asked({ model: "gpt" })
      assert.deepStrictEqual([chat.status, chat.body.error.code], [400, "model_not_supported"])
      assert.lengthOf(standIn.requests, 0)
      const elsewhere = yield* service.call("POST", "/v2/reranks", { key, body: {} })
      assert.deepStrictEqual([elsewhere.status, elsewhere.body.error.type], [404, "invalid_request_error"])
    }).pipe(Effect.scoped)
  )

  it.effect("is answered by the loopback model", () =>
    Effect.gen(function* () {
      const { key, service, tenantId } = yield* setting([{ limit: 1 }])
      const options = { token: key, environment: service.url, maxRetries: 0 }
      const ranked = yield* Effect.promise(() =>
        new CohereClientV2(options).rerank({ model: "loopback-1", query, documents, topN: 1 })
      )
      assert.deepStrictEqual(ranked.results, [{ index: 0, relevanceScore: 5 / 6 }])
      const [row] = yield* eventually(usageRows(service, tenantId), ({ length }) => length === 1)
      assert.strictEqual(row.cost, row.inputTokens * 1000)
    }).pipe(Effect.scoped)
  )
})
