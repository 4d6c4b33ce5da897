import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Result } from "effect"
import { isDeepStrictEqual } from "node:util"
import { costOf, rateTable } from "../../../src/gateway/catalog/cost.ts"
import { type RateTable } from "../../../src/gateway/catalog/rate-domain.ts"
import { gatewaySnapshot, type ModelTarget } from "../../../src/gateway/configuration/gateway-snapshot.ts"
import { anthropicMessages } from "../../../src/gateway/formats/anthropic-messages/format.ts"
import { type Dialect, type MediaTokens, type Served } from "../../../src/gateway/formats/domain.ts"
import { noUsage } from "../../../src/gateway/formats/domain.ts"
import { openAiChat } from "../../../src/gateway/formats/openai-chat/format.ts"
import { openAiResponses } from "../../../src/gateway/formats/openai-responses/format.ts"
import { servedName } from "../../../src/gateway/formats/served-domain.ts"
import { type TokenUpperBound } from "../../../src/gateway/formats/token-upper-bound.ts"
import { estimateOf, type EstimateTerms } from "../../../src/gateway/metering/estimates.ts"
import { type FormatRequest } from "../../../src/gateway/pipeline/call-request.ts"
import { providerRequest } from "../../../src/gateway/pipeline/provider-request.ts"
import { type Dice, diceOf } from "../../contract/dice.ts"
import { type Body, consumption, countOf } from "../../support/adversary.ts"
import { boundOf, knownModel, spokenDialects } from "../../support/formats.ts"
import { configure, counters, model, provider, spender, usageRows, whenCharged } from "../../support/gateway.ts"
import { runningLoopback } from "../../support/loopback.ts"
import { json, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"
import { readableSeals } from "../../support/turn-seals.ts"
import { eventually } from "../../support/waiting.ts"

const contextTokens = 20_000
const ours = "https://mcp.example/ours"
const theirs = "https://adversary.test/mcp"
const prices = {
  inputUsdPerMTok: 2,
  outputUsdPerMTok: 10,
  toolUses: { webSearch: 0.01, codeExecution: 0.05, fileSearch: 0.002 }
}

const server = (url: string, index: number) => ({ type: "url", name: `s${index}`, url })
const mcp = (server_url: string) => ({ type: "mcp", server_label: "s", server_url })

/** Addresses of images and of what is called one, in any writing. */
const drawAddress = (dice: Dice): string => {
  const kind = dice.pick([
    "image/png",
    "image/webp",
    "image/svg+xml",
    "application/pdf",
    "application/zip",
    "video/mp4"
  ])
  const written = dice.pick([kind, kind.toUpperCase(), `${kind} `, `${kind};a=b`, ""])
  return dice.pick([
    `data:${written};base64,JVBERi0=`,
    `DATA:${written};base64,JVBERi0=`,
    ` data:${written};base64,JVBERi0=`,
    "https://adversary.test/a.png",
    "HTTP://adversary.test/a.pdf",
    "gs://adversary/a.mp4",
    "ms://file-1"
  ])
}

/** A member that no vendor documents, or that only some do. */
const drawMembers = (dice: Dice): Body => {
  if (dice.chance(0.6)) return {}
  const name = dice.pick([
    ...([
      "n_predict",
      "max_new_tokens",
      "num_return_sequences",
      "options",
      "google",
      "documents",
      "chat_template"
    ] as const),
    `x${dice.below(1000)}`
  ])
  return { [name]: dice.pick<unknown>([100_000, 1, null, {}, { num_predict: 100_000 }, "a", ["b"], true]) }
}

const drawThoughts = (dice: Dice) => {
  const tokens = 1 + dice.below(2000)
  return dice.pick([
    {},
    {},
    { thinking: { type: "enabled", budget_tokens: tokens } },
    { reasoning: { max_tokens: tokens } }
  ])
}

/** What a request asks for of its service; some of it has a price, and some has none. */
const drawService = (dice: Dice) => ({
  ...(dice.chance(0.3)
    ? { service_tier: dice.pick(["auto", "default", "flex", "priority", "fast", "scale", "standard_only", ""]) }
    : {}),
  ...(dice.chance(0.1) ? { speed: dice.pick(["standard", "fast", "slow"]) } : {}),
  ...(dice.chance(0.1) ? { inference_geo: dice.pick(["global", "us", "eu"]) } : {}),
  ...(dice.chance(0.2) ? { modalities: dice.pick([["text"], ["text", "audio"], ["video"]]) } : {})
})

/** A random chat completion. */
const drawChat = (dice: Dice): Body => {
  const some = <A>(values: ReadonlyArray<A>) => values.filter(() => dice.chance(0.3))
  const own = { type: "function", function: { name: "own", parameters: {} } }
  const tools = dice.chance(0.8)
    ? some<object>([own, { ...own, function: { name: "other" } }])
    : dice.pick<unknown>([{ google_search: {} }, [[own]], ["web_search"], [{ name: "x", google_search: {} }]])
  const image = () => (dice.chance(0.5) ? { url: drawAddress(dice) } : drawAddress(dice))
  const parts = some<() => object>([
    () => ({ type: "image_url", image_url: image() }),
    () => ({ type: "file", file: { file_id: "file_1" } }),
    () => ({ type: "text", text: "fileid://file-fe-abc" })
  ]).map((draw) => draw())
  return {
    messages: [{ role: "user", content: [{ type: "text", text: "word ".repeat(dice.below(400)) }, ...parts] }],
    ...(Array.isArray(tools) && tools.length === 0 ? {} : { tools }),
    ...(dice.chance(0.5) ? { [dice.pick(["max_tokens", "max_completion_tokens"])]: 1 + dice.below(500) } : {}),
    ...(dice.chance(0.2) ? { n: 1 + dice.below(3) } : {}),
    ...drawThoughts(dice),
    ...drawService(dice),
    ...drawMembers(dice)
  }
}

/** A random request in the API of Anthropic's messages, with tools, servers and documents of every kind. */
const drawMessages = (dice: Dice): Body => {
  const some = <A>(values: ReadonlyArray<A>) => values.filter(() => dice.chance(0.3))
  const uses = () => (dice.chance(0.5) ? { max_uses: dice.below(13) } : {})
  const servers = some([ours, `${ours}/more`, ...(dice.chance(0.2) ? [theirs] : [])]).map(server)
  const tools = some([
    { type: "web_search_20250305", name: "web_search", ...uses() },
    {
      type: "web_fetch_20250910",
      name: "web_fetch",
      ...uses(),
      ...(dice.chance(0.5) ? { max_content_tokens: 100 } : {})
    },
    { type: "code_execution_20250825", name: "code_execution" },
    { type: "tool_search_tool_bm25_20251119", name: "tool_search_tool_bm25" },
    { name: "own", input_schema: { type: "object" } },
    ...servers.map(({ name }) => ({ type: "mcp_toolset", mcp_server_name: name }))
  ])
  const parts = some([
    { type: "document", source: { type: "url", url: "https://adversary.test/a.pdf" } },
    { type: "document", source: { type: "base64", media_type: "application/pdf", data: "JVBERi0=" } },
    { type: "image", source: { type: "url", url: drawAddress(dice) } },
    {
      type: "image",
      source: { type: "base64", media_type: dice.pick(["image/png", "Application/PDF", "video/mp4"]), data: "JVBERi0=" }
    },
    {
      type: "web_fetch_tool_result",
      tool_use_id: "t",
      content: {
        type: "web_fetch_result",
        content: { type: "document", source: { type: "url", url: "https://adversary.test/b.pdf" } }
      }
    },
    { type: "tool_addition", tool: { type: "web_search_20260318", name: "web_search", ...uses() } }
  ])
  const content = [{ type: "text", text: "word ".repeat(dice.below(400)) }, ...parts]
  const max_tokens = dice.below(500)
  return {
    ...drawMembers(dice),
    ...drawService(dice),
    max_tokens,
    messages: [{ role: "user", content }],
    ...(tools.length === 0 ? {} : { tools }),
    ...(servers.length === 0 ? {} : { mcp_servers: servers })
  }
}

/** The same in the Responses API. */
const drawResponses = (dice: Dice): Body => {
  const some = <A>(values: ReadonlyArray<A>) => values.filter(() => dice.chance(0.3))
  const tools = some<object>([
    { type: "web_search" },
    { type: "file_search", vector_store_ids: [] },
    { type: "code_interpreter", container: { type: "auto" } },
    { type: "tool_search" },
    { type: "function", name: "own", parameters: {} },
    { type: "namespace", name: "n", tools: [{ type: "web_search_preview" }] },
    mcp(ours),
    ...(dice.chance(0.2) ? [mcp(theirs)] : [])
  ])
  const parts = some<object>([
    { type: "input_file", file_url: "https://adversary.test/a.pdf" },
    { type: "input_file", filename: "a.docx", file_data: "data:application/zip;base64,UEsDBA==" },
    { type: "input_image", image_url: drawAddress(dice) }
  ])
  const added = some<object>([
    { type: "additional_tools", role: "developer", tools: [{ type: "web_search" }] },
    { type: "tool_search_output", tools: [mcp(dice.pick([ours, theirs]))] }
  ])
  const content = [{ type: "input_text", text: "word ".repeat(dice.below(400)) }, ...parts]
  return {
    ...drawMembers(dice),
    ...drawService(dice),
    ...(dice.chance(0.3) ? { reasoning: { max_tokens: 1 + dice.below(2000) } } : {}),
    input: [...added, { role: "user", content }],
    ...(tools.length === 0 ? {} : { tools }),
    ...(dice.chance(0.5) ? { max_tool_calls: dice.below(6) } : {}),
    ...(dice.chance(0.5) ? { max_output_tokens: 16 + dice.below(500) } : {})
  }
}

const [loopback] = gatewaySnapshot({}, null, runningLoopback, [], []).models
const textPrices = {
  inputUsdPerMTok: 2_000_000_000n,
  outputUsdPerMTok: 10_000_000_000n,
  toolUses: { webSearch: 10_000_000n, codeExecution: 50_000_000n, fileSearch: 2_000_000n }
}
const textRates = rateTable(textPrices)
const allRates = rateTable({
  ...textPrices,
  audioInputUsdPerMTok: 40_000_000_000n,
  audioOutputUsdPerMTok: 80_000_000_000n,
  imageInputUsdPerMTok: 1_000_000_000n,
  factors: [
    { when: { tier: "flex" }, factor: 0.5 },
    { when: { tier: "priority" }, prices: { inputUsdPerMTok: 7_000_000_001n, outputUsdPerMTok: 21_000_000_000n } },
    { when: { speed: "fast" }, factor: 6 },
    { when: { geo: "us" }, factor: 1.1 }
  ]
})

/** A service that a provider names for a request; a vendor's own gives what was asked for, or the usual one. */
const drawServed = (dice: Dice, sent: Body, isVendor: boolean): Served => {
  const name = (asked: unknown, dimension: keyof Served, names: readonly [string, ...ReadonlyArray<string>]) => {
    const mayBeAny = dimension === "geo" ? (asked ?? null) === null : !isVendor
    if (mayBeAny) return dice.chance(0.4) ? undefined : servedName(dimension, dice.pick(names))
    return dice.chance(0.3) ? undefined : servedName(dimension, asked)
  }
  const chosen = ["auto", "", undefined, null].includes(sent.service_tier) ? "priority" : sent.service_tier
  return {
    tier: name(chosen, "tier", ["flex", "priority", "scale", "default"]),
    speed: name(sent.speed, "speed", ["fast", "standard", "slow"]),
    geo: name(sent.inference_geo, "geo", ["us", "eu", "global"])
  }
}

/** Media within a usage: audio is written where it is asked for, and read where the request has more than its text. */
const drawMedia = (dice: Dice, sent: Body, input: number, output: number, readsMore: boolean): MediaTokens => {
  const writesAudio = !isDeepStrictEqual(sent.modalities, ["text"]) && sent.input === undefined
  return {
    ...(readsMore ? { audioInput: dice.below(input + 1) } : {}),
    ...(writesAudio ? { audioOutput: dice.pick([output, dice.below(output + 1)]) } : {})
  }
}
const targetOf = (dialect: Dialect, vendor: string | undefined, rates: RateTable): ModelTarget => ({
  provider: { ...runningLoopback, vendor, speaks: spokenDialects[dialect] },
  ...knownModel("m", vendor),
  isListed: true,
  apis: spokenDialects[dialect].apis,
  weight: 1,
  priority: 0,
  rates
})

/** How the cost of a call is bounded: as it is, or with a fault in it. */
type Bounding = (bound: TokenUpperBound, terms: Omit<EstimateTerms, "bound">) => EstimateTerms
const asItIs: Bounding = (bound, terms) => ({ ...terms, bound })

/** Admits a random request, has an adversary answer it, and returns what was held and what is charged. */
const held = Effect.fnUntraced(function* (dice: Dice, bounding: Bounding) {
  const [format, draw] = dice.pick([
    [openAiResponses, drawResponses],
    [anthropicMessages, drawMessages],
    [openAiChat, drawChat]
  ] as const)
  const body = { model: "m", ...draw(dice) }
  const bytes = Buffer.from(JSON.stringify(body))
  const terms = { models: [knownModel("m")], mcpServers: [[{ urlPrefix: ours, maxSteps: 3 }]] }
  const bound = boundOf(format, body, bytes.length, { ...terms, contextTokens })
  const isVendor = dice.chance(0.5)
  const rates = dice.chance(0.5) ? textRates : allRates
  const target = targetOf(format.dialect, isVendor ? format.dialect : undefined, rates)
  const estimate = yield* Effect.result(
    estimateOf(
      bounding(bound, {
        model: { ...loopback!, contextTokens, maxOutputTokens: 500 },
        targets: [target],
        constraints: { byMoney: true, byHard: true, byHardMoney: true },
        contextTokens,
        defaultOutputTokens: 500,
        defaultToolUses: 1 + dice.below(5),
        hasOutput: true,
        timeoutSeconds: 600
      })
    )
  )
  if (Result.isFailure(estimate)) return undefined
  const request: FormatRequest = {
    format,
    model: "m",
    streams: false,
    body,
    bytes,
    states: readableSeals
  }
  const written = yield* providerRequest(request, target, estimate.success)
  const sent = JSON.parse(Buffer.from(written).toString())
  const { input, output, searches } = consumption(sent, contextTokens, dice, { isVendor })
  const readsMore = bound.mediaTokens > 0 || bound.elsewhere !== undefined || bound.tools !== undefined
  const usage = {
    ...noUsage,
    inputTokens: input,
    outputTokens: output,
    toolUses: { webSearch: searches },
    media: drawMedia(dice, sent, input, output, readsMore),
    served: drawServed(dice, sent, isVendor)
  }
  return { body, estimate: estimate.success, sent, charged: costOf(usage, rates) }
})

const cases = 3000

/** The first of many random calls that is charged more than was held for it. */
const counterexample = Effect.fnUntraced(function* (seed: string, bounding: Bounding) {
  const dice = diceOf(seed)
  let admitted = 0
  for (let index = 0; index < cases; index++) {
    const call = yield* held(dice, bounding)
    if (call === undefined) continue
    admitted++
    if (call.charged > call.estimate.amountNanoUsd) return { ...call, admitted }
  }
  return { admitted }
})

const usually = ({ constraints }: Pick<EstimateTerms, "constraints">) => ({
  constraints: { ...constraints, byHard: false }
})

/** Faults in a bound, each of which an adversary finds. */
const mutants: Readonly<Record<string, Bounding>> = {
  // As soft caps do, whose estimates take `maxTokensPerToolUse` for the length of a result, and one step of output.
  "the usual length of a result for that of a caller's server": (bound, terms) => ({
    ...terms,
    bound,
    ...usually(terms)
  }),
  "definitions of MCP servers as part of the request": (bound, terms) => ({
    ...terms,
    bound: { ...bound, elsewhere: undefined }
  }),
  "all results as long as the request": (bound, terms) => ({
    ...terms,
    bound: {
      ...bound,
      tools: bound.tools && {
        ...bound.tools,
        tools: bound.tools.tools.map((tool) => ({ ...tool, maxResult: "request" as const }))
      }
    }
  }),
  "one step of a turn": (bound, terms) => ({
    ...terms,
    bound: { ...bound, tools: bound.tools && { ...bound.tools, maxSteps: 1 } }
  }),
  "members that no format knows": (bound, terms) => ({
    ...terms,
    bound: { ...bound, unbounded: bound.unbounded.filter(({ isBoundedAt }) => isBoundedAt === undefined) }
  }),
  "every address in the place of an image as one": (bound, terms) => ({
    ...terms,
    bound: { ...bound, elsewhere: bound.elsewhere === "image" ? undefined : bound.elsewhere }
  }),
  "no other tier than was asked for": (bound, terms) => ({
    ...terms,
    bound: { ...bound, asksFor: { tier: "default", speed: "standard", geo: "global" } }
  }),
  "text alone": (bound, terms) => ({ ...terms, bound: { ...bound, writesText: true } }),
  "nothing that is refused": (bound, terms) => ({ ...terms, bound: { ...bound, unbounded: [], tools: undefined } })
}

describe("what a call is held for, whatever the servers do that its provider visits", () => {
  it.effect("is never less than what it is charged", () =>
    Effect.gen(function* () {
      const found = yield* counterexample("bounds", asItIs)
      assert.isUndefined("charged" in found ? JSON.stringify(found.sent) : undefined)
      assert.isAbove(found.admitted, cases / 4)
    })
  )

  for (const [name, bounding] of Object.entries(mutants)) {
    it.effect(`would be less with a fault: ${name}`, () =>
      Effect.gen(function* () {
        assert.property(yield* counterexample("bounds", bounding), "charged")
      })
    )
  }
})

const calls = 40
const capUsd = 3

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("a hard cap", (it) => {
  for (const seed of ["one", "two", "three"]) {
    it.effect(`is never passed by an adversary who owns what the provider visits: ${seed}`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const dice = diceOf(seed)
        // Between a count and the call that follows it, everything at an address may change.
        const standIn = yield* startProvider(({ body, path }, response) => {
          if (/count_tokens|input_tokens/.test(path)) {
            return json(response, 200, { input_tokens: countOf(body, contextTokens, dice) })
          }
          const { input, output, searches } = consumption(body, contextTokens, dice)
          const usage = { input_tokens: input, output_tokens: output }
          if (path.endsWith("/responses")) {
            const output = Array.from({ length: searches }, (_, index) => ({
              type: "web_search_call",
              id: `ws_${index}`,
              action: { type: "search" }
            }))
            return json(response, 200, { id: "resp_1", object: "response", status: "completed", output, usage })
          }
          const content = [{ type: "text", text: "Done." }]
          const used = { server_tool_use: { web_search_requests: searches } }
          json(response, 200, {
            id: "m",
            type: "message",
            role: "assistant",
            content,
            stop_reason: "end_turn",
            usage: { ...usage, ...used }
          })
        })
        const mcpServers = [{ urlPrefix: ours, maxSteps: 3 }]
        const an = provider("an", standIn, { dialect: "anthropic", baseUrl: standIn.url, mcpServers })
        const re = provider("re", standIn, { apis: ["responses"], mcpServers })
        const members = { prices, contextTokens, maxOutputTokens: 500 }
        yield* configure(service, [an, re], [model("claude", ["an"], members), model("gpt", ["re"], members)])
        const { key, tenantId } = yield* spender(service, [{ limit: capUsd }])
        const statuses = yield* Effect.forEach(
          Array.from({ length: calls }, () => {
            const isResponses = dice.chance(0.5)
            const body = isResponses
              ? { model: "gpt", ...drawResponses(dice) }
              : { model: "claude", ...drawMessages(dice) }
            return { path: isResponses ? "/v1/responses" : "/v1/messages", body }
          }),
          ({ body, path }) => Effect.map(service.call("POST", path, { key, body }), ({ status }) => status),
          { concurrency: 8 }
        )
        const answered = statuses.filter((status) => status === 200).length
        assert.isAbove(answered, 3, statuses.join(" "))
        assert.includeMembers([200, 402, 403, 429], [...new Set(statuses)])
        yield* eventually(usageRows(service, tenantId), ({ length }) => length >= answered)
        const settled = yield* whenCharged(
          service,
          (sql) => sql<{ readonly held: string; readonly charged: string }>`
            SELECT r.amount::text AS held, e.amount::text AS charged FROM budget_reservations r
            JOIN budget_entries e ON e.tenant_id = r.tenant_id AND e.id = r.charge_id WHERE r.tenant_id = ${tenantId}`
        )
        assert.isAtLeast(settled.length, answered)
        for (const { charged, held } of settled) assert.isTrue(BigInt(charged) <= BigInt(held), `${charged} of ${held}`)
        const [counter] = yield* counters(service, tenantId)
        assert.isAtMost(Number(counter?.spent), capUsd * 1e9)
        assert.strictEqual(Number(counter?.reserved), 0)
      }).pipe(Effect.scoped)
    )
  }
})
