import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import OpenAI from "openai"
import { CredentialAddresses } from "../../../../src/gateway/credentials/vendor-exchange.ts"
import { startCredentialVendors, withCredentialVendors } from "../../../support/credential-vendors.ts"
import { ask, configure, model, provider, readAll, spender } from "../../../support/gateway.ts"
import { holdStreams, type ProviderStandIn } from "../../../support/provider.ts"
import { serviceLayer, TestService } from "../../../support/service.ts"
import { said } from "../../../support/vendors.ts"
import { eventually } from "../../../support/waiting.ts"

let current: ProviderStandIn | undefined

const serviceWithVendors = serviceLayer().pipe(
  Layer.provide(
    Layer.succeed(
      CredentialAddresses,
      withCredentialVendors(() => current)
    )
  )
)

const openAi = { type: "federation", vendor: "openai", identityProviderId: "idp_1", serviceAccountId: "svc_1" }
const anthropic = {
  type: "federation",
  vendor: "anthropic",
  ruleId: "fdrl_1",
  organizationId: "org_1",
  serviceAccountId: "svac_1"
}
const entra = { type: "entra", tenantId: "tenant-1", clientId: "client-1" }

const audiences: Readonly<Record<string, string>> = {
  openai: "https://api.openai.com/v1",
  anthropic: "https://api.anthropic.com",
  openrouter: "https://openrouter.ai",
  entra: "api://AzureADTokenExchange"
}

const setting = (credential: object, membersOf: (standIn: ProviderStandIn) => object = () => ({})) =>
  Effect.gen(function* () {
    const service = yield* TestService
    const { body } = yield* service.call("GET", "/workload/.well-known/openid-configuration", { key: null })
    const vendors = yield* startCredentialVendors((vendor) => ({
      issuer: body.issuer,
      at: `${service.url}/workload`,
      audience: audiences[vendor] ?? "",
      subject: "provider:oa"
    }))
    current = vendors.standIn
    // Another credential first, so that nothing is held of an earlier test.
    yield* configure(service, [], [])
    const members = { credential, ...membersOf(vendors.standIn) }
    yield* configure(service, [provider("oa", vendors.standIn, members)], [model("gpt", ["oa"])])
    const { key } = yield* spender(service, [{ limit: 1 }])
    const calls = () => vendors.standIn.requests.filter(({ path }) => path.endsWith("/chat/completions"))
    return { ...vendors, calls, key, service }
  })

const asAnthropic = ({ url }: ProviderStandIn) => ({ dialect: "anthropic", baseUrl: url })

const healthOf = (service: TestService["Service"]) =>
  Effect.map(service.call("GET", "/api/llm/health"), ({ body, text }) => {
    const seen = body.providers.find(({ id }: { readonly id: string }) => id === "oa")
    return { text, status: body.status, seen, credential: seen.credential }
  })

layer(serviceWithVendors, { excludeTestServices: true, timeout: "60 seconds" })("credentials of providers", (it) => {
  it.effect("are exchanged for an assertion of the gateway's own issuer, once for all calls", () =>
    Effect.gen(function* () {
      const { calls, key, service, tokens } = yield* setting(openAi)
      const client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: key, maxRetries: 0 })
      const chat = () =>
        client.chat.completions.create({ model: "gpt", messages: [{ role: "user", content: "What time is it?" }] })
      const answers = yield* Effect.promise(() => Promise.all([chat(), chat(), chat()]))
      assert.deepStrictEqual(new Set(answers.map(({ choices }) => choices[0]?.message.content)).size, 1)
      assert.strictEqual(tokens.issued, 1)
      assert.lengthOf(calls(), 3)
      const [assertion] = tokens.assertions
      assert.strictEqual((assertion?.exp ?? 0) - (assertion?.iat ?? 0), 300)
      const health = yield* healthOf(service)
      assert.deepInclude(health.credential, { status: "valid", failures: 0, lastError: null })
      assert.notInclude(health.text, "vendor-token")
    }).pipe(Effect.scoped)
  )

  it.effect("are sent to Anthropic with its beta beside those of the caller", () =>
    Effect.gen(function* () {
      const { key, service, standIn, tokens } = yield* setting(anthropic, asAnthropic)
      const answer = standIn.answer
      standIn.answer = (request, response) => {
        if (!request.path.endsWith("/messages")) return answer(request, response)
        response.writeHead(200, { "content-type": "application/json" }).end(
          JSON.stringify({
            id: "msg_1",
            type: "message",
            role: "assistant",
            model: "gpt",
            content: [{ type: "text", text: "Noon." }],
            stop_reason: "end_turn",
            usage: { input_tokens: 3, output_tokens: 2 }
          })
        )
      }
      const headers = { "anthropic-beta": "context-1m-2025-08-07", "anthropic-version": "2023-06-01" }
      const body = { model: "gpt", max_tokens: 10, messages: [{ role: "user", content: "What time is it?" }] }
      const said = yield* service.call("POST", "/v1/messages", { key, body, headers })
      assert.strictEqual(said.status, 200, said.text)
      const sent = standIn.requests.find(({ path }) => path === "/v1/messages")
      assert.strictEqual(sent?.headers["anthropic-beta"], "context-1m-2025-08-07,oauth-2025-04-20")
      assert.match(sent?.headers.authorization ?? "", /^Bearer vendor-token-/)
      assert.isUndefined(sent?.headers["x-api-key"])
      assert.strictEqual(tokens.assertions.at(-1)?.aud, "https://api.anthropic.com")
    }).pipe(Effect.scoped)
  )

  it.effect("of OpenRouter are exchanged by a form", () =>
    Effect.gen(function* () {
      const { calls, key, service, tokens } = yield* setting({
        type: "federation",
        vendor: "openrouter",
        policyId: "policy-1"
      })
      const said = yield* ask(service, key)
      assert.strictEqual(said.status, 200, said.text)
      assert.lengthOf(calls(), 1)
      assert.lengthOf(tokens.assertions, 1)
    }).pipe(Effect.scoped)
  )

  it.effect("of Entra are for an application by its secret or its assertion, or for the machine", () =>
    Effect.gen(function* () {
      const identities = [
        { ...entra, secret: "a-secret-of-entra" },
        { ...entra, assertion: "issuer" },
        { type: "entra" }
      ]
      yield* Effect.forEach(identities, (credential) =>
        Effect.gen(function* () {
          const { calls, key, service, tokens } = yield* setting(credential)
          const said = yield* ask(service, key)
          assert.strictEqual(said.status, 200, said.text)
          assert.lengthOf(calls(), 1)
          assert.strictEqual(tokens.issued, 1)
          const { text } = yield* service.call("GET", "/api/llm/admin/config")
          assert.notInclude(text, "a-secret-of-entra")
        }).pipe(Effect.scoped)
      )
    })
  )

  it.effect("that the vendor refuses are named to operators and kept from callers", () =>
    Effect.gen(function* () {
      const { key, service } = yield* setting({ ...entra, secret: "another-secret-of-entra" })
      const said = yield* ask(service, key)
      assert.strictEqual(said.status, 502)
      assert.deepInclude(said.body.error, {
        code: "provider-credentials",
        message: "The provider oa failed: The gateway has no valid credential for the provider."
      })
      const { credential, seen, status, text } = yield* healthOf(service)
      assert.strictEqual(status, "degraded")
      assert.deepInclude(seen, {
        reachable: false,
        lastError: "The gateway has no valid credential for the provider."
      })
      assert.deepInclude(credential, {
        status: "failed",
        lastError: "login.microsoftonline.com answered 401 invalid_client AADSTS7000215",
        expiresAt: null
      })
      assert.notInclude(text, "another-secret-of-entra")
    }).pipe(Effect.scoped)
  )

  it.effect("that are refused as soon as they are issued are asked for no second time", () =>
    Effect.gen(function* () {
      const { calls, key, service, tokens } = yield* setting(openAi)
      assert.strictEqual((yield* ask(service, key)).status, 200)
      tokens.taken.clear()
      const refused = yield* ask(service, key)
      assert.strictEqual(refused.status, 502)
      assert.notInclude(refused.text, "vendor-token")
      assert.strictEqual(tokens.issued, 1)
      assert.lengthOf(calls(), 2)
    }).pipe(Effect.scoped)
  )

  it.effect("that are on their way when the configuration changes still serve the calls that wait for them", () =>
    Effect.gen(function* () {
      const { calls, key, service, standIn } = yield* setting(openAi)
      const answer = standIn.answer
      const held: Array<() => void> = []
      standIn.answer = (request, response) => {
        if (request.path === "/oauth/token") held.push(() => answer(request, response))
        else answer(request, response)
      }
      const waiting = yield* Effect.forkChild(ask(service, key))
      yield* eventually(
        Effect.sync(() => standIn.requests.length),
        (count) => count === 1
      )
      yield* configure(service, [], [])
      for (const release of held) release()
      assert.strictEqual((yield* Fiber.join(waiting)).status, 200)
      assert.lengthOf(calls(), 1)
    }).pipe(Effect.scoped)
  )

  it.effect("end while an answer is on its way: it is read to its end, and the next calls have one other", () =>
    Effect.gen(function* () {
      const identities = [
        [{ ...entra, secret: "a-secret-of-entra" }],
        [{ ...entra, assertion: "issuer" }],
        [openAi],
        [anthropic, asAnthropic]
      ] as const
      yield* Effect.forEach(identities, ([credential, members]) =>
        Effect.gen(function* () {
          const { key, service, standIn, tokens } = yield* setting(credential, members)
          const { began, release } = holdStreams(standIn)
          tokens.lifetime = 1
          const messages = [{ role: "user", content: "What time is it?" }]
          const streamed = yield* Effect.forkScoped(
            readAll(service, key, "/v1/chat/completions", { model: "gpt", messages, stream: true })
          )
          yield* Effect.promise(() => began)
          tokens.lifetime = 3600
          const [first = ""] = tokens.taken
          const before = yield* eventually(ask(service, key), () => tokens.issued > 1)
          assert.strictEqual(before.status, 200, before.text)
          tokens.taken.delete(first)
          const next = Array.from({ length: 3 }, () => ask(service, key))
          for (const { status, text } of yield* Effect.all(next, { concurrency: 3 })) {
            assert.strictEqual(status, 200, text)
          }
          assert.strictEqual(tokens.issued, 2)
          const calls = standIn.requests.filter(({ body }) => body?.messages !== undefined)
          assert.strictEqual(calls[0]?.headers.authorization, `Bearer ${first}`)
          for (const { headers } of calls.slice(-3)) assert.notStrictEqual(headers.authorization, `Bearer ${first}`)
          release()
          const { status, text } = yield* Fiber.join(streamed)
          assert.strictEqual(status, 200, text)
          assert.strictEqual(Array.from(text.matchAll(/"content":"([^"]*)"/g), ([, piece]) => piece).join(""), said)
          assert.include(text, "[DONE]")
          assert.notInclude(text, "error")
        }).pipe(Effect.scoped)
      )
    })
  )

  it.effect("go to the vendor's own hosts alone, and only operators configure them", () =>
    Effect.gen(function* () {
      const { service } = yield* setting(openAi)
      const elsewhere = ["https://api.openai.com.example.com/v1", "http://api.openai.com/v1", "https://example.com/v1"]
      for (const baseUrl of elsewhere) {
        const body = { providers: [{ id: "oa", dialect: "openai", baseUrl, credential: openAi }] }
        const written = yield* service.call("PUT", "/api/llm/admin/config", { body })
        assert.strictEqual(written.status, 400, written.text)
        assert.deepStrictEqual(written.body.errors[0].path, ["payload", "providers", 0, "baseUrl"])
      }
      const tested = yield* service.call("POST", "/api/llm/providers/test", {
        body: { dialect: "openai", baseUrl: current?.url, credential: openAi }
      })
      assert.strictEqual(tested.status, 400, tested.text)
      const both = {
        id: "oa",
        dialect: "openai",
        baseUrl: "https://api.openai.com/v1",
        apiKey: "k",
        credential: openAi
      }
      const written = yield* service.call("PUT", "/api/llm/admin/config", { body: { providers: [both] } })
      assert.strictEqual(written.status, 400)
    }).pipe(Effect.scoped)
  )

  it.effect("are no credentials here: no endpoint takes an assertion", () =>
    Effect.gen(function* () {
      const { key, service, standIn } = yield* setting(openAi)
      assert.strictEqual((yield* ask(service, key)).status, 200)
      const assertion = standIn.requests.find(({ path }) => path === "/oauth/token")?.body.subject_token
      const headers = { authorization: `Bearer ${assertion}` }
      for (const path of ["/v1/chat/completions", "/api/llm/complete"]) {
        const refused = yield* service.call("POST", path, { key: null, headers, body: { model: "gpt", messages: [] } })
        assert.strictEqual(refused.status, 401, refused.text)
      }
      const published = yield* service.call("GET", "/.well-known/jwks.json", { key: null })
      const attested = yield* service.call("GET", "/.well-known/attestation-keys.json", { key: null })
      const { body } = yield* service.call("GET", "/workload/jwks.json", { key: null })
      assert.deepInclude(body.keys[0], { alg: "RS256", kty: "RSA", use: "sig" })
      assert.notProperty(body.keys[0], "d")
      for (const { text } of [published, attested]) assert.notInclude(text, body.keys[0].kid)
    }).pipe(Effect.scoped)
  )
})
