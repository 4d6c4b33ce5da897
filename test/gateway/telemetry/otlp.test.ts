import { assert, it } from "@effect/vitest"
import { Effect, Option } from "effect"
import * as Telemetry from "../../../src/platform/observability/telemetry.ts"
import { makeDatabase } from "../../support/database.ts"
import { configure, model, provider, spender } from "../../support/gateway.ts"
import { makeOtlpReceiver } from "../../support/otlp-receiver.ts"
import { json, type ProviderStandIn, sse, startProvider } from "../../support/provider.ts"
import { startService } from "../../support/service.ts"
import { anthropicVendor, openAiVendor, used } from "../../support/vendors.ts"
import { conventionNames } from "#src/gateway/telemetry/conventions.ts"

const question = "What was the secret word?"
const messages = [{ role: "user", content: question }]
const client = 3
const failed = 2

const server = ({ url }: ProviderStandIn) => {
  const { hostname, port } = new URL(url)
  return { "server.address": hostname, "server.port": Number(port) }
}

/** A service whose telemetry goes to a collector, used until it has sent everything. */
const exported = Effect.fnUntraced(function* (
  standIns: Readonly<Record<"openai" | "anthropic" | "down" | "broken", ProviderStandIn>>,
  environment: Record<string, string> = {},
  prefix: string = "otlp"
) {
  const receiver = yield* makeOtlpReceiver()
  const telemetry = Telemetry.layer({
    endpoint: Option.some(receiver.endpoint),
    headers: Option.none(),
    serviceName: "application-manager",
    serviceVersion: "1",
    environment: "Test"
  })
  yield* Effect.gen(function* () {
    const service = yield* startService(yield* makeDatabase, environment)
    yield* configure(
      service,
      [
        provider(`${prefix}-openai`, standIns.openai),
        provider(`${prefix}-down`, standIns.down),
        provider(`${prefix}-broken`, standIns.broken),
        { id: `${prefix}-anthropic`, dialect: "anthropic", baseUrl: standIns.anthropic.url }
      ],
      [
        model("gpt", [`${prefix}-openai`]),
        model("vectors", [`${prefix}-openai`], { kind: "embedding" }),
        model("claude", [`${prefix}-anthropic`]),
        model("flaky", [`${prefix}-down`, `${prefix}-openai`]),
        model("cut", [`${prefix}-broken`])
      ]
    )
    const { key } = yield* spender(service, [{ limit: 1 }])
    const post = (path: string, body: object) =>
      Effect.promise(async () => {
        const headers = { "x-api-key": key, "content-type": "application/json" }
        const response = await fetch(`${service.url}${path}`, { method: "POST", headers, body: JSON.stringify(body) })
        await response.text()
        return response.status
      })
    const chat = "/v1/chat/completions"
    const format = { type: "json_schema", json_schema: { name: "x", schema: {} } }
    assert.strictEqual(yield* post(chat, { model: "gpt", messages, n: 2, response_format: format }), 200)
    assert.strictEqual(yield* post(chat, { model: "gpt", messages, stream: true }), 200)
    assert.strictEqual(yield* post("/v1/messages", { model: "claude", messages, max_tokens: 50 }), 200)
    assert.strictEqual(yield* post("/v1/messages", { model: "claude", messages, max_tokens: 2, stream: true }), 200)
    assert.strictEqual(yield* post("/v1/embeddings", { model: "vectors", input: "a", encoding_format: "float" }), 200)
    assert.strictEqual(yield* post(chat, { model: "flaky", messages }), 200)
    assert.strictEqual(yield* post(chat, { model: "cut", messages, stream: true }), 200)
    assert.strictEqual(yield* post(chat, { model: "gpt", messages, max_tokens: 1_000_000 }), 402)
  }).pipe(Effect.scoped, Effect.provide(telemetry))
  return receiver
})

it.live("calls are exported under the names of OpenTelemetry's conventions for generative AI", () =>
  Effect.gen(function* () {
    const openai = yield* startProvider(openAiVendor)
    const anthropic = yield* startProvider(anthropicVendor)
    const down = yield* startProvider((_, response) => json(response, 503, { error: { message: question } }))
    const broken = yield* startProvider((_, response) => {
      sse(response, [{ id: "c", model: "cut-1", choices: [{ index: 0, delta: { content: "It is" } }] }])
      response.end()
    })
    const receiver = yield* exported({ openai, anthropic, down, broken })
    const spans = receiver.spans().filter(({ attributes }) => "gen_ai.operation.name" in attributes)
    assert.isTrue(spans.every(({ kind, parentSpanId }) => kind === client && parentSpanId !== undefined))
    const named = (name: string) => spans.filter((span) => span.name === name)
    const usage = { "gen_ai.usage.input_tokens": used.input, "gen_ai.usage.output_tokens": used.output }

    const [whole, streamed] = named("chat gpt")
    const gpt = { "gen_ai.response.id": "chatcmpl-1", "gen_ai.response.model": "gpt" }
    assert.deepInclude(whole?.attributes, {
      ...server(openai),
      ...usage,
      ...gpt,
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "otlp-openai",
      "gen_ai.request.model": "gpt",
      "gen_ai.request.choice.count": 2,
      "gen_ai.output.type": "json"
    })
    assert.deepInclude(streamed?.attributes, { ...usage, ...gpt, "gen_ai.request.stream": true })
    assert.isAtLeast(Number(streamed?.attributes["gen_ai.response.time_to_first_chunk"]), 0)
    for (const absent of ["gen_ai.request.choice.count", "gen_ai.output.type", "error.type"]) {
      assert.notProperty(streamed?.attributes, absent)
    }
    assert.notProperty(whole?.attributes, "gen_ai.response.time_to_first_chunk")

    const claude = { ...usage, ...server(anthropic), "gen_ai.response.id": "msg_1", "gen_ai.response.model": "claude" }
    for (const span of named("chat claude")) assert.deepInclude(span.attributes, claude)
    assert.deepStrictEqual(
      ["chat gpt", "chat claude"].flatMap(named).map(({ attributes }) => attributes["gen_ai.response.finish_reasons"]),
      [["stop"], ["stop"], ["end_turn"], ["max_tokens"]].map((reasons) => ({
        values: reasons.map((stringValue) => ({ stringValue }))
      }))
    )

    const [embedded] = named("embeddings vectors")
    assert.deepInclude(embedded?.attributes, {
      "gen_ai.operation.name": "embeddings",
      "gen_ai.response.model": "vectors",
      "gen_ai.request.encoding_formats": { values: [{ stringValue: "float" }] }
    })

    // What went wrong is told as such, before an answer and within one.
    assert.deepStrictEqual(
      named("chat flaky").map(({ attributes, status }) => [attributes["error.type"], status.code]),
      [
        ["503", failed],
        [undefined, 1]
      ]
    )
    const [cut] = named("chat cut")
    assert.deepInclude(cut?.attributes, { "error.type": "502", "gen_ai.response.model": "cut-1" })
    assert.strictEqual(cut?.status.code, failed)

    const metrics = receiver.metrics()
    const unitOf = (name: string) => metrics.find((metric) => metric.name === name)?.unit
    for (const [name, unit] of [
      ["gen_ai.client.operation.duration", "s"],
      ["gen_ai.client.token.usage", "{token}"],
      ["gen_ai.server.time_to_first_token", "s"],
      ["app.gateway.overhead", "s"],
      ["app.budget.reserved", "USD"],
      ["app.budget.spent", "USD"],
      ["app.gateway.denials", "{call}"],
      ["app.gateway.settlements", "{call}"],
      ["app.gateway.fallbacks", "{call}"]
    ] as const) {
      assert.strictEqual(unitOf(name), unit, name)
    }
    for (const name of ["app.budget.headroom", "app.gateway.breaker.state"]) {
      assert.isTrue(
        metrics.some((metric) => metric.name === name),
        name
      )
    }
    const points = (name: string) =>
      metrics
        .filter((metric) => metric.name === name)
        .flatMap((metric) => metric.points)
        .filter((attributes) => String(attributes["app.provider.id"]).startsWith("otlp-"))
    const durations = points("gen_ai.client.operation.duration")
    assert.deepInclude(durations, {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "otlp-down",
      "gen_ai.request.model": "flaky",
      "app.provider.id": "otlp-down",
      "error.type": "503"
    })
    assert.isTrue(durations.some((attributes) => attributes["gen_ai.operation.name"] === "embeddings"))
    // Nobody knows what an attempt used that was never answered.
    assert.isTrue(points("gen_ai.client.token.usage").every((point) => point["app.provider.id"] !== "otlp-down"))
    const methods = metrics.filter(({ name }) => name === "app.gateway.settlements").flatMap((metric) => metric.points)
    assert.includeMembers(
      methods.map(({ method }) => method),
      ["provider_usage", "estimated", "released"]
    )
    assert.notInclude(receiver.everything(), question)
  }).pipe(Effect.scoped)
)

const optedIn = { OTEL_SEMCONV_STABILITY_OPT_IN: "http,gen_ai_latest_experimental" }

/** What only the conventions before their first release have. */
const earlier = [
  conventionNames.cacheWriteTokens.before,
  conventionNames.inputTokens.before,
  conventionNames.firstChunk.before,
  "gen_ai.client.operation.duration",
  "gen_ai.token.type"
]

/** The attributes of a metric of calls of a provider. */
const at = (id: string, members: object = {}) => ({
  "gen_ai.operation.name": "chat",
  "gen_ai.provider.name": id,
  "gen_ai.request.model": "gpt",
  "app.provider.id": id,
  ...members
})

it.live("calls are exported under the names of the first release with the opt-in, and under no earlier ones", () =>
  Effect.gen(function* () {
    const openai = yield* startProvider(openAiVendor)
    const anthropic = yield* startProvider(anthropicVendor)
    const down = yield* startProvider((_, response) => json(response, 503, { error: { message: question } }))
    const broken = yield* startProvider((_, response) => {
      sse(response, [{ id: "c", model: "cut-1", choices: [{ index: 0, delta: { content: "It is" } }] }])
      response.end()
    })
    const receiver = yield* exported({ openai, anthropic, down, broken }, optedIn, "later")
    const spans = receiver.spans().filter(({ attributes }) => "gen_ai.operation.name" in attributes)
    const named = (name: string) => spans.filter((span) => span.name === name)
    const [whole] = named("chat gpt")
    assert.deepInclude(whole?.attributes, {
      ...server(openai),
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "later-openai",
      "gen_ai.request.model": "gpt",
      "gen_ai.usage.input_tokens": used.input,
      "gen_ai.usage.cache_read.input_tokens": used.cached,
      "gen_ai.usage.cache_write.input_tokens": 0,
      "gen_ai.usage.reasoning.output_tokens": used.reasoning
    })
    const [cut] = named("chat cut")
    assert.deepInclude(cut?.attributes, {
      "error.type": "502",
      "gen_ai.response.finish_reasons": { values: [{ stringValue: "error" }] }
    })

    // Other services of this process are measured by the earlier names, at providers of other ids.
    const metrics = receiver.metrics()
    const pointsOf = (name: string) =>
      metrics
        .filter((metric) => metric.name === name)
        .flatMap(({ points, unit }) => points.map((point): Record<string, unknown> => ({ ...point, unit })))
        .filter((point) => String(point["app.provider.id"]).startsWith("later-"))
    const durations = pointsOf("gen_ai.client.inference.duration")
    assert.deepInclude(durations, at("later-openai", { unit: "s" }))
    assert.deepInclude(durations, at("later-down", { "gen_ai.request.model": "flaky", "error.type": "503", unit: "s" }))
    const vectors = { "gen_ai.operation.name": "embeddings", "gen_ai.request.model": "vectors" }
    assert.deepInclude(pointsOf("gen_ai.client.embeddings.duration"), at("later-openai", { ...vectors, unit: "s" }))
    assert.deepInclude(
      pointsOf("gen_ai.client.embeddings.operation.input_tokens"),
      at("later-openai", { ...vectors, unit: "{token}" })
    )
    assert.deepInclude(pointsOf("gen_ai.client.inference.time_to_first_chunk"), at("later-openai", { unit: "s" }))
    for (const name of [
      "gen_ai.client.inference.operation.input_tokens",
      "gen_ai.client.inference.operation.output_tokens"
    ]) {
      assert.deepInclude(pointsOf(name), at("later-openai", { unit: "{token}" }))
    }
    for (const name of ["input_tokens", "output_tokens", "cache_read.input_tokens", "reasoning.output_tokens"]) {
      const points = pointsOf(`gen_ai.client.inference.usage.${name}`)
      assert.deepInclude(points, at("later-openai", { "gen_ai.token.modality": "unknown", unit: "{token}" }), name)
    }
    // An attempt without an answer counts as no tokens.
    assert.isTrue(
      pointsOf("gen_ai.client.inference.usage.input_tokens").some((point) => point["app.provider.id"] === "later-down")
    )
    for (const name of earlier) assert.lengthOf(pointsOf(name), 0, name)
    const everything = JSON.stringify(spans.map(({ attributes }) => attributes))
    assert.notInclude(everything, conventionNames.cacheWriteTokens.before)
    assert.notInclude(receiver.everything(), question)
  }).pipe(Effect.scoped)
)

it.live("calls have no names of the first release without the opt-in", () =>
  Effect.gen(function* () {
    const openai = yield* startProvider(openAiVendor)
    const anthropic = yield* startProvider(anthropicVendor)
    const receiver = yield* exported(
      { openai, anthropic, down: openai, broken: openai },
      { OTEL_SEMCONV_STABILITY_OPT_IN: "http" }
    )
    const spans = JSON.stringify(receiver.spans())
    assert.include(spans, conventionNames.cacheWriteTokens.before)
    for (const { before, since } of Object.values(conventionNames)) {
      if (since !== null && since !== before) assert.notInclude(spans, `"${since}"`)
    }
    const metrics = JSON.stringify(receiver.metrics())
    for (const name of earlier.slice(1)) assert.include(metrics, `"${name}"`)
  }).pipe(Effect.scoped)
)
