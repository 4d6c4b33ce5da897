import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { CatalogueDocument } from "../../../src/gateway/catalog/catalogue-domain.ts"
import { builtInDocument, catalogueOf } from "../../../src/gateway/catalog/catalogue.ts"
import { thinksUnseen } from "../../../src/gateway/metering/unseen-thinking.ts"
import { knownModel } from "../../support/formats.ts"
import { ask, configure, provider, spender } from "../../support/gateway.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { startProvider } from "../../support/provider.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { anthropicVendor, openAiVendor } from "../../support/vendors.ts"

const document = (...families: ReadonlyArray<object>) => ({
  source: "A test",
  asOf: "2026-11-26",
  models: [],
  families
})
const own = (...families: ReadonlyArray<object>) =>
  catalogueOf(Schema.decodeUnknownSync(CatalogueDocument)(document(...families)), 1)

const hides = (name: string, body: object = {}) => thinksUnseen({ ...body }, knownModel(name).traits)

describe("the families of a catalogue", () => {
  it("have a source and a date each", () => {
    for (const { asOf, models, source } of builtInDocument.families ?? []) {
      assert.isDefined(source, models.join())
      assert.isDefined(asOf, models.join())
    }
  })

  it("are found by the words of a name, under any provider's naming", () => {
    const { traitsOf } = own({ models: ["zed-5", "/y1"], imageTokens: 7 })
    for (const name of [
      "zed-5",
      "Zed-5",
      "vendor/zed.5:free",
      "eu.vendor.zed-5-mini-v1:0",
      "zed_5",
      "y1-mini",
      "a/y1"
    ]) {
      assert.strictEqual(traitsOf(undefined, name).imageTokens, 7, name)
    }
    for (const name of ["zed-50", "zed5", "unzed-5", "zed", "my-y1", "y10"]) {
      assert.isUndefined(traitsOf(undefined, name).imageTokens, name)
    }
  })

  it("give each fact by the longest pattern that has it, and an operator's before the built-in one", () => {
    const { traitsOf } = own(
      { models: ["zed-5-mini"], thinking: "none", takes: ["seed"] },
      { models: ["zed"], thinking: "always", minCachedTokens: 9, refuses: ["seed", "stop"] },
      { provider: "mine*", models: ["zed-5-mini"], thinking: "asked" },
      { models: ["claude-opus-5"], minCachedTokens: 77 },
      { models: ["claude"], thinkingBy: "budget" }
    )
    const mini = traitsOf("theirs", "zed-5-mini")
    assert.deepInclude(mini, { thinking: "none", minCachedTokens: 9 })
    assert.deepStrictEqual([[...mini.takes], [...mini.refuses]], [["seed"], ["stop"]])
    assert.strictEqual(traitsOf("mine-eu", "zed-5-mini").thinking, "asked")
    assert.deepInclude(traitsOf("anthropic", "claude-opus-5"), { minCachedTokens: 77, thinking: "default" })
    assert.strictEqual(traitsOf("anthropic", "claude-next").thinkingBy, "budget")
  })

  it("say which models think where a request does not ask for it, and hide it", () => {
    for (const name of [
      "gpt-5.6",
      "o3-mini",
      "openai/gpt-6-sol",
      "gemini-flash-latest",
      "claude-opus-5",
      "claude-fable-5-1"
    ]) {
      assert.isTrue(hides(name), name)
    }
    for (const name of [
      "gpt-4o",
      "gpt-5-chat-latest",
      "gpt-5.1",
      "gemini-2.5-flash-lite",
      "claude-opus-4-8",
      "llama-4"
    ]) {
      assert.isFalse(hides(name), name)
    }
    assert.isFalse(hides("claude-opus-5", { thinking: { type: "disabled" } }))
    assert.isTrue(hides("claude-opus-5-5", { thinking: { type: "disabled" } }))
    assert.isTrue(hides("gpt-5.1", { reasoning_effort: "low" }))
    assert.isFalse(hides("gpt-5.6", { reasoning: { effort: "none" } }))
  })
})

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("an operator's families", (it) => {
  it.effect("decide what a model is sent, from the next call on", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider((request, response) =>
        (request.path.endsWith("/messages") ? anthropicVendor : openAiVendor)(request, response)
      )
      const { url } = standIn
      yield* configure(
        service,
        [provider("here", standIn), { id: "there", dialect: "anthropic", baseUrl: url }],
        [
          { id: "zed", kind: "chat", targets: [{ provider: "here", model: "zed-1" }] },
          { id: "glm", kind: "chat", targets: [{ provider: "there", model: "claude-3-7-mine" }] }
        ]
      )
      const { key } = yield* spender(service, [])
      const sent = (model: string, members: object) =>
        Effect.map(ask(service, key, { model, ...members }), ({ status, text }) => {
          assert.strictEqual(status, 200, text)
          return standIn.requests.at(-1)?.body
        })
      assert.deepInclude(yield* sent("zed", { max_completion_tokens: 9 }), { max_completion_tokens: 9 })
      const asked = { temperature: 0.5, max_tokens: 4000 }
      assert.strictEqual((yield* sent("glm", asked)).temperature, 0.5)
      const budget = { type: "enabled", budget_tokens: 1024 }
      assert.deepStrictEqual((yield* sent("glm", { ...asked, reasoning_effort: "low" })).thinking, budget)
      const families = [
        { provider: "here", models: ["zed"], refuses: ["max_completion_tokens"] },
        { models: ["claude-3-7-mine"], refuses: ["temperature"], thinking: "none" }
      ]
      const written = yield* service.call("PUT", "/api/llm/admin/catalogue", { body: document(...families) })
      assert.strictEqual(written.status, 200, written.text)
      assert.deepInclude(yield* sent("zed", { max_completion_tokens: 9 }), { max_tokens: 9 })
      assert.isUndefined((yield* sent("glm", asked)).temperature)
      assert.isUndefined((yield* sent("glm", { ...asked, reasoning_effort: "low" })).thinking)
    }).pipe(Effect.scoped)
  )

  it.effect("are refused with the member that is wrong", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const wrong = yield* service.call("PUT", "/api/llm/admin/catalogue", {
        body: document({ models: ["(a+)+$"] }, { models: [] }, { provider: "A B", models: ["*"], thinking: "maybe" })
      })
      assertProblem(wrong, 400, "validation-failed")
      assert.includeMembers(
        [...faultPaths(wrong)],
        [
          "payload.families.0.models.0",
          "payload.families.1.models",
          "payload.families.2.provider",
          "payload.families.2.thinking"
        ]
      )
    })
  )
})
