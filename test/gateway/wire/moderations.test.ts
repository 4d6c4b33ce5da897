import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import OpenAI from "openai"
import { configure, model, provider, spender } from "../../support/gateway.ts"
import { json, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { eventually } from "../../support/waiting.ts"

const path = "/v1/moderations"

/** An answer as OpenAI writes it: a result for each text, and no usage. */
const answerTo = ({ input, model: name }: { readonly input: unknown; readonly model: string }) => ({
  id: "modr-1",
  model: name,
  results: (Array.isArray(input) && typeof input[0] === "string" ? input : [input]).map((text: unknown) => ({
    flagged: text === "bad",
    categories: { violence: text === "bad" },
    category_scores: { violence: text === "bad" ? 0.9 : 0.000001 },
    category_applied_input_types: { violence: ["text"] }
  }))
})

const setting = (caps: ReadonlyArray<object>, members: object = {}) =>
  Effect.gen(function* () {
    const service = yield* TestService
    const standIn = yield* startProvider(({ body }, response) => json(response, 200, answerTo(body)))
    const usual = model("omni-moderation-latest", ["oa"], {
      kind: "moderation",
      prices: { inputUsdPerMTok: 0 },
      ...members
    })
    yield* configure(service, [provider("oa", standIn)], [usual, model("gpt", ["oa"])])
    const { key, tenantId } = yield* spender(service, caps)
    const client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: key, maxRetries: 0 })
    return { client, key, service, standIn, tenantId }
  })

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(path, (it) => {
  it.effect("is served unchanged to OpenAI's SDK, of the usual model unless one is named, and costs nothing", () =>
    Effect.gen(function* () {
      const { client, service, standIn, tenantId } = yield* setting([{ limit: 0.000001 }])
      const texts = yield* Effect.promise(() => client.moderations.create({ input: ["good", "bad"] }))
      assert.deepStrictEqual(
        texts.results.map(({ flagged }) => flagged),
        [false, true]
      )
      const input = [
        { type: "text" as const, text: "What is this?" },
        { type: "image_url" as const, image_url: { url: "https://example.com/cat.png" } }
      ]
      const image = yield* Effect.promise(() => client.moderations.create({ model: "omni-moderation-latest", input }))
      assert.lengthOf(image.results, 1)
      assert.deepStrictEqual(
        standIn.requests.map(({ body, path: at }) => [at, body]),
        [
          ["/v1/moderations", { input: ["good", "bad"], model: "omni-moderation-latest" }],
          ["/v1/moderations", { model: "omni-moderation-latest", input }]
        ]
      )
      const { body } = yield* eventually(
        service.call("GET", `/api/usage?tenantId=${tenantId}`),
        ({ body: { items } }) => items.length === 2
      )
      for (const row of body.items) assert.deepInclude(row, { costUsd: 0, operation: "moderate", status: 200 })
    }).pipe(Effect.scoped)
  )

  it.effect("counts as a request, and is charged by its tokens where its model has a price", () =>
    Effect.gen(function* () {
      const members = { prices: { inputUsdPerMTok: 1 } }
      const { key, service, tenantId } = yield* setting([{ unit: "requests", limit: 1 }], members)
      const body = { input: "How do I get to the station?" }
      const made = yield* service.call("POST", path, { key, body })
      assert.strictEqual(made.status, 200, made.text)
      assert.strictEqual((yield* service.call("POST", path, { key, body })).status, 402)
      const { body: used } = yield* eventually(
        service.call("GET", `/api/usage?tenantId=${tenantId}`),
        ({ body: { items } }) => items.length === 1
      )
      assert.isAbove(used.items[0].inputTokens, 3)
      assert.strictEqual(used.items[0].costUsd, used.items[0].inputTokens / 1e6)
    }).pipe(Effect.scoped)
  )

  it.effect("holds the most that an image costs, and what has no bound is refused under a hard cap", () =>
    Effect.gen(function* () {
      const members = { prices: { inputUsdPerMTok: 1 } }
      const { key, service, tenantId } = yield* setting([{ limit: 1 }], members)
      const asked = (part: object) => service.call("POST", path, { key, body: { input: [part] } })
      const unbounded = yield* asked({ type: "video_url", video_url: { url: "https://example.com/cat.mp4" } })
      assert.deepStrictEqual([unbounded.status, unbounded.body.error.code], [403, "cost_unbounded"], unbounded.text)
      const image = yield* asked({ type: "image_url", image_url: { url: "https://example.com/cat.png" } })
      assert.strictEqual(image.status, 200, image.text)
      const text = yield* asked({ type: "text", text: "a" })
      assert.strictEqual(text.status, 200, text.text)
      const { body: used } = yield* eventually(
        service.call("GET", `/api/usage?tenantId=${tenantId}&sort=occurredAt`),
        ({ body: { items } }) => items.length === 2
      )
      // No provider tells its tokens, so that the bound is charged.
      assert.isAbove(used.items[0].inputTokens, 100 * used.items[1].inputTokens)
    }).pipe(Effect.scoped)
  )

  it.effect("is refused for models that do not moderate, and for what is neither a text nor a list", () =>
    Effect.gen(function* () {
      const { key, service, standIn } = yield* setting([])
      const asked = (body: object) => service.call("POST", path, { key, body })
      const chat = yield* asked({ model: "gpt", input: "a" })
      assert.deepStrictEqual([chat.status, chat.body.error.code], [400, "model_not_supported"])
      const unknown = yield* asked({ model: "text-moderation-stable", input: "a" })
      assert.deepStrictEqual([unknown.status, unknown.body.error.code], [404, "model_not_found"])
      for (const body of [{ input: 1 }, { input: [] }]) {
        const refused = yield* asked(body)
        assert.deepStrictEqual([refused.status, refused.body.error.param?.split(".")[0]], [400, "input"], refused.text)
      }
      const other = yield* service.call("POST", "/v1/chat/completions", {
        key,
        body: { model: "omni-moderation-latest", messages: [{ role: "user", content: "a" }] }
      })
      assert.strictEqual(other.status, 400)
      assert.lengthOf(standIn.requests, 0)
      const wrong = yield* service.call("PUT", "/api/llm/admin/config", {
        body: {
          providers: [{ id: "an", dialect: "anthropic", baseUrl: "https://api.anthropic.com" }],
          models: [model("m", ["an"], { kind: "moderation" })]
        }
      })
      assert.include(wrong.text, "This provider has no moderations")
    }).pipe(Effect.scoped)
  )
})
