import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as fs from "node:fs/promises"
import * as os from "node:os"
import * as path from "node:path"
import { makeDatabase } from "../../support/database.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { json, startProvider } from "../../support/provider.ts"
import { serviceLayer, startService, TestService } from "../../support/service.ts"
import { asSuperuser } from "../../support/statements.ts"
import { eventually } from "../../support/waiting.ts"

type Service = TestService["Service"]

const config = "/api/llm/admin/config"
const put = (service: Service, body: unknown, headers: Record<string, string> = {}) =>
  service.call("PUT", config, { body, headers })

const provider = (id: string, members: object = {}) => ({
  id,
  dialect: "openai",
  baseUrl: "https://llm.example.com/v1",
  ...members
})
const model = (id: string, members: object = {}) => ({
  id,
  kind: "chat",
  targets: [{ provider: "one", model: "m" }],
  ...members
})

const modelIds = (service: Service) =>
  Effect.map(service.call("GET", "/api/llm/models"), ({ body }) =>
    (body as ReadonlyArray<{ readonly id: string }>).map(({ id }) => id)
  )

const options = { excludeTestServices: true, timeout: "60 seconds" } as const

layer(serviceLayer(), options)("the gateway's configuration", (it) => {
  it.effect("is what the environment says until one is written, and the loopback model is always there", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const before = yield* service.call("GET", config)
      assert.strictEqual(before.status, 200)
      assert.deepStrictEqual(before.body, { providers: [] })
      assert.strictEqual(before.headers.get("etag"), '"0"')
      assert.deepStrictEqual(yield* modelIds(service), ["loopback-1"])
      assert.deepStrictEqual((yield* service.call("GET", `${config}/versions`)).body, [])
    })
  )

  it.effect("becomes a new version that runs at once, here and in every other replica", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const other = yield* startService(service.database)
      const document = { providers: [provider("one")], models: [model("first", { aliases: ["alias"] })] }
      const written = yield* put(service, document)
      assert.strictEqual(written.status, 200, written.text)
      assert.deepStrictEqual(written.body, document)
      const etag = written.headers.get("etag")
      assert.deepStrictEqual((yield* service.call("GET", config)).body, document)
      assert.sameMembers(yield* modelIds(service), ["loopback-1", "first"])
      yield* eventually(modelIds(other), (ids) => ids.includes("first"))

      const stale = yield* put(service, {}, { "if-match": '"999"' })
      assertProblem(stale, 412, "version-mismatch")
      const next = yield* put(service, { ...document, models: [] }, { "if-match": etag ?? "" })
      assert.strictEqual(next.status, 200, next.text)
      const versions = yield* service.call("GET", `${config}/versions?limit=1`)
      assert.lengthOf(versions.body, 1)
      assert.match(versions.headers.get("link") ?? "", /rel="next"/)
      assert.deepStrictEqual(JSON.parse(versions.body[0].content), { ...document, models: [] })

      const number = versions.body[0].version - 1
      const restored = yield* service.call("POST", `${config}/rollback`, { body: { version: number } })
      assert.deepStrictEqual(restored.body, document)
      yield* eventually(modelIds(other), (ids) => ids.includes("first"))
      const missing = yield* service.call("POST", `${config}/rollback`, { body: { version: 1000 } })
      assertProblem(missing, 404, "configuration-version-not-found")
    }).pipe(Effect.scoped)
  )

  it.effect("is checked as a whole, every fault named, and what runs stays", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      yield* put(service, { providers: [provider("one")], models: [model("kept")] })
      const wrong = yield* put(service, {
        providers: [
          provider("one", { apiKey: "env:DATABASE_URL" }),
          provider("one", { apiKey: "env:Security__EncryptionKey_KEY" }),
          provider("two", { apiKey: "file:../secret" }),
          provider("three", { apiKey: "secret:0198a5b0-7c00-7000-8000-00000000002a" }),
          provider("loopback"),
          provider("four", {
            dialect: "anthropic",
            tlsCa: "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----"
          })
        ],
        models: [
          model("kept", { aliases: ["loopback-1", "kept"] }),
          model("vectors", { kind: "embedding", targets: [{ provider: "four", model: "m" }] }),
          model("lost", { targets: [{ provider: "nowhere", model: "m" }] })
        ]
      })
      assert.sameMembers(
        [...faultPaths(wrong)],
        [
          "payload.providers.0.apiKey",
          "payload.providers.1.id",
          "payload.providers.1.apiKey",
          "payload.providers.2.apiKey",
          "payload.providers.3.apiKey",
          "payload.providers.4.id",
          "payload.providers.5.tlsCa",
          "payload.models.0.aliases.0",
          "payload.models.0.aliases.1",
          "payload.models.1.targets.0.provider",
          "payload.models.2.targets.0.provider"
        ]
      )
      const malformed = yield* put(service, {
        providers: [provider("UPPER", { baseUrl: "ftp://x", headers: { authorization: "Bearer x" }, extra: 1 })],
        models: [model("m", { targets: [], prices: { inputUsdPerMTok: -1 } })],
        routing: { strategy: "luck" }
      })
      assert.includeMembers(
        [...faultPaths(malformed)],
        [
          "payload.providers.0.id",
          "payload.providers.0.baseUrl",
          "payload.providers.0.headers.authorization",
          "payload.providers.0.extra",
          "payload.models.0.targets",
          "payload.models.0.prices.inputUsdPerMTok",
          "payload.routing.strategy"
        ]
      )
      assert.sameMembers(yield* modelIds(service), ["loopback-1", "kept"])
    })
  )

  it.effect("seals a key that is given as it is; it is used, and shown to nobody", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider((_, response) => json(response, 200, { data: [{ id: "m" }] }))
      const key = "sk-very-secret-0123456789"
      const document = { providers: [provider("one", { baseUrl: standIn.url, apiKey: key })] }
      const written = yield* put(service, document)
      const reference: string = written.body.providers[0].apiKey
      assert.match(reference, /^secret:[0-9a-f-]{36}$/)
      const again = yield* put(service, written.body)
      assert.strictEqual(again.body.providers[0].apiKey, reference)

      const listed = yield* service.call("POST", "/api/llm/providers/list-models", { body: { providerId: "one" } })
      assert.deepStrictEqual(listed.body, [
        { id: "m", ownedBy: null, createdAt: null, kind: null, contextTokens: null, prices: null }
      ])
      assert.strictEqual(standIn.requests[0]?.headers.authorization, `Bearer ${key}`)

      const stored = yield* asSuperuser(
        service.database,
        (sql) => sql<{ readonly all: string }>`
          SELECT concat((SELECT string_agg(content, '') FROM configuration_versions),
            (SELECT string_agg(encode(sealed, 'escape'), '') FROM gateway_secrets),
            (SELECT string_agg(to_json(e)::text, '') FROM audit_entries e)) AS "all"`
      )
      assert.notInclude(stored[0]?.all ?? key, key)
    }).pipe(Effect.scoped)
  )

  it.effect("seals a credential in a header as it does a key, and leaves other headers as they are", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider((_, response) => json(response, 200, { data: [{ id: "m" }] }))
      const given = {
        "api-key": "azure-very-secret-0123",
        "Gateway-Auth": "Bearer another-secret-4567",
        region: "env:west"
      }
      const document = { providers: [provider("one", { baseUrl: standIn.url, headers: given })] }
      const written = yield* put(service, document)
      const { headers } = written.body.providers[0]
      assert.match(headers["api-key"]!, /^secret:/)
      assert.match(headers["Gateway-Auth"]!, /^secret:/)
      assert.strictEqual(headers.region, "env:west")
      const again = yield* put(service, written.body)
      assert.deepStrictEqual(again.body.providers[0].headers, headers)
      yield* service.call("POST", "/api/llm/providers/list-models", { body: { providerId: "one" } })
      const received = standIn.requests[0]?.headers
      assert.deepInclude(received, {
        "api-key": given["api-key"],
        "gateway-auth": given["Gateway-Auth"],
        region: given.region
      })
      const [stored] = yield* asSuperuser(
        service.database,
        (sql) => sql<{ readonly all: string }>`SELECT string_agg(content, '') AS "all" FROM configuration_versions`
      )
      assert.notInclude(stored?.all ?? "secret-0123", "secret-0123")

      const faulty = yield* service.call("PUT", "/api/llm/admin/config", {
        body: {
          providers: [
            provider("one", {
              headers: { "x-token": "env:HOME", "x-secret": "secret:0198a5b0-7c00-7000-8000-00000000002a" }
            })
          ]
        }
      })
      assert.deepStrictEqual(faultPaths(faulty), [
        "payload.providers.0.headers.x-token",
        "payload.providers.0.headers.x-secret"
      ])
    }).pipe(Effect.scoped)
  )

  it.effect("names only variables that are listed and set", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const reasonOf = (name: string) =>
        Effect.map(put(service, { providers: [provider("one", { apiKey: `env:${name}` })] }), (answer) => {
          assert.deepStrictEqual([...faultPaths(answer)], ["payload.providers.0.apiKey"])
          return answer.body.errors[0].message as string
        })
      assert.match(yield* withVariable("STOLEN_API_KEY", reasonOf("STOLEN_API_KEY")), /STOLEN.*Llm:EnvironmentKeys/)
      assert.match(yield* reasonOf("GROQ_API_KEY"), /GROQ_API_KEY is not set/)
    })
  )

  it.effect("sends a saved key to the origin that it was stored for alone", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const stored = yield* put(service, {
        providers: [
          provider("one", {
            baseUrl: "https://one.example.com/v1",
            apiKey: "sk-0123456789",
            headers: { "x-key": "sk-1" }
          })
        ]
      })
      const [kept] = stored.body.providers
      assert.match(kept.apiKey, /^secret:/)
      const moved = { ...kept, baseUrl: "https://one.example.com.attacker.example/v1" }
      const refused = yield* put(service, { providers: [moved] })
      assert.deepStrictEqual(
        [...faultPaths(refused)],
        ["payload.providers.0.apiKey", "payload.providers.0.headers.x-key"]
      )
      assert.match(refused.body.errors[0].message, /stored for another origin/)
      const elsewhere = yield* put(service, {
        providers: [{ ...kept, id: "two", baseUrl: "http://one.example.com/v1" }]
      })
      assert.strictEqual(elsewhere.status, 400)
      const same = yield* put(service, { providers: [{ ...kept, id: "two", baseUrl: "https://one.example.com/v2" }] })
      assert.strictEqual(same.status, 200, same.text)
    })
  )

  it.effect("is read again on demand, with what is missing named", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const document = {
        providers: [provider("one", { apiKey: "env:MISTRAL_API_KEY" })],
        models: [model("unpriced")]
      }
      yield* withVariable("MISTRAL_API_KEY", put(service, document))
      const reloaded = yield* service.call("POST", "/api/llm/admin/reload")
      assert.deepStrictEqual(reloaded.body.providers, ["loopback", "one"])
      assert.deepStrictEqual(reloaded.body.models, ["loopback-1", "unpriced"])
      assert.lengthOf(reloaded.body.warnings, 2)
      assert.match(reloaded.body.warnings[0], /^Provider one: .*MISTRAL_API_KEY is not set/)
      assert.match(reloaded.body.warnings[1], /^Model unpriced: /)
    })
  )

  it.effect("knows the catalogue's models of a provider, with their prices", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      yield* put(service, {
        providers: [provider("eu", { baseUrl: "https://api.openai.com/v1" })],
        models: [model("mine", { targets: [{ provider: "eu", model: "gpt-4o" }] })]
      })
      const { body: models } = yield* service.call("GET", "/api/llm/models")
      const known = (id: string) => models.find((one: { readonly id: string }) => one.id === id)
      const prices = { inputUsdPerMTok: 2.5, outputUsdPerMTok: 10, cacheReadUsdPerMTok: 1.25 }
      assert.deepInclude(known("gpt-4o").prices, prices)
      assert.strictEqual(known("gpt-4o").prices.toolUses.webSearch, 0.01)
      assert.deepInclude(known("mine").prices, prices)
      assert.deepStrictEqual(known("mine").providers, ["eu"])
      assert.strictEqual(known("mine").maxOutputTokens, 16_384)
      assert.strictEqual(known("mine").status, "available")
      assert.strictEqual(known("text-embedding-3-small").kind, "embedding")
    })
  )
})

/** Runs something while an environment variable of this process is set. */
const withVariable = <A, E, R>(name: string, work: Effect.Effect<A, E, R>) =>
  Effect.acquireUseRelease(
    Effect.sync(() => void (process.env[name] = "sk-of-the-environment")),
    () => work,
    () => Effect.sync(() => void delete process.env[name])
  )

const seed = (id: string) => JSON.stringify({ providers: [provider("one")], models: [model(id)] })

const directoryWith = (files: Readonly<Record<string, string>>) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const directory = await fs.mkdtemp(path.join(os.tmpdir(), "gateway-"))
      await Promise.all(Object.entries(files).map(([name, text]) => fs.writeFile(path.join(directory, name), text)))
      return directory
    }),
    (directory) => Effect.promise(() => fs.rm(directory, { recursive: true }))
  )

describe("a configuration file", () => {
  it.live("seeds the first start; where it wins it is read again at every reload", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const directory = yield* directoryWith({ "gateway.json": seed("seeded") })
      const file = path.join(directory, "gateway.json")
      const first = yield* startService(database, { Llm__ConfigFile: file })
      assert.sameMembers(yield* modelIds(first), ["loopback-1", "seeded"])
      yield* Effect.promise(() => fs.writeFile(file, seed("changed")))
      yield* first.call("POST", "/api/llm/admin/reload")
      assert.sameMembers(yield* modelIds(first), ["loopback-1", "seeded"])

      const winning = yield* startService(database, { Llm__ConfigFile: file, Llm__ConfigFileWins: "true" })
      assert.sameMembers(yield* modelIds(winning), ["loopback-1", "changed"])
      yield* Effect.promise(() => fs.writeFile(file, '{"providers":1}'))
      const refused = yield* winning.call("POST", "/api/llm/admin/reload")
      assert.deepStrictEqual([...faultPaths(refused)], ["file.providers"])
      assert.sameMembers(yield* modelIds(winning), ["loopback-1", "changed"])
      const versions = yield* winning.call("GET", `${config}/versions`)
      assert.lengthOf(versions.body, 2)
    }).pipe(Effect.scoped)
  )

  it.live("that cannot be used stops the first start, and says why", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const directory = yield* directoryWith({ "gateway.json": '{"models":[{}]}' })
      const file = path.join(directory, "gateway.json")
      const failure = yield* Effect.flip(startService(database, { Llm__ConfigFile: file }))
      assert.match(String((failure as Error).message), /Llm:ConfigFile.*models\.0\.id/s)
    }).pipe(Effect.scoped)
  )

  it.live("keys are read below the directory of secrets alone", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const standIn = yield* startProvider((_, response) => json(response, 200, { data: [] }))
      const outside = yield* directoryWith({ secret: "sk-outside" })
      const directory = yield* directoryWith({ good: "sk-from-file\n" })
      yield* Effect.promise(() => fs.symlink(path.join(outside, "secret"), path.join(directory, "link")))
      const service = yield* startService(database, { Llm__SecretsDirectory: directory })
      const baseUrl = standIn.url
      const refused = yield* put(service, {
        providers: ["good", "link", "gone"].map((name) => provider(name, { baseUrl, apiKey: `file:${name}` }))
      })
      assert.strictEqual(refused.status, 400)
      assert.deepStrictEqual(
        refused.body.errors.map(({ message }: { readonly message: string }) => message),
        ["The file link lies outside Llm:SecretsDirectory.", "The file gone cannot be read (NotFound)."]
      )
      const saved = yield* put(service, { providers: [provider("good", { baseUrl, apiKey: "file:good" })] })
      assert.strictEqual(saved.status, 200, saved.text)
      yield* service.call("POST", "/api/llm/providers/test", { body: { providerId: "good" } })
      yield* Effect.promise(() => fs.rm(path.join(directory, "good")))
      const reloaded = yield* service.call("POST", "/api/llm/admin/reload")
      assert.deepStrictEqual(reloaded.body.warnings.slice(0, 1), [
        "Provider good: The file good cannot be read (NotFound)."
      ])
      yield* service.call("POST", "/api/llm/providers/test", { body: { providerId: "good" } })
      assert.deepStrictEqual(
        standIn.requests.map(({ headers }) => headers.authorization),
        ["Bearer sk-from-file", undefined]
      )
    }).pipe(Effect.scoped)
  )
})
