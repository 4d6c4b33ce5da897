import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { charges, configure, model, provider, spender } from "../../support/gateway.ts"
import { json, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { anthropicVendor, openAiVendor } from "../../support/vendors.ts"

const context = "context-1m-2025-08-07"
const unknown = "context-9m-2027-01-01"
const harmless = "effort-2025-11-24"

const setUp = (caps: ReadonlyArray<object>, headers: object = {}) =>
  Effect.gen(function* () {
    const service = yield* TestService
    const anthropic = yield* startProvider(anthropicVendor)
    const openai = yield* startProvider(openAiVendor)
    yield* configure(
      service,
      [
        { id: "h-an", dialect: "anthropic", baseUrl: anthropic.url, headers },
        provider("h-oa", openai, { apiKey: "sk-own", headers })
      ],
      [model("claude", ["h-an"], { contextTokens: 10_000 }), model("gpt", ["h-oa"], { contextTokens: 10_000 })]
    )
    return { anthropic, openai, service, ...(yield* spender(service, caps)) }
  })

const question = [{ role: "user", content: "Hi" }]

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("headers", (it) => {
  it.effect("of a caller reach a provider by their names alone", () =>
    Effect.gen(function* () {
      const { anthropic, key, openai, service } = yield* setUp([])
      const headers = {
        "openai-organization": "org-other",
        "openai-project": "proj_other",
        "openai-beta": "responses=v1",
        "openai-safety-identifier": "other",
        "anthropic-version": "2023-06-01",
        "anthropic-beta": harmless,
        "anthropic-workspace-id": "wrkspc_other",
        "anthropic-user-profile-id": "uprof_other",
        "anthropic-organization-id": "org_other",
        "anthropic-dangerous-direct-browser-access": "true",
        "anthropic-anything": "else",
        "idempotency-key": crypto.randomUUID(),
        "x-api-version": "1",
        "x-organization-uuid": "other",
        "x-anthropic-additional-protection": "1",
        "x-stainless-lang": "js",
        "api-key": "other",
        "x-goog-api-key": "other",
        "x-goog-user-project": "other",
        cookie: "a=b"
      }
      for (const [path, request, standIn] of [
        ["/v1/messages", { model: "claude", max_tokens: 9, messages: question }, anthropic],
        ["/v1/messages?beta=true&thinking=more", { model: "claude", max_tokens: 9, messages: question }, anthropic],
        ["/v1/messages/count_tokens?beta=true", { model: "claude", messages: question }, anthropic],
        ["/v1/chat/completions", { model: "gpt", messages: question }, openai]
      ] as const) {
        const sent = { ...headers, "idempotency-key": crypto.randomUUID() }
        const answer = yield* service.call("POST", path, { key, headers: sent, body: request })
        assert.strictEqual(answer.status, 200, answer.text)
        const { headers: received, path: asked } = standIn.requests.at(-1) ?? assert.fail("none")
        assert.notInclude(asked, "?")
        const passed = Object.keys(received).filter((name) => Object.hasOwn(headers, name))
        assert.sameMembers(passed, ["openai-beta", "anthropic-version", "anthropic-beta"])
        assert.strictEqual(received["user-agent"], "node")
      }
    }).pipe(Effect.scoped)
  )

  it.effect("of a caller are those of the configuration where both have one, whatever its letters", () =>
    Effect.gen(function* () {
      const own = { "OpenAI-Project": "proj_own", "Anthropic-Beta": harmless, "anthropic-workspace-id": "wrkspc_own" }
      const { anthropic, key, openai, service } = yield* setUp([], own)
      const headers = { "openai-project": "other", "anthropic-beta": context, "anthropic-workspace-id": "other" }
      yield* service.call("POST", "/v1/messages", {
        key,
        headers,
        body: { model: "claude", max_tokens: 9, messages: question }
      })
      yield* service.call("POST", "/v1/chat/completions", { key, headers, body: { model: "gpt", messages: question } })
      for (const { requests } of [anthropic, openai]) {
        assert.deepInclude(requests.at(-1)?.headers, {
          "openai-project": "proj_own",
          "anthropic-beta": harmless,
          "anthropic-workspace-id": "wrkspc_own"
        })
      }
    }).pipe(Effect.scoped)
  )

  it.effect("of a provider reach a caller by their names alone", () =>
    Effect.gen(function* () {
      const { key, openai, service } = yield* setUp([])
      const passed = { "x-ratelimit-remaining-tokens": "5", "anthropic-ratelimit-input-tokens-limit": "7" }
      openai.answer = ({ path }, response) =>
        json(
          response,
          path.endsWith("/embeddings") ? 429 : 200,
          {
            choices: [{ message: { content: "Hi" }, finish_reason: "stop" }],
            usage: { prompt_tokens: 1, completion_tokens: 1 }
          },
          {
            ...passed,
            "openai-organization": "org-own",
            "openai-project": "proj_own",
            "openai-processing-ms": "5",
            "anthropic-organization-id": "org_own",
            "anthropic-workspace-id": "wrkspc_own",
            "anthropic-ratelimit-unified-5h-utilization": "0.9",
            "x-ratelimit-limit-project-tokens": "9",
            "x-ratelimit-limit-requests-own": "9",
            "set-cookie": "a=b"
          }
        )
      const answer = yield* service.call("POST", "/v1/chat/completions", {
        key,
        body: { model: "gpt", messages: question }
      })
      assert.strictEqual(answer.status, 200)
      const names = [...answer.headers.keys()].filter((name) => /openai|anthropic|ratelimit|cookie/.test(name))
      assert.sameMembers(names, Object.keys(passed))
    }).pipe(Effect.scoped)
  )

  it.effect("with betas are cut to what has a bound, under a hard cap alone", () =>
    Effect.gen(function* () {
      const { anthropic, key, service } = yield* setUp([{ limit: 5 }])
      const ask = (by: string, beta: string, body: object = {}) =>
        service.call("POST", "/v1/messages", {
          key: by,
          headers: { "anthropic-beta": beta },
          body: { model: "claude", max_tokens: 9, messages: question, ...body }
        })
      const capped = yield* ask(key, `${harmless},${unknown},fast-mode-2026-02-01`)
      assert.strictEqual(capped.status, 200, capped.text)
      assert.strictEqual(capped.headers.get("x-omitted-betas"), `${unknown}, fast-mode-2026-02-01`)
      assert.strictEqual(anthropic.requests.at(-1)?.headers["anthropic-beta"], harmless)
      yield* ask(key, unknown)
      assert.isUndefined(anthropic.requests.at(-1)?.headers["anthropic-beta"])
      const { key: soft } = yield* spender(service, [{ limit: 0.000001, mode: "soft" }])
      const { key: free } = yield* spender(service, [])
      for (const by of [soft, free]) {
        const uncapped = yield* ask(by, `${harmless},${unknown}`)
        assert.strictEqual(uncapped.status, 200, uncapped.text)
        assert.isNull(uncapped.headers.get("x-omitted-betas"))
        assert.strictEqual(anthropic.requests.at(-1)?.headers["anthropic-beta"], `${harmless},${unknown}`)
      }
      // An error says what the call went without.
      anthropic.answer = (_, response) =>
        json(response, 400, { type: "error", error: { type: "invalid_request_error", message: "No." } })
      const refused = yield* ask(key, unknown)
      assert.deepStrictEqual([refused.status, refused.headers.get("x-omitted-betas")], [400, unknown])
    }).pipe(Effect.scoped)
  )

  it.effect("with betas are read from a request's members too", () =>
    Effect.gen(function* () {
      const { anthropic, key, openai, service } = yield* setUp([{ limit: 5 }])
      const body = { model: "claude", max_tokens: 9, messages: question }
      const answer = yield* service.call("POST", "/v1/messages", {
        key,
        headers: { "anthropic-beta": "pdfs-2024-09-25" },
        body: { betas: [harmless, unknown], ...body, anthropic_beta: [context] }
      })
      assert.strictEqual(answer.status, 200, answer.text)
      assert.deepStrictEqual(anthropic.requests.at(-1)?.body, body)
      assert.strictEqual(anthropic.requests.at(-1)?.headers["anthropic-beta"], `pdfs-2024-09-25,${harmless},${context}`)
      assert.strictEqual(answer.headers.get("x-omitted-betas"), unknown)
      const chat = yield* service.call("POST", "/v1/chat/completions", {
        key,
        body: { model: "gpt", max_tokens: 9, messages: question, betas: ["responses=v1", "other=v1"] }
      })
      assert.strictEqual(chat.headers.get("x-omitted-betas"), "other=v1")
      assert.strictEqual(openai.requests.at(-1)?.headers["openai-beta"], "responses=v1")
      assert.isUndefined(openai.requests.at(-1)?.body.betas)
      for (const betas of ["x", [7], ["a b"], Array.from({ length: 101 }, () => "a")]) {
        const refused = yield* service.call("POST", "/v1/messages", { key, body: { ...body, betas } })
        assert.strictEqual(refused.status, 400)
      }
      for (const spelled of ["Betas", "anthropic_Beta"]) {
        const refused = yield* service.call("POST", "/v1/messages", { key, body: { ...body, [spelled]: [context] } })
        assert.strictEqual(refused.status, 400, spelled)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("with a wider window hold what is read with it", () =>
    Effect.gen(function* () {
      // 50,000 tokens at 2 dollars per million are 0.10 dollars, 10,000 of them 0.02.
      const { anthropic, key, service, tenantId } = yield* setUp([{ limit: 0.05 }])
      anthropic.answer = ({ path }, response) =>
        path.endsWith("/count_tokens")
          ? json(response, 400, { type: "error", error: { type: "invalid_request_error", message: "No." } })
          : json(response, 200, {
              id: "msg_1",
              content: [{ type: "text", text: "Hi" }],
              stop_reason: "end_turn",
              usage: { input_tokens: 9000, output_tokens: 1 }
            })
      const long = { model: "claude", max_tokens: 9, messages: [{ role: "user", content: "word ".repeat(10_000) }] }
      const wide = yield* service.call("POST", "/v1/messages", {
        key,
        headers: { "anthropic-beta": context },
        body: long
      })
      assert.strictEqual(wide.status, 402, wide.text)
      const inBody = yield* service.call("POST", "/v1/messages", { key, body: { ...long, betas: [context] } })
      assert.strictEqual(inBody.status, 402, inBody.text)
      assert.isEmpty(anthropic.requests.filter(({ path }) => path === "/v1/messages"))
      const usual = yield* service.call("POST", "/v1/messages", {
        key,
        headers: { "anthropic-beta": unknown },
        body: long
      })
      assert.strictEqual(usual.status, 200, usual.text)
      assert.lengthOf(yield* charges(service, tenantId), 1)
    }).pipe(Effect.scoped)
  )

  it.effect("that interleave thoughts hold a budget for them that is larger than the limit", () =>
    Effect.gen(function* () {
      // 4,000 tokens at 10 dollars per million are 0.04 dollars.
      const { anthropic, key, service } = yield* setUp([{ limit: 0.03 }])
      const body = { model: "claude", max_tokens: 1000, messages: question }
      const ask = (budget_tokens: number) =>
        service.call("POST", "/v1/messages", {
          key,
          headers: { "anthropic-beta": "interleaved-thinking-2025-05-14" },
          body: { ...body, thinking: { type: "enabled", budget_tokens } }
        })
      assert.strictEqual((yield* ask(3000)).status, 402)
      const sent = () => anthropic.requests.filter(({ path }) => path === "/v1/messages")
      assert.isEmpty(sent())
      yield* ask(999)
      assert.lengthOf(sent(), 1)
    }).pipe(Effect.scoped)
  )
})
