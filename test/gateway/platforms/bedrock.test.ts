import Anthropic from "@anthropic-ai/sdk"
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, Layer } from "effect"
import * as jose from "jose"
import { CredentialAddresses } from "../../../src/gateway/credentials/vendor-exchange.ts"
import { bearerKey, environmentKeys, exceptionFrame, externalId, role, startAws } from "../../support/aws-vendor.ts"
import { withCredentialVendors } from "../../support/credential-vendors.ts"
import { asks, configure, costNanoUsd, model, readAll, spender } from "../../support/gateway.ts"
import { holdStreams, type ProviderStandIn } from "../../support/provider.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { said } from "../../support/vendors.ts"
import { eventually } from "../../support/waiting.ts"

let current: ProviderStandIn | undefined

const serviceWithAws = serviceLayer().pipe(
  Layer.provide(
    Layer.succeed(
      CredentialAddresses,
      withCredentialVendors(() => current)
    )
  )
)

const claude = "us.anthropic.claude-sonnet-5-v1:0"
const arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/a1b2c3"
const aws = { type: "aws", region: "us-east-1" }
const invoke = { dialect: "anthropic", surface: "invoke", credential: aws }
const native = { dialect: "anthropic", credential: aws, path: "/anthropic" }
const openAi = { dialect: "openai", credential: aws, path: "/openai/v1" }

const names = ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"].concat([
  "AWS_CONTAINER_CREDENTIALS_FULL_URI",
  "AWS_CONTAINER_AUTHORIZATION_TOKEN"
])

/** The process's environment for a test, and as it was after it. */
const withEnvironment = (variables: Readonly<Record<string, string>>) =>
  Effect.acquireRelease(
    Effect.sync(() => {
      const before = names.map((name) => [name, process.env[name]] as const)
      for (const name of names) delete process.env[name]
      Object.assign(process.env, variables)
      return before
    }),
    (before) =>
      Effect.sync(() => {
        for (const [name, value] of before) {
          if (value === undefined) delete process.env[name]
          else process.env[name] = value
        }
      })
  )

const staticKeys = {
  AWS_ACCESS_KEY_ID: environmentKeys.accessKeyId,
  AWS_SECRET_ACCESS_KEY: environmentKeys.secretAccessKey
}
const containerKeys = {
  AWS_CONTAINER_CREDENTIALS_FULL_URI: "http://127.0.0.1/v2/credentials/1",
  AWS_CONTAINER_AUTHORIZATION_TOKEN: "container-token"
}

const setting = Effect.fnUntraced(function* (
  { path = "", ...members }: { readonly path?: string; readonly [member: string]: unknown },
  environment: Readonly<Record<string, string>> = staticKeys,
  name = claude
) {
  yield* withEnvironment(environment)
  const service = yield* TestService
  const { body: found } = yield* service.call("GET", "/workload/.well-known/openid-configuration", { key: null })
  const vendor = yield* startAws({
    keys: jose.createRemoteJWKSet(new URL(`${service.url}/workload/jwks.json`)),
    issuer: found.issuer,
    subject: "provider:aws"
  })
  const { standIn } = vendor
  current = standIn
  // Another document first, so that nothing is held of an earlier test.
  yield* configure(service, [], [])
  const provider = { id: "aws", platform: "bedrock", baseUrl: `${standIn.url}${path}`, ...members }
  const targets = [{ provider: "aws", model: name }]
  yield* configure(service, [provider], [model("claude", ["aws"], { targets })])
  const { key } = yield* spender(service, [{ limit: 1 }])
  const calls = () => standIn.requests.filter(({ method, path }) => method === "POST" && path !== "/")
  return { ...vendor, calls, key, service }
})

const message = { model: "claude", max_tokens: 100 }
const chat = { model: "claude" }

const question = [{ role: "user", content: "What time is it?" }]

layer(serviceWithAws, { excludeTestServices: true, timeout: "60 seconds" })("Bedrock", (it) => {
  it.effect("is invoked with the model in the path, and its frames reach clients of Anthropic as events", () =>
    Effect.gen(function* () {
      const { calls, key, service, state } = yield* setting(invoke)
      const client = new Anthropic({ baseURL: service.url, apiKey: key, maxRetries: 0 })
      const asked = {
        ...message,
        messages: [{ role: "user", content: "What time is it?" }]
      } satisfies Anthropic.MessageCreateParams
      const whole = yield* Effect.promise(() => client.messages.create(asked))
      assert.deepInclude(whole.content[0], { type: "text", text: said })
      state.cut = (bytes) => Array.from(bytes, (_, at) => bytes.subarray(at, at + 1))
      const streamed = yield* Effect.promise(() => client.messages.stream(asked).finalMessage())
      assert.deepStrictEqual(streamed.content, whole.content)
      assert.deepStrictEqual(
        calls().map(({ path }) => path),
        [
          "/model/us.anthropic.claude-sonnet-5-v1%3A0/invoke",
          "/model/us.anthropic.claude-sonnet-5-v1%3A0/invoke-with-response-stream"
        ]
      )
      for (const { body, headers } of calls()) {
        assert.hasAllKeys(body, ["anthropic_version", "max_tokens", "messages"])
        assert.strictEqual(body.anthropic_version, "2026-10-21")
        assert.notProperty(headers, "anthropic-version")
      }
      const first = yield* asks(service, key, "/v1/chat/completions", chat)
      assert.strictEqual(first.status, 200, first.text)
      assert.strictEqual(calls().at(-1)?.body.anthropic_version, "bedrock-2023-05-31")
    }).pipe(Effect.scoped)
  )

  it.effect("answers every format by each of its surfaces, and is charged alike", () =>
    Effect.gen(function* () {
      for (const surface of [invoke, native, openAi]) {
        const { calls, key, service } = yield* setting(surface)
        for (const [path, body] of [
          ["/v1/chat/completions", chat],
          ["/v1/messages", message]
        ] as const) {
          const answered = yield* asks(service, key, path, body)
          assert.strictEqual(answered.status, 200, answered.text)
          assert.strictEqual(answered.headers.get("x-cost-usd"), String(costNanoUsd / 1e9))
          assert.include(answered.text, said)
          const streamed = yield* readAll(service, key, path, { ...body, messages: question, stream: true })
          assert.strictEqual(streamed.status, 200, streamed.text)
          assert.include(streamed.text, "Oslo.")
        }
        assert.lengthOf(calls(), 4)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("gets the betas of a call in its body, and headers of callers spoil no signature", () =>
    Effect.gen(function* () {
      const { calls, key, service } = yield* setting(invoke, staticKeys, arn)
      const headers = {
        "anthropic-beta": "context-1m-2025-08-07, interleaved-thinking-2025-05-14",
        "user-agent": "an  agent \u00e9",
        accept: "text/html ,  */*"
      }
      const body = { ...message, messages: [{ role: "user", content: "Wie spät ist es? \u{1F550}" }] }
      const { status, text } = yield* service.call("POST", "/v1/messages", { key, body, headers })
      assert.strictEqual(status, 200, text)
      const [sent] = calls()
      assert(sent !== undefined)
      assert.strictEqual(
        sent.path,
        "/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fa1b2c3/invoke"
      )
      assert.deepStrictEqual(sent.body.anthropic_beta, ["context-1m-2025-08-07", "interleaved-thinking-2025-05-14"])
      assert.notProperty(sent.headers, "anthropic-beta")
    }).pipe(Effect.scoped)
  )

  it.effect("takes keys of a role for an assertion of the gateway's own issuer, once for all calls", () =>
    Effect.gen(function* () {
      const credential = { ...aws, roleArn: role, assertion: "issuer" }
      const { calls, key, service, state } = yield* setting({ ...invoke, credential }, {})
      const answers = yield* Effect.all(
        Array.from({ length: 3 }, () => asks(service, key, "/v1/messages", message)),
        { concurrency: "unbounded" }
      )
      for (const { status, text } of answers) assert.strictEqual(status, 200, text)
      assert.strictEqual(state.issued, 1)
      assert.lengthOf(calls(), 3)
    }).pipe(Effect.scoped)
  )

  it.effect("takes an API key of its own on every surface", () =>
    Effect.gen(function* () {
      for (const { credential: _, ...surface } of [invoke, native, openAi]) {
        const { calls, key, service } = yield* setting({ ...surface, apiKey: bearerKey }, {})
        const answered = yield* asks(service, key, "/v1/messages", message)
        assert.strictEqual(answered.status, 200, answered.text)
        assert.strictEqual(calls()[0]?.headers.authorization, `Bearer ${bearerKey}`)
        assert.notProperty(calls()[0]?.headers, "x-api-key")
      }
    }).pipe(Effect.scoped)
  )

  it.effect("refuses keys that have expired meanwhile: others are obtained, and the call is sent once more", () =>
    Effect.gen(function* () {
      const { calls, key, service, state } = yield* setting(invoke, containerKeys)
      assert.strictEqual((yield* asks(service, key, "/v1/messages", message)).status, 200)
      const [first] = [...state.keys.values()].slice(-1)
      assert.strictEqual(state.issued, 1)
      // As it is after a few seconds: what was refused at once would be refused again.
      state.ahead = 200_000
      if (first !== undefined) state.keys.set(first.accessKeyId, { ...first, expiresAt: Date.now() })
      const tooYoung = yield* asks(service, key, "/v1/messages", message)
      assert.strictEqual(tooYoung.status, 502)
      assert.strictEqual(state.issued, 1)
      assert.lengthOf(calls(), 2)
    }).pipe(Effect.scoped)
  )

  it.effect(
    "goes on with an answer whose keys end meanwhile, signed and of a session; the next calls have others",
    () =>
      Effect.gen(function* () {
        const identities = [
          [native, containerKeys],
          [{ ...native, credential: { ...aws, roleArn: role, assertion: "issuer" } }, {}],
          [{ ...openAi, credential: { ...aws, roleArn: role, externalId } }, staticKeys]
        ] as const
        yield* Effect.forEach(identities, ([members, environment]) =>
          Effect.gen(function* () {
            const { calls, key, service, standIn, state } = yield* setting(members, environment)
            const { began, release } = holdStreams(standIn)
            state.lifetime = 3
            const streamed = yield* Effect.forkScoped(
              readAll(service, key, "/v1/chat/completions", { ...chat, messages: question, stream: true })
            )
            yield* Effect.promise(() => began)
            state.lifetime = 3600
            const [first] = [...state.keys.values()].slice(-1)
            const ask = asks(service, key, "/v1/messages", message)
            const before = yield* eventually(ask, () => state.issued > 1)
            assert.strictEqual(before.status, 200, before.text)
            if (first !== undefined) state.keys.set(first.accessKeyId, { ...first, expiresAt: Date.now() })
            for (const { status, text } of yield* Effect.all([ask, ask, ask], { concurrency: 3 })) {
              assert.strictEqual(status, 200, text)
            }
            assert.strictEqual(state.issued, 2)
            const sessions = calls().map(({ headers }) => headers["x-amz-security-token"])
            assert.strictEqual(sessions[0], first?.sessionToken)
            for (const session of sessions.slice(-3)) assert.notStrictEqual(session, first?.sessionToken)
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

  it.effect("is not asked again where it denies access, and neither callers nor operators read a secret", () =>
    Effect.gen(function* () {
      const { calls, key, service, state } = yield* setting(invoke, containerKeys)
      const denied = "You don't have access to the model with the specified model ID."
      state.refusal = { status: 403, code: "AccessDeniedException", message: denied }
      const refused = yield* asks(service, key, "/v1/messages", message)
      assert.strictEqual(refused.status, 502)
      assert.lengthOf(calls(), 1)
      assert.strictEqual(state.issued, 1)
      const health = yield* service.call("GET", "/api/llm/health")
      assert.deepInclude(health.body.providers.find(({ id }: { readonly id: string }) => id === "aws").credential, {
        status: "valid",
        failures: 0
      })
      for (const text of [refused.text, health.text]) {
        for (const { secretAccessKey, sessionToken = secretAccessKey } of state.keys.values()) {
          assert.notInclude(text, secretAccessKey)
          assert.notInclude(text, sessionToken)
        }
      }
    }).pipe(Effect.scoped)
  )

  it.effect("sets the clock of signatures once by its own, and fails clearly where that is not enough", () =>
    Effect.gen(function* () {
      const { calls, key, service, state } = yield* setting(invoke)
      state.ahead = 600_000
      assert.strictEqual((yield* asks(service, key, "/v1/messages", message)).status, 200)
      assert.lengthOf(calls(), 2)
      assert.strictEqual((yield* asks(service, key, "/v1/messages", message)).status, 200)
      assert.lengthOf(calls(), 3)
      state.keys.set(environmentKeys.accessKeyId, { ...environmentKeys, secretAccessKey: "another" })
      const refused = yield* asks(service, key, "/v1/messages", message)
      assert.strictEqual(refused.status, 502)
      assert.include(refused.text, "refuses the gateway's key")
      assert.lengthOf(calls(), 4)
    }).pipe(Effect.scoped)
  )

  it.effect("has its errors in the form and with the status of the caller's dialect", () =>
    Effect.gen(function* () {
      const { key, service, state } = yield* setting(invoke)
      const cases = [
        ["ThrottlingException", 429, 429, "rate_limit_error", 429, "rate_limit_error"],
        ["ModelNotReadyException", 429, 429, "rate_limit_error", 429, "rate_limit_error"],
        ["ServiceQuotaExceededException", 400, 429, "rate_limit_error", 429, "rate_limit_error"],
        ["ModelTimeoutException", 408, 504, "timeout_error", 504, "server_error"],
        ["ModelErrorException", 424, 500, "api_error", 500, "server_error"],
        ["ServiceUnavailableException", 503, 529, "overloaded_error", 503, "server_error"],
        ["ValidationException", 400, 400, "invalid_request_error", 400, "invalid_request_error"],
        ["ResourceNotFoundException", 404, 404, "not_found_error", 404, "invalid_request_error"]
      ] as const
      for (const [code, status, anthropicStatus, anthropicType, openAiStatus, openAiType] of cases) {
        state.refusal = { code, status, message: `The ${code} of a test` }
        const anthropic = yield* asks(service, key, "/v1/messages", message)
        assert.strictEqual(anthropic.body.error.type, anthropicType)
        assert.include(anthropic.body.error.message, `The ${code} of a test`)
        assert.strictEqual(anthropic.status, anthropicStatus)
        const openai = yield* asks(service, key, "/v1/chat/completions", chat)
        assert.strictEqual(openai.status, openAiStatus)
        assert.strictEqual(openai.body.error.type, openAiType)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("ends a stream with an error event where a frame is an exception or is damaged", () =>
    Effect.gen(function* () {
      const { key, service, state } = yield* setting(invoke)
      const body = { ...message, messages: question, stream: true }
      const exception = exceptionFrame("throttlingException", "Too many tokens")
      state.frames = (frames) => [...frames.slice(0, 5), exception]
      const thrown = yield* readAll(service, key, "/v1/messages", body)
      assert.strictEqual(thrown.status, 200)
      assert.match(thrown.text, /event: error\ndata: .*"type":"rate_limit_error","message":"Too many tokens"/)
      state.frames = () => [exception]
      const refused = yield* readAll(service, key, "/v1/messages", body)
      assert.strictEqual(refused.status, 429, refused.text)
      const damaged = Buffer.from(exception)
      damaged[20] = (damaged[20] ?? 0) ^ 1
      state.frames = (frames) => [...frames.slice(0, 5), damaged]
      const broken = yield* readAll(service, key, "/v1/messages", body)
      assert.match(broken.text, /event: error\ndata: .*The provider.s stream is damaged/)
      state.frames = (frames) => [...frames.slice(0, 5), exception.subarray(0, 30)]
      const cut = yield* readAll(service, key, "/v1/messages", body)
      assert.match(cut.text, /event: error\ndata: /)
    }).pipe(Effect.scoped)
  )

  it.effect("counts no tokens by these paths: the gateway estimates them", () =>
    Effect.gen(function* () {
      const { calls, key, service } = yield* setting(invoke)
      const counted = yield* asks(service, key, "/v1/messages/count_tokens", { model: "claude" })
      assert.strictEqual(counted.status, 200, counted.text)
      assert.isAbove(counted.body.input_tokens, 0)
      assert.lengthOf(calls(), 0)
    }).pipe(Effect.scoped)
  )

  it.effect("lists models for OpenAI's dialect; for Anthropic's it is not asked, and not known to be away", () =>
    Effect.gen(function* () {
      for (const [surface, reachable] of [
        [openAi, true],
        [invoke, null],
        [native, null]
      ] as const) {
        const { service, standIn } = yield* setting(surface)
        const { body } = yield* service.call("GET", "/api/llm/health")
        const { reachable: found } = body.providers.find(({ id }: { readonly id: string }) => id === "aws")
        assert.strictEqual(found, reachable)
        assert.strictEqual(body.status, "healthy")
        assert.lengthOf(standIn.requests, reachable === true ? 1 : 0)
      }
    }).pipe(Effect.scoped)
  )

  it.effect("is signed for at AWS's own hosts of models alone", () =>
    Effect.gen(function* () {
      const { service } = yield* setting(invoke)
      const write = (members: object) =>
        service.call("PUT", "/api/llm/admin/config", {
          body: { providers: [{ id: "aws", platform: "bedrock", dialect: "anthropic", credential: aws, ...members }] }
        })
      const elsewhere = [
        "http://bedrock-runtime.us-east-1.amazonaws.com",
        "https://bedrock-runtime.us-east-1.amazonaws.com:8443",
        "https://bedrock-runtime.us-east-1.amazonaws.com.example.com",
        "https://a-bucket.s3.us-east-1.amazonaws.com",
        "https://abc.execute-api.us-east-1.amazonaws.com",
        "https://ec2-1-2-3-4.compute-1.amazonaws.com",
        "https://bedrock-runtime.us-east-1.example.com",
        "https://example.com"
      ]
      for (const baseUrl of elsewhere) {
        const written = yield* write({ baseUrl })
        assert.strictEqual(written.status, 400, baseUrl)
        assert.deepStrictEqual(written.body.errors[0].path, ["payload", "providers", 0, "baseUrl"])
      }
      const hosts = [
        "https://bedrock-runtime.us-east-1.amazonaws.com/anthropic",
        "https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com/anthropic",
        "https://bedrock-runtime.cn-north-1.amazonaws.com.cn/anthropic",
        "https://vpce-0a1b-2c3d.bedrock-runtime.eu-central-1.vpce.amazonaws.com/anthropic",
        "https://bedrock-mantle.ap-southeast-2.api.aws/anthropic",
        "https://aws-external-anthropic.us-west-2.api.aws"
      ]
      for (const baseUrl of hosts) assert.strictEqual((yield* write({ baseUrl })).status, 200, baseUrl)
      const baseUrl = hosts[0]
      const faults = [
        [{ credential: { type: "aws", externalId: "gateway-1" } }, ["credential", "externalId"]],
        [{ surface: "invoke", dialect: "openai" }, ["surface"]],
        [{ credential: { type: "aws", roleArn: "bedrock" } }, ["credential", "roleArn"]]
      ] as const
      for (const [members, path] of faults) {
        const written = yield* write({ baseUrl, ...members })
        assert.strictEqual(written.status, 400, written.text)
        assert.deepStrictEqual(written.body.errors[0].path, ["payload", "providers", 0, ...path], written.text)
      }
      const tested = yield* service.call("POST", "/api/llm/providers/test", {
        body: { dialect: "anthropic", baseUrl: current?.url, credential: aws }
      })
      assert.strictEqual(tested.status, 400, tested.text)
      yield* configure(service, [], [])
    }).pipe(Effect.scoped)
  )
})
