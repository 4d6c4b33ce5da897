import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { type CatalogueDocument } from "../../../src/gateway/catalog/catalogue-domain.ts"
import { catalogueOf } from "../../../src/gateway/catalog/catalogue.ts"
import { type GatewayDocument } from "../../../src/gateway/configuration/configuration-domain.ts"
import { type ConnectedProvider, gatewaySnapshot } from "../../../src/gateway/configuration/gateway-snapshot.ts"
import { type ProviderApi } from "../../../src/gateway/formats/domain.ts"
import { spokenDialects } from "../../support/formats.ts"
import { runningLoopback } from "../../support/loopback.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

const openai = (apis: ReadonlyArray<ProviderApi> = [...spokenDialects.openai.apis]): ConnectedProvider => ({
  ...runningLoopback,
  id: "p",
  vendor: "openai",
  speaks: spokenDialects.openai,
  apis: new Set(apis)
})

/** The APIs of the only target of a model. */
const apisOf = (name: string, provider: ConnectedProvider, document: GatewayDocument = {}, own?: CatalogueDocument) => {
  const snapshot = gatewaySnapshot(document, null, runningLoopback, [provider], [], catalogueOf(own))
  return [...(snapshot.modelNamed(name)?.targets[0]?.apis ?? assert.fail(`no ${name}`))].toSorted()
}

/** A catalogue that has a price of one model, and its APIs where they are given. */
const document = (apis?: ReadonlyArray<ProviderApi>): CatalogueDocument => ({
  source: "a test",
  asOf: "2026-11-22",
  models: [{ provider: "openai", model: "gpt-5-codex", inputUsdPerMTok: 1n, ...(apis && { apis }) }]
})

describe("the APIs of a model", () => {
  const all = ["chat", "completions", "embeddings", "images", "moderations", "realtime", "rerank", "responses"].concat(
    "speech",
    "transcriptions"
  )

  it("are the Responses API alone where the catalogue says so, listed or not", () => {
    for (const name of ["gpt-5-codex", "gpt-5-pro", "o3-pro", "codex-mini-latest", "gpt-5.5-pro"]) {
      assert.deepStrictEqual(apisOf(name, openai()), ["responses"], name)
    }
    assert.deepStrictEqual(apisOf("gpt-5", openai()), all)
    const targets = [{ provider: "p", model: "o4-mini-deep-research" }]
    assert.deepStrictEqual(apisOf("mine", openai(), { models: [{ id: "mine", kind: "chat", targets }] }), ["responses"])
    const unlisted = { prices: { inputUsdPerMTok: 1n } }
    const providers = [{ id: "p", dialect: "openai" as const, baseUrl: "https://api.openai.com/v1", unlisted }]
    assert.deepStrictEqual(apisOf("p/o3-deep-research", openai(), { providers }), ["responses"])
  })

  it("are what the configuration says, of the target before the provider, and before the catalogue", () => {
    const target = { provider: "p", model: "gpt-5-codex" }
    const stated = (apis: ReadonlyArray<ProviderApi>) => ({
      models: [{ id: "mine", kind: "chat" as const, targets: [{ ...target, apis }] }]
    })
    assert.deepStrictEqual(apisOf("mine", openai(), stated(["chat"])), ["chat"])
    assert.deepStrictEqual(apisOf("mine", openai(["chat"]), stated(["responses"])), ["responses"])
    // A provider that has chats alone translates by itself.
    assert.deepStrictEqual(apisOf("gpt-5-codex", openai(["chat"])), ["chat"])
  })

  it("stay known where a newer catalogue has other facts alone", () => {
    assert.deepStrictEqual(apisOf("gpt-5-codex", openai(), {}, document()), ["responses"])
    assert.deepStrictEqual(apisOf("gpt-5-codex", openai(), {}, document(["chat", "responses"])), ["chat", "responses"])
  })
})

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("the APIs of a target", (it) => {
  it.effect("are those of its provider's dialect", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const put = (dialect: string, kind: string, apis: ReadonlyArray<string>) =>
        service.call("PUT", "/api/llm/admin/config", {
          body: {
            providers: [{ id: "p", dialect, baseUrl: "https://api.example.com" }],
            models: [{ id: "m", kind, targets: [{ provider: "p", model: "m", apis }] }]
          }
        })
      const refused = yield* put("anthropic", "chat", ["chat", "responses"])
      assert.strictEqual(refused.status, 400)
      assert.deepStrictEqual(refused.body.errors[0].path, ["payload", "models", 0, "targets", 0, "apis", 1])
      const vectors = yield* put("openai", "embedding", ["chat"])
      assert.deepStrictEqual(vectors.body.errors[0].path, ["payload", "models", 0, "targets", 0, "provider"])
      assert.strictEqual((yield* put("openai", "chat", ["responses"])).status, 200)
      assert.strictEqual((yield* put("openai", "chat", [])).status, 400)
    })
  )
})
