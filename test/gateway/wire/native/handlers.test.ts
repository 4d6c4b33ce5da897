import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { bearer, makeAccount, signIn } from "../../../support/accounts.ts"
import { makeKey, makeTenant } from "../../../support/authority.ts"
import { assertProblem, faultPaths } from "../../../support/problem.ts"
import { json, startProvider } from "../../../support/provider.ts"
import { serviceLayer, sharedServiceLayer, TestService } from "../../../support/service.ts"

const options = { excludeTestServices: true, timeout: "60 seconds" } as const
const test = "/api/llm/providers/test"
const list = "/api/llm/providers/list-models"

layer(sharedServiceLayer, options)("providers", (it) => {
  it.effect("at an address of the caller's lead into no private network", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider((_, response) => json(response, 200, { data: [] }))
      const body = { dialect: "openai", baseUrl: standIn.url, apiKey: "sk-of-the-caller" }
      const tested = yield* service.call("POST", test, { body })
      assert.strictEqual(tested.status, 200)
      assert.deepInclude(tested.body, { ok: false, status: null })
      assert.match(tested.body.detail, /public internet/)
      assertProblem(yield* service.call("POST", list, { body }), 502, "provider-unavailable")
      assert.isEmpty(standIn.requests)
    }).pipe(Effect.scoped)
  )

  it.effect("at an address of the caller's are shown no key of ours", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const apiKey of ["env:OPENAI_API_KEY", "file:good", "secret:0198a5b0-7c00-7000-8000-00000000002a"]) {
        const body = { dialect: "openai", baseUrl: "https://llm.example.com", apiKey }
        for (const path of [test, list]) {
          assert.deepStrictEqual([...faultPaths(yield* service.call("POST", path, { body }))], ["payload.apiKey"])
        }
      }
    })
  )

  it.effect("that are not configured are not found, and the loopback one always is", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const path of [test, list]) {
        assertProblem(yield* service.call("POST", path, { body: { providerId: "none" } }), 404, "provider-not-found")
      }
      const tested = yield* service.call("POST", test, { body: { providerId: "loopback", model: "loopback-1" } })
      assert.deepInclude(tested.body, { ok: true, status: 200 })
      const lacking = yield* service.call("POST", test, { body: { providerId: "loopback", model: "gpt" } })
      assert.deepInclude(lacking.body, { ok: false, status: 200 })
      assert.deepStrictEqual((yield* service.call("POST", list, { body: { providerId: "loopback" } })).body, [
        {
          id: "loopback-1",
          ownedBy: "application-manager",
          createdAt: null,
          kind: null,
          contextTokens: null,
          prices: null
        }
      ])
    })
  )

  it.effect("are tested by whoever has llm:admin and a key of the system", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const body = { providerId: "loopback" }
      const { key: able } = yield* makeKey(service, ["llm:admin"])
      assert.strictEqual((yield* service.call("POST", test, { key: able, body })).status, 200)
      const { key: unable } = yield* makeKey(service, ["llm:complete"])
      assertProblem(yield* service.call("POST", test, { key: unable, body }), 403, "forbidden")
    })
  )

  it.effect("are tested by who is signed in at an address alone, with no stored key and no private network", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const vendor = yield* startProvider((_, response) => json(response, 200, { data: [] }))
      const token = yield* signIn(service, yield* makeAccount(service, ["llm:admin"]))
      const own = { dialect: "openai", baseUrl: vendor.url, apiKey: "sk-of-the-caller" }
      for (const path of [test, list]) {
        assertProblem(
          yield* service.call("POST", path, bearer(token, { body: { providerId: "loopback" } })),
          403,
          "forbidden"
        )
        const kept = { ...own, apiKey: "env:OPENAI_API_KEY" }
        const answer = yield* service.call("POST", path, bearer(token, { body: kept }))
        assert.deepStrictEqual([...faultPaths(answer)], ["payload.apiKey"])
      }
      const tested = yield* service.call("POST", test, bearer(token, { body: own }))
      assert.deepInclude(tested.body, { ok: false, status: null })
      assert.match(tested.body.detail, /public internet/)
      assert.isEmpty(vendor.requests)

      const unable = yield* signIn(service, yield* makeAccount(service, ["llm:read", "llm:complete"]))
      assertProblem(yield* service.call("POST", test, bearer(unable, { body: own })), 403, "forbidden")
      const tenantId = yield* makeTenant(service.database)
      const inTenant = yield* signIn(service, yield* makeAccount(service, ["*:*"], { tenantId }))
      assertProblem(yield* service.call("POST", test, bearer(inTenant, { body: own })), 403, "forbidden")
    }).pipe(Effect.scoped)
  )

  it.effect("fare as was last seen of them", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const good = yield* startProvider((_, response) => json(response, 200, { data: [] }))
      const bad = yield* startProvider((_, response) => json(response, 500, { error: { message: "Out of order." } }))
      const providers = [
        { id: "good", dialect: "openai", baseUrl: good.url },
        { id: "bad", dialect: "anthropic", baseUrl: bad.url }
      ]
      yield* service.call("PUT", "/api/llm/admin/config", { body: { providers } })
      const health = yield* service.call("GET", "/api/llm/health")
      assert.strictEqual(health.body.status, "degraded")
      const of = (id: string) => health.body.providers.find((one: { readonly id: string }) => one.id === id)
      assert.deepInclude(of("loopback"), { reachable: true, breaker: "closed", lastError: null })
      assert.deepInclude(of("good"), { reachable: true, breaker: "closed", dialect: "openai" })
      assert.deepInclude(of("bad"), { reachable: false, lastError: "Out of order." })
      assert.isNotNull(of("bad").checkedAt)
      // What was seen lately is not looked at again.
      yield* service.call("GET", "/api/llm/health")
      assert.lengthOf(bad.requests, 1)
      const moved = [{ id: "bad", dialect: "openai", baseUrl: good.url }]
      yield* service.call("PUT", "/api/llm/admin/config", { body: { providers: moved } })
      const { body } = yield* service.call("GET", "/api/llm/health")
      assert.strictEqual(body.status, "healthy", "a provider at another address is looked at again")
    }).pipe(Effect.scoped)
  )

  it.effect("and models are seen with any capability of the gateway, and with no other", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      for (const scope of ["llm:read", "llm:complete", "llm:embed", "llm:admin"]) {
        const { key } = yield* makeKey(service, [scope])
        for (const path of ["/api/llm/models", "/api/llm/health"]) {
          assert.strictEqual((yield* service.call("GET", path, { key })).status, 200, scope)
        }
      }
      const { key } = yield* makeKey(service, ["spend:read"])
      assertProblem(yield* service.call("GET", "/api/llm/models", { key }), 403, "forbidden")
    })
  )
})

layer(serviceLayer({ Llm__Gateway__AllowPrivateAddresses: "true" }), options)("providers in private networks", (it) => {
  it.effect("are tested as the cloud serves them that is asked for", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const vendor = yield* startProvider((_, response) => json(response, 200, { data: [{ id: "gpt-4o" }] }))
      const own = { dialect: "openai", baseUrl: vendor.url, apiKey: "azure-key", platform: "azure" }
      for (const body of [
        { ...own, baseUrl: `${vendor.url}/openai/v1` },
        { ...own, apiVersion: "2024-10-21" }
      ]) {
        const tested = yield* service.call("POST", test, { body })
        assert.deepInclude(tested.body, { ok: true, detail: "The provider lists 1 models." })
      }
      assert.deepStrictEqual(
        vendor.requests.map(({ headers, path }) => [path, headers["api-key"], headers.authorization]),
        [
          ["/openai/v1/models", "azure-key", undefined],
          ["/openai/models?api-version=2024-10-21", "azure-key", undefined]
        ]
      )
    }).pipe(Effect.scoped)
  )

  it.effect("are reached where the settings allow it, with the caller's own key", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider((_, response) => json(response, 200, { data: [{ id: "m" }] }))
      const body = { dialect: "anthropic", baseUrl: standIn.url, apiKey: "sk-of-the-caller" }
      const tested = yield* service.call("POST", test, { body })
      assert.deepInclude(tested.body, { ok: true, status: 200 })
      assert.notInclude(tested.text, "sk-of-the-caller")
      assert.strictEqual(standIn.requests[0]?.headers["x-api-key"], "sk-of-the-caller")
      standIn.answer = (_, response) => json(response, 401, { error: { message: "no" } })
      assert.deepInclude((yield* service.call("POST", test, { body })).body, { ok: false, status: 401 })
    }).pipe(Effect.scoped)
  )

  it.effect("list their models with what the catalogue knows of them by the name of the provider", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const vendor = yield* startProvider((_, response) =>
        json(response, 200, { data: [{ id: "gpt-4o" }, { id: "text-embedding-3-small" }, { id: "house-model" }] })
      )
      const token = yield* signIn(service, yield* makeAccount(service, ["llm:admin"]))
      const own = { dialect: "openai", baseUrl: vendor.url, apiKey: "sk-of-the-caller" }
      const known = yield* service.call("POST", list, bearer(token, { body: { ...own, id: "openai" } }))
      assert.strictEqual(known.status, 200, known.text)
      const [chat, embedding, house] = known.body
      assert.deepInclude(chat, { id: "gpt-4o", kind: "chat", contextTokens: 128_000 })
      assert.strictEqual(chat.prices.inputUsdPerMTok, 2.5)
      assert.deepInclude(embedding, { id: "text-embedding-3-small", kind: "embedding" })
      assert.deepInclude(house, { id: "house-model", kind: null, prices: null })
      const unknown = yield* service.call("POST", list, bearer(token, { body: { ...own, id: "other" } }))
      assert.deepInclude(unknown.body[0], { id: "gpt-4o", kind: null, prices: null })
      assert.notInclude(known.text, "sk-of-the-caller")
    }).pipe(Effect.scoped)
  )

  it.effect("serve what the catalogue knows, or the models of the configuration alone", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const vendor = yield* startProvider((_, response) => json(response, 200, { data: [] }))
      const openai = { id: "openai", dialect: "openai", baseUrl: vendor.url }
      const models = [{ id: "gpt-4o", kind: "chat", targets: [{ provider: "openai", model: "gpt-4o" }] }]
      const served = Effect.fnUntraced(function* (members: object) {
        const document = { providers: [{ ...openai, ...members }], models }
        assert.strictEqual((yield* service.call("PUT", "/api/llm/admin/config", { body: document })).status, 200)
        const { body } = yield* service.call("GET", "/api/llm/models")
        return body.map(({ id }) => id)
      })
      assert.include(yield* served({}), "gpt-4o-mini")
      assert.deepStrictEqual(yield* served({ catalogue: false }), ["loopback-1", "gpt-4o"])
      const { body } = yield* service.call("GET", "/api/llm/models")
      assert.isNotNull(body.find(({ id }) => id === "gpt-4o")?.prices)
      assert.include(yield* served({ catalogue: true }), "gpt-4o-mini")
    }).pipe(Effect.scoped)
  )
})
