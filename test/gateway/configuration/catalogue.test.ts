import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import * as fs from "node:fs/promises"
import * as os from "node:os"
import * as path from "node:path"
import { makeDatabase } from "../../support/database.ts"
import { ask, configure, provider, spender, usageRows } from "../../support/gateway.ts"
import { assertProblem, faultPaths } from "../../support/problem.ts"
import { startProvider } from "../../support/provider.ts"
import { serviceLayer, startService, TestService } from "../../support/service.ts"
import { openAiVendor, used } from "../../support/vendors.ts"
import { eventually } from "../../support/waiting.ts"

type Service = TestService["Service"]

const at = "/api/llm/admin/catalogue"
const put = (service: Service, body: unknown, headers: Record<string, string> = {}) =>
  service.call("PUT", at, { body, headers })

const fact = (model: string, members: object = {}) => ({
  provider: "own",
  model,
  inputUsdPerMTok: 3,
  outputUsdPerMTok: 5,
  cacheReadUsdPerMTok: 1,
  ...members
})
const catalogue = (...models: ReadonlyArray<object>) => ({ source: "The vendor's page", asOf: "2026-11-22", models })

const known = (service: Service, id: string) =>
  Effect.map(service.call("GET", "/api/llm/models"), ({ body }) =>
    (body as ReadonlyArray<{ readonly id: string; readonly [member: string]: unknown }>).find((one) => one.id === id)
  )

const modelsOf = (replica: Service) =>
  Effect.map(replica.call("GET", at), ({ body }) => body.models.map(({ model }: { readonly model: string }) => model))

layer(serviceLayer(), { excludeTestServices: true, timeout: "60 seconds" })("the catalogue", (it) => {
  it.effect("is the built-in one until another is written, which may be the same", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const builtIn = yield* service.call("GET", at)
      assert.strictEqual(builtIn.status, 200)
      assert.strictEqual(builtIn.headers.get("etag"), '"0"')
      const names = new Set(builtIn.body.models.map(({ model }: { readonly model: string }) => model))
      // What Codex, Claude Code and the SDKs ask for unless they are told otherwise.
      for (const name of ["gpt-6.1-sol", "gpt-5.6-luna", "claude-opus-5-5", "claude-sonnet-5-5", "claude-haiku-5-5"]) {
        assert.isTrue(names.has(name), name)
      }
      const written = yield* put(service, builtIn.body)
      assert.strictEqual(written.status, 200, written.text)
      assert.deepStrictEqual(written.body, builtIn.body)
    })
  )

  it.effect("updates prices and models at once, here and in every other replica", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const other = yield* startService(service.database)
      const standIn = yield* startProvider(openAiVendor)
      yield* configure(service, [provider("own", standIn)], [])
      const first = yield* put(
        service,
        catalogue(fact("new-model", { contextTokens: 64_000, toolUses: { webSearch: 0.02 } }))
      )
      assert.strictEqual(first.status, 200, first.text)
      const etag = first.headers.get("etag") ?? ""
      for (const replica of [service, other]) {
        const model = yield* eventually(known(replica, "new-model"), (found) => found !== undefined)
        assert.deepInclude(model, { contextTokens: 64_000, providers: ["own"] })
        assert.deepInclude(model?.prices, { inputUsdPerMTok: 3, toolUses: { webSearch: 0.02 } })
      }
      const { key, tenantId } = yield* spender(service, [{ limit: 1 }])
      assert.strictEqual((yield* ask(service, key, { model: "new-model" })).status, 200)
      const dearer = yield* put(service, catalogue(fact("new-model", { outputUsdPerMTok: 50 })), { "if-match": etag })
      assert.strictEqual(dearer.status, 200, dearer.text)
      assertProblem(yield* put(service, catalogue(), { "if-match": etag }), 412, "version-mismatch")
      assert.strictEqual((yield* ask(service, key, { model: "new-model" })).status, 200)
      const versions = yield* service.call("GET", `${at}/versions`)
      assert.isAtLeast(versions.body.length, 2)
      assert.strictEqual(versions.body[0].version, Number(dearer.headers.get("etag")?.replaceAll('"', "")))
      const input = (used.input - used.cached) * 3000 + used.cached * 1000
      const rows = yield* eventually(usageRows(service, tenantId), ({ length }) => length === 2)
      assert.deepStrictEqual(
        rows.map(({ cost }) => cost),
        [input + used.output * 5000, input + used.output * 50_000]
      )
      assert.notStrictEqual(rows[0].catalogueVersion, rows[1].catalogueVersion)
    }).pipe(Effect.scoped)
  )

  it.effect("is refused as a whole with the member that is wrong", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const twice = yield* put(service, catalogue(fact("a"), fact("a")))
      assertProblem(twice, 400, "validation-failed")
      assert.deepStrictEqual([...faultPaths(twice)], ["payload.models.1.model"])
      const wrong = yield* put(service, {
        ...catalogue(fact("a", { inputUsdPerMTok: -1 }), fact("b", { prise: 1 })),
        tools: [{ provider: "openai", webSearch: "free" }]
      })
      assertProblem(wrong, 400, "validation-failed")
      assert.includeMembers([...faultPaths(wrong)], ["payload.models.0.inputUsdPerMTok", "payload.tools.0.webSearch"])
    })
  )
})

describe("a file of the catalogue", () => {
  it.live("is taken from a file, and again when the file has changed, unless another was written since", () =>
    Effect.gen(function* () {
      const database = yield* makeDatabase
      const directory = yield* Effect.acquireRelease(
        Effect.promise(() => fs.mkdtemp(path.join(os.tmpdir(), "catalogue-"))),
        (made) => Effect.promise(() => fs.rm(made, { recursive: true }))
      )
      const file = path.join(directory, "catalogue.json")
      const write = (document: object) => Effect.promise(() => fs.writeFile(file, JSON.stringify(document)))
      yield* write(catalogue(fact("from-file")))
      const service = yield* startService(database, { Llm__CatalogueFile: file })
      assert.deepStrictEqual(yield* modelsOf(service), ["from-file"])
      yield* write(catalogue(fact("from-file"), fact("later")))
      assert.strictEqual((yield* service.call("POST", "/api/llm/admin/reload")).status, 200)
      assert.deepStrictEqual(yield* modelsOf(service), ["from-file", "later"])
      assert.strictEqual((yield* put(service, catalogue(fact("written")))).status, 200)
      yield* service.call("POST", "/api/llm/admin/reload")
      assert.deepStrictEqual(yield* modelsOf(service), ["written"])
      yield* write({ models: [{}] })
      const failure = yield* Effect.flip(startService(database, { Llm__CatalogueFile: file }))
      assert.match(String((failure as Error).message), /Llm:CatalogueFile.*models\.0\.provider/s)
    }).pipe(Effect.scoped)
  )
})
