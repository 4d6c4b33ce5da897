import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, layer } from "@effect/vitest"
import { Effect, Fiber, FileSystem, Layer } from "effect"
import { mkdtempSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { CredentialAddresses } from "../../../../src/gateway/credentials/vendor-exchange.ts"
import { configure, model, provider, readAll, spender } from "../../../support/gateway.ts"
import {
  accountEmail,
  fileToken,
  type GoogleCloud,
  otherEmail,
  poolProvider,
  startGoogleCloud,
  withGoogleCloud
} from "../../../support/google-cloud.ts"
import { serviceLayer, TestService } from "../../../support/service.ts"
import { said } from "../../../support/vendors.ts"

let current: GoogleCloud | undefined

const directory = mkdtempSync(join(tmpdir(), "google-credentials-"))

const serviceAtGoogle = serviceLayer({ Llm__SecretsDirectory: directory }).pipe(
  Layer.provide(
    Layer.succeed(
      CredentialAddresses,
      withGoogleCloud(() => current?.standIn)
    )
  ),
  Layer.merge(NodeFileSystem.layer)
)

const place = { platform: "vertex", project: "my-project", region: "us-central1" }

const setting = (credential: object, files: Readonly<Record<string, object | string>> = {}) =>
  Effect.gen(function* () {
    const service = yield* TestService
    const system = yield* FileSystem.FileSystem
    const cloud = yield* startGoogleCloud
    current = cloud
    const { body } = yield* service.call("GET", "/workload/.well-known/openid-configuration", { key: null })
    cloud.issuer = { issuer: body.issuer, at: `${service.url}/workload` }
    for (const [name, content] of Object.entries({ "vertex.json": cloud.keyFile, ...files })) {
      yield* system.writeFileString(
        join(directory, name),
        typeof content === "string" ? content : JSON.stringify(content)
      )
    }
    yield* configure(service, [], [])
    const members = { dialect: "gemini", baseUrl: cloud.standIn.url, credential: { type: "google", ...credential } }
    yield* configure(service, [provider("vx", cloud.standIn, { ...place, ...members })], [model("gemini-x", ["vx"])])
    const { key } = yield* spender(service, [{ limit: 1 }])
    const ask = service.call("POST", "/v1beta/models/gemini-x:generateContent", {
      key,
      body: { contents: [{ role: "user", parts: [{ text: "What time is it?" }] }] }
    })
    const health = Effect.map(
      service.call("GET", "/api/llm/health"),
      ({ body }) => body.providers.find(({ id }: { readonly id: string }) => id === "vx").credential
    )
    return { ask, cloud, health, key, service }
  })

const externalAccount = (members: object) => ({
  type: "external_account",
  audience: poolProvider,
  subject_token_type: "urn:ietf:params:oauth:token-type:jwt",
  token_url: "https://sts.googleapis.com/v1/token",
  credential_source: { file: join(directory, "subject") },
  ...members
})

const event = (text: string, finishReason?: string) =>
  `data: ${JSON.stringify({
    candidates: [{ content: { role: "model", parts: [{ text }] }, finishReason }],
    usageMetadata: { promptTokenCount: 10, candidatesTokenCount: 2, totalTokenCount: 12 }
  })}\n\n`

const impersonation = `https://iamcredentials.googleapis.com/v1/projects/-/serviceAccounts/${otherEmail}:generateAccessToken`

layer(serviceAtGoogle, { excludeTestServices: true, timeout: "60 seconds" })("credentials of Google Cloud", (it) => {
  it.effect("are those of a key file, of a pool that trusts the gateway's issuer or a file, or of the machine", () =>
    Effect.gen(function* () {
      const identities: ReadonlyArray<readonly [object, Record<string, object | string>, ReadonlyArray<string>]> = [
        [{ keyFile: "file:vertex.json" }, {}, [accountEmail]],
        [{ keyFile: "file:vertex.json", impersonate: otherEmail }, {}, [accountEmail, otherEmail]],
        [{ audience: poolProvider }, {}, ["federated"]],
        [{ audience: poolProvider, impersonate: otherEmail }, {}, ["federated", otherEmail]],
        [{ keyFile: "file:pool.json" }, { "pool.json": externalAccount({}), subject: `${fileToken}\n` }, ["federated"]],
        [
          { keyFile: "file:pool.json" },
          {
            "pool.json": externalAccount({
              service_account_impersonation_url: impersonation,
              credential_source: {
                file: join(directory, "subject"),
                format: { type: "json", subject_token_field_name: "access_token" }
              }
            }),
            subject: { access_token: fileToken }
          },
          ["federated", otherEmail]
        ],
        [{}, {}, ["machine"]]
      ]
      yield* Effect.forEach(identities, ([credential, files, issued]) =>
        Effect.gen(function* () {
          const { ask, cloud, health } = yield* setting(credential, files)
          const answers = yield* Effect.all([ask, ask, ask], { concurrency: 3 })
          for (const answer of answers) {
            assert.strictEqual(answer.status, 200, answer.text)
            assert.strictEqual(answer.body.candidates[0].content.parts[0].text, said)
          }
          assert.deepStrictEqual(cloud.issued, issued)
          assert.deepInclude(yield* health, { status: "valid", failures: 0 })
        }).pipe(Effect.scoped)
      )
    })
  )

  it.effect("open Vertex AI to every client: Gemini's, Anthropic's and OpenAI's models, whole and streamed", () =>
    Effect.gen(function* () {
      const { cloud, key, service } = yield* setting({ keyFile: "file:vertex.json" })
      const at = (id: string, dialect: string) =>
        provider(id, cloud.standIn, {
          ...place,
          dialect,
          baseUrl: cloud.standIn.url,
          credential: { type: "google", keyFile: "file:vertex.json" }
        })
      const providers = [at("vx-gemini", "gemini"), at("vx-claude", "anthropic"), at("vx-open", "openai")]
      yield* configure(service, providers, [
        model("gemini-x", ["vx-gemini"]),
        model("claude-x", ["vx-claude"], { targets: [{ provider: "vx-claude", model: "claude-opus-4-5@20251101" }] }),
        model("open-x", ["vx-open"]),
        model("vectors", ["vx-gemini"], {
          kind: "embedding",
          targets: [{ provider: "vx-gemini", model: "text-embedding-005" }]
        })
      ])
      const chat = { messages: [{ role: "user", content: "What time is it?" }] }
      for (const name of ["gemini-x", "claude-x", "open-x"]) {
        for (const stream of [false, true]) {
          const answer = yield* readAll(service, key, "/v1/chat/completions", { model: name, ...chat, stream })
          assert.strictEqual(answer.status, 200, answer.text)
          const text = stream
            ? Array.from(answer.text.matchAll(/"content":"([^"]*)"/g), ([, piece]) => piece).join("")
            : (JSON.parse(answer.text) as { choices: ReadonlyArray<{ message: { content: string } }> }).choices[0]
                ?.message.content
          assert.strictEqual(text, said, `${name}, ${stream}`)
        }
      }
      const headers = { "anthropic-version": "2023-06-01", "anthropic-beta": "context-1m-2025-08-07" }
      const claude = { model: "claude-x", max_tokens: 50, ...chat }
      const whole = yield* service.call("POST", "/v1/messages", { key, headers, body: claude })
      assert.strictEqual(whole.body.content[0].text, said, whole.text)
      const counted = yield* service.call("POST", "/v1/messages/count_tokens", {
        key,
        headers,
        body: { model: "claude-x", ...chat }
      })
      assert.deepStrictEqual(counted.body, { input_tokens: 42 })
      const contents = { contents: [{ role: "user", parts: [{ text: "a" }] }] }
      const tokens = yield* service.call("POST", "/v1beta/models/gemini-x:countTokens", { key, body: contents })
      assert.strictEqual(tokens.body.totalTokens, 42, tokens.text)
      const streamed = yield* readAll(service, key, "/v1beta/models/gemini-x:streamGenerateContent?alt=sse", contents)
      assert.include(streamed.text, said.slice(5))
      const vectors = yield* service.call("POST", "/v1/embeddings", {
        key,
        body: { model: "vectors", input: ["a", "bc"] }
      })
      assert.deepStrictEqual(
        [
          vectors.status,
          vectors.body.data?.map(({ embedding }: { readonly embedding: unknown }) => embedding),
          vectors.body.usage
        ],
        [
          200,
          [
            [0.5, 1],
            [0.5, 2]
          ],
          { prompt_tokens: 3, total_tokens: 3 }
        ],
        vectors.text
      )
      assert.deepStrictEqual([...new Set(cloud.issued)], [accountEmail])
      const listed = yield* service.call("POST", "/api/llm/providers/list-models", {
        body: { providerId: "vx-claude" }
      })
      assert.deepInclude(listed.body[0], { id: "claude-opus-4-5", ownedBy: "anthropic" })
    }).pipe(Effect.scoped)
  )

  it.effect("that cannot be had are named to operators, with nothing secret", () =>
    Effect.gen(function* () {
      const none = externalAccount({ credential_source: undefined })
      const cases: ReadonlyArray<readonly [object, object | string, string]> = [
        [
          {},
          externalAccount({ credential_source: { executable: { command: "/bin/true" } } }),
          "A `credential_source` of the kind `executable` is not read: only tokens in files are"
        ],
        [
          {},
          externalAccount({ credential_source: { url: "http://169.254.169.254/" } }),
          "A `credential_source` of the kind `url` is not read: only tokens in files are"
        ],
        [
          {},
          externalAccount({ credential_source: { environment_id: "aws1" } }),
          "A `credential_source` of the kind `environment_id` is not read: only tokens in files are"
        ],
        [{}, none, "A `credential_source` without a file is not read: only tokens in files are"],
        [
          {},
          { type: "authorized_user", refresh_token: "r" },
          "Credentials of the type `authorized_user` are not read: Expected `service_account` or `external_account`"
        ],
        [{}, "no JSON", "file:broken.json holds no JSON object"],
        [
          {},
          { type: "service_account", client_email: accountEmail, private_key: "x" },
          "The `private_key` of the service account is no RSA key in PKCS #8"
        ],
        [
          {},
          externalAccount({ token_url: "https://sts.example.com/v1/token" }),
          "The address is not the vendor's own token service"
        ],
        [
          {},
          externalAccount({ service_account_impersonation_url: "https://iam.example.com/v1:generateAccessToken" }),
          "The address is not the vendor's own token service"
        ],
        [
          { impersonate: "another@my-project.iam.gserviceaccount.com" },
          externalAccount({}),
          "iamcredentials.googleapis.com answered 403 PERMISSION_DENIED"
        ]
      ]
      yield* Effect.forEach(cases, ([members, file, lastError]) =>
        Effect.gen(function* () {
          const files = { "broken.json": file, subject: fileToken }
          const { ask, health } = yield* setting({ keyFile: "file:broken.json", ...members }, files)
          const answer = yield* ask
          assert.strictEqual(answer.status, 502, answer.text)
          assert.include(answer.text, "The gateway has no valid credential for the provider.")
          assert.notInclude(answer.text, fileToken)
          assert.deepInclude(yield* health, { status: "failed", lastError, expiresAt: null })
        }).pipe(Effect.scoped)
      )
    })
  )

  it.effect("are for a key that Google knows alone", () =>
    Effect.gen(function* () {
      const other = yield* startGoogleCloud
      const { ask, health } = yield* setting(
        { keyFile: "file:other.json" },
        { "other.json": { ...other.keyFile, private_key_id: "key-1" } }
      )
      assert.strictEqual((yield* ask).status, 502)
      assert.deepInclude(yield* health, { lastError: "oauth2.googleapis.com answered 400 invalid_grant" })
    }).pipe(Effect.scoped)
  )

  it.effect("of a machine come from Google's metadata server alone, and soon or not at all", () =>
    Effect.gen(function* () {
      for (const [metadata, lastError] of [
        ["another server", "What answers at 169.254.169.254 is not Google's metadata server"],
        ["silent", "169.254.169.254: The server did not answer within 2 seconds"]
      ] as const) {
        yield* Effect.gen(function* () {
          const { ask, cloud, health } = yield* setting({})
          cloud.metadata = metadata
          assert.strictEqual((yield* ask).status, 502)
          assert.deepInclude(yield* health, { status: "failed", lastError })
          // The next caller does not wait for the machine again.
          const { length } = cloud.standIn.requests
          assert.strictEqual((yield* ask).status, 502)
          assert.lengthOf(cloud.standIn.requests, length)
        }).pipe(Effect.scoped)
      }
    })
  )

  it.effect("are those that GOOGLE_APPLICATION_CREDENTIALS names where no file is given", () =>
    Effect.gen(function* () {
      yield* Effect.acquireRelease(
        Effect.sync(() => (process.env.GOOGLE_APPLICATION_CREDENTIALS = join(directory, "vertex.json"))),
        () => Effect.sync(() => delete process.env.GOOGLE_APPLICATION_CREDENTIALS)
      )
      const { ask, cloud } = yield* setting({})
      assert.strictEqual((yield* ask).status, 200)
      assert.deepStrictEqual(cloud.issued, [accountEmail])
    }).pipe(Effect.scoped)
  )

  it.effect("end while an answer is on its way: it is read to its end, and the next call has another", () =>
    Effect.gen(function* () {
      const { ask, cloud, key, service } = yield* setting({ keyFile: "file:vertex.json" })
      cloud.lifetime = 1
      const { promise: began, resolve: begin } = Promise.withResolvers<void>()
      const { promise: isOver, resolve: end } = Promise.withResolvers<void>()
      const { answer } = cloud.standIn
      cloud.standIn.answer = (request, response) => {
        if (!request.path.includes("streamGenerateContent")) return answer(request, response)
        response.writeHead(200, { "content-type": "text/event-stream" }).write(event("It is"))
        begin()
        void isOver.then(() => response.end(event(" noon.", "STOP")))
      }
      const contents = { contents: [{ role: "user", parts: [{ text: "a" }] }] }
      const streamed = yield* Effect.forkScoped(
        readAll(service, key, "/v1beta/models/gemini-x:streamGenerateContent?alt=sse", contents)
      )
      yield* Effect.promise(() => began)
      const [first] = cloud.taken.keys()
      cloud.taken.delete(first ?? "")
      const answers = yield* ask.pipe(Effect.repeat({ until: () => cloud.issued.length > 1 }), Effect.andThen(ask))
      assert.strictEqual(answers.status, 200, answers.text)
      end()
      const { text } = yield* Fiber.join(streamed)
      assert.include(text, " noon.")
      assert.notInclude(text, "error")
    }).pipe(Effect.scoped)
  )

  it.effect("are configured whole: a place for its models, one source, and a file that is there", () =>
    Effect.gen(function* () {
      const { cloud, service } = yield* setting({ keyFile: "file:vertex.json" })
      const base = {
        id: "vx",
        dialect: "gemini",
        baseUrl: "https://aiplatform.googleapis.com",
        platform: "vertex",
        project: "my-project"
      }
      const faults: ReadonlyArray<readonly [object, ReadonlyArray<string>]> = [
        [{ credential: { type: "google", keyFile: "file:none.json" } }, ["credential", "keyFile"]],
        [
          { credential: { type: "google", keyFile: "file:vertex.json", audience: poolProvider } },
          ["credential", "audience"]
        ],
        [{ credential: { type: "google", assertion: "issuer" } }, ["credential", "audience"]],
        [{ project: undefined }, ["project"]],
        [{ baseUrl: "https://models.example.com" }, ["region"]],
        [{ apiVersion: "2024-10-21" }, ["apiVersion"]],
        [{ platform: "direct" }, ["project"]],
        [
          {
            baseUrl: cloud.standIn.url.replace("127.0.0.1", "localhost"),
            region: "global",
            credential: { type: "google" }
          },
          ["baseUrl"]
        ]
      ]
      for (const [members, path] of faults) {
        const written = yield* service.call("PUT", "/api/llm/admin/config", {
          body: { providers: [{ ...base, ...members }] }
        })
        assert.strictEqual(written.status, 400, written.text)
        assert.deepStrictEqual(written.body.errors[0].path, ["payload", "providers", 0, ...path])
      }
      const whole = { ...base, credential: { type: "google" } }
      const written = yield* service.call("PUT", "/api/llm/admin/config", { body: { providers: [whole] } })
      assert.strictEqual(written.status, 200, written.text)
    }).pipe(Effect.scoped)
  )
})
