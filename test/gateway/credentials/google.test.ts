import * as NodeFileSystem from "@effect/platform-node/NodeFileSystem"
import { assert, layer } from "@effect/vitest"
import { Effect, FileSystem, Layer } from "effect"
import { mkdtempSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { CredentialAddresses } from "../../../src/gateway/credentials/vendor-exchange.ts"
import { configure, model, provider, spender } from "../../support/gateway.ts"
import {
  accountEmail,
  fileToken,
  type GoogleCloud,
  otherEmail,
  poolProvider,
  startGoogleCloud,
  withGoogleCloud
} from "../../support/google-cloud.ts"
import { serviceLayer, TestService } from "../../support/service.ts"
import { said } from "../../support/vendors.ts"

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
})
