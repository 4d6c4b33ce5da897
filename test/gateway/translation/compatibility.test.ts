import Anthropic from "@anthropic-ai/sdk"
import { assert, layer } from "@effect/vitest"
import { Context, Effect, Layer } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import OpenAI from "openai"
import { whenCharged } from "../../support/gateway.ts"
import { type ProviderStandIn, startProvider } from "../../support/provider.ts"
import { makeResponsesVendor } from "../../support/responses-vendor.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { anthropicVendor, openAiVendor, used } from "../../support/vendors.ts"
import { eventually } from "../../support/waiting.ts"
import { anthropicChecks } from "./compatibility/anthropic-checks.ts"
import { capabilities, type CapabilityKey } from "./compatibility/capabilities.ts"
import { openAiChecks } from "./compatibility/openai-checks.ts"
import { providers, type ProviderName, type Subject } from "./compatibility/subject.ts"
import { cellKey, compatibilityMarkdown, dialects, type DialectName } from "./compatibility/table.ts"

const tableFile = path.resolve(import.meta.dirname, "compatibility.md")
const checks = { openai: openAiChecks, anthropic: anthropicChecks }

/** A client of each SDK, and what it sent last. */
class Bench extends Context.Service<
  Bench,
  {
    readonly openai: OpenAI
    readonly anthropic: Anthropic
    readonly standIns: Readonly<Partial<Record<ProviderName, ProviderStandIn>>>
    // oxlint-disable-next-line typescript/no-explicit-any -- requests of every shape
    readonly sent: Array<any>
  }
>()("test/Bench") {}

const prices = { inputUsdPerMTok: 2, outputUsdPerMTok: 10, cacheReadUsdPerMTok: 0.5 }
/** What the stand-ins' usage costs at these prices, in nano-dollars; each token is charged once. */
const usualCost = String((used.input - used.cached) * 2000 + used.cached * 500 + used.output * 10_000)
const model = (id: string, provider: string, kind = "chat") => ({
  id,
  kind,
  prices,
  targets: [{ provider, model: `${id}-upstream` }]
})

const bench = Layer.effect(
  Bench,
  Effect.gen(function* () {
    const service = yield* TestService
    const openai = yield* startProvider(openAiVendor)
    const anthropic = yield* startProvider(anthropicVendor)
    const responses = yield* startProvider(makeResponsesVendor())
    const re = { dialect: "openai", baseUrl: `${responses.url}/v1`, apiKey: "sk-openai", apis: ["responses"] }
    const oa = { dialect: "openai", baseUrl: `${openai.url}/v1`, apiKey: "sk-openai" }
    const an = { dialect: "anthropic", baseUrl: anthropic.url, apiKey: "sk-anthropic" }
    const written = yield* service.call("PUT", "/api/llm/admin/config", {
      body: {
        providers: [
          { id: "oa", ...oa },
          { id: "an", ...an },
          { id: "re", ...re },
          { id: "re-hurried", ...re, timeoutSeconds: 1 },
          { id: "oa-hurried", ...oa, timeoutSeconds: 1 },
          { id: "an-hurried", ...an, timeoutSeconds: 1 }
        ],
        models: [
          model("gpt", "oa"),
          model("claude", "an"),
          model("codex", "re"),
          model("codex-hurried", "re-hurried"),
          model("gpt-hurried", "oa-hurried"),
          model("claude-hurried", "an-hurried"),
          model("vectors", "oa", "embedding")
        ],
        routing: { retries: 0, breaker: { failures: 1000 } }
      }
    })
    assert.strictEqual(written.status, 200, written.text)
    const sent: Array<unknown> = []
    const recording: typeof fetch = (input, init) => {
      if (typeof init?.body === "string") sent.push(JSON.parse(init.body))
      return fetch(input, init)
    }
    const options = { apiKey: service.serviceKey, maxRetries: 0, fetch: recording }
    return {
      openai: new OpenAI({ ...options, baseURL: `${service.url}/v1` }),
      anthropic: new Anthropic({ ...options, baseURL: service.url }),
      standIns: { OpenAI: openai, Anthropic: anthropic, "Responses API": responses },
      sent
    }
  })
)

const models = { OpenAI: "gpt", Anthropic: "claude", "Responses API": "codex", loopback: "loopback-1" }

const reservations = (service: TestService["Service"]) =>
  whenCharged(
    service,
    (sql) => sql<{ readonly state: string; readonly cost: string | null; readonly method: string | null }>`
      SELECT r.state, r.actual::text AS cost, u.method FROM budget_reservations r
      LEFT JOIN usage_rows u ON u.tenant_id = r.tenant_id AND u.reservation_id = r.id
      ORDER BY r.id`
  )

/** What was found; a cell that no test filled stays empty, and then the table is another one. */
const cells = new Map<string, string>()

const check = (key: CapabilityKey, dialect: DialectName, provider: ProviderName) =>
  Effect.gen(function* () {
    const { anthropic, openai, sent, standIns } = yield* Bench
    const service = yield* TestService
    const { ending } = capabilities[key]
    const standIn = standIns[provider]
    const before = (yield* reservations(service)).length
    const [requests, aborted] = [standIn?.requests.length ?? 0, standIn?.aborted ?? 0]
    const name = models[provider]
    const subject: Subject = { provider, model: name, hurriedModel: `${name}-hurried`, openai, anthropic, standIn }
    const told = yield* Effect.promise(async () => checks[dialect][key]?.(subject))
    if (ending === "aborted") {
      yield* eventually(
        Effect.sync(() => standIn?.aborted ?? 0),
        (count) => count > aborted
      )
    }
    // Each call is let in by its own reservation, and each of them ends the same way.
    const rows = yield* eventually(
      Effect.map(reservations(service), (all) => all.slice(before)),
      (all) => all.every(({ state }) => state !== "open")
    )
    const wasCalled = (standIn?.requests.length ?? 0) > requests
    if (ending !== "free" && (wasCalled || standIn === undefined)) assert.isNotEmpty(rows)
    for (const { cost, method, state } of rows) {
      assert.strictEqual(ending === "released" ? state : method, ending)
      if (method === "provider_usage" && wasCalled) assert.strictEqual(cost, key === "embeddings" ? "14000" : usualCost)
    }
    if (!wasCalled || told !== undefined) return cells.set(cellKey(key, dialect, provider), told ?? "yes")
    const isOwn = dialect === provider.toLowerCase()
    if (isOwn) {
      const last = sent.at(-1)
      const arrived = standIn?.requests.at(-1)?.body
      const { stream_options: _, ...rest } = arrived
      const { stream_options: __, ...given } = last
      assert.deepStrictEqual({ ...rest, model: given.model }, given, "unchanged")
    }
    return cells.set(cellKey(key, dialect, provider), isOwn ? "unchanged" : "translated")
  })

const cellsOf = (text: string) =>
  text
    .trim()
    .split("\n")
    .map((line) => line.split("|").map((cell) => cell.trim().replace(/^-+$/, "-")))

layer(bench.pipe(Layer.provideMerge(sharedServiceLayer)), { excludeTestServices: true, timeout: "60 seconds" })(
  "the vendors' SDKs",
  (it) => {
    for (const dialect of dialects) {
      for (const provider of providers) {
        for (const key of Object.keys(capabilities) as ReadonlyArray<CapabilityKey>) {
          const capability: { readonly title: string; readonly withoutLoopback?: true } = capabilities[key]
          if (checks[dialect][key] === undefined) continue
          if (provider === "loopback" && capability.withoutLoopback) continue
          it.effect(`${dialect} before ${provider}: ${capability.title}`, () => check(key, dialect, provider))
        }
      }
    }

    it.effect("can do what the table of them says", () =>
      Effect.sync(() => {
        const found = compatibilityMarkdown(cells)
        if (process.env.COMPATIBILITY === "write") fs.writeFileSync(tableFile, found)
        assert.deepStrictEqual(cellsOf(fs.readFileSync(tableFile, "utf8")), cellsOf(found))
      })
    )
  }
)
