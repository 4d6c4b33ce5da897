import { assert, it } from "@effect/vitest"
import { Cause, Effect, Exit, Option, Tracer } from "effect"
import { makeDatabase } from "../../support/database.ts"
import { configure, costNanoUsd, model, spender } from "../../support/gateway.ts"
import { json, sse, startProvider } from "../../support/provider.ts"
import { startService, type TestService } from "../../support/service.ts"
import { openAiVendor, said, used } from "../../support/vendors.ts"
import { eventually } from "../../support/waiting.ts"

type Service = TestService["Service"]

const chat = "/v1/chat/completions"
const question = "What was the secret word?"
const body = { model: "gpt", messages: [{ role: "user", content: question }] }

/** Every span of a service, as it was made. */
const recording = () => {
  const spans: Array<Tracer.NativeSpan> = []
  const tracer = Tracer.make({
    span: (options) => {
      const span = new Tracer.NativeSpan(options)
      spans.push(span)
      return span
    }
  })
  return { spans, tracer }
}

const clientSpans = (spans: ReadonlyArray<Tracer.NativeSpan>) => spans.filter(({ kind }) => kind === "client")
const attempts = (spans: ReadonlyArray<Tracer.NativeSpan>) =>
  clientSpans(spans).filter(({ attributes }) => attributes.has("gen_ai.operation.name"))
const told = ({ attributes }: Tracer.NativeSpan) => Object.fromEntries(attributes)

/** Hears a stream to its end. */
const hear = ({ url }: Service, key: string, members: object = {}) =>
  Effect.promise(async () => {
    const response = await fetch(`${url}${chat}`, {
      method: "POST",
      headers: { "x-api-key": key, "content-type": "application/json" },
      body: JSON.stringify({ ...body, ...members, stream: true })
    })
    await response.text()
    return response.status
  })

/** What exporters tell of a span that ended badly. */
const failuresOf = ({ status }: Tracer.NativeSpan): ReadonlyArray<string> =>
  status._tag === "Ended" && Exit.isFailure(status.exit)
    ? Cause.prettyErrors(status.exit.cause).map(({ message }) => message)
    : []

/** The lines of /metrics of a name, each with its labels and its value. */
const metric = Effect.fnUntraced(function* (service: Service, name: string) {
  const { text } = yield* service.call("GET", "/metrics")
  return (text as string).split("\n").flatMap((line) => {
    const [, found, labels = "", value] = /^(\w+)(?:\{(.*)\})? (\S+)$/.exec(line) ?? []
    return found === name ? [{ labels, value: Number(value) }] : []
  })
})

it.live("a call is a span with what was used and what that did cost, and never with what was said", () =>
  Effect.gen(function* () {
    const { spans, tracer } = recording()
    const service = yield* Effect.flatMap(makeDatabase, startService).pipe(Effect.provideService(Tracer.Tracer, tracer))
    const standIn = yield* startProvider(openAiVendor)
    yield* configure(service, [{ id: "oa", dialect: "openai", baseUrl: `${standIn.url}/v1` }], [model("gpt", ["oa"])])
    const { key } = yield* spender(service, [{ limit: 1 }])
    const ask = (members: object = {}) => service.call("POST", chat, { key, body: { ...body, ...members } })
    const traceId = "4bf92f3577b34da6a3ce929d0e0e4736"
    const answer = yield* service.call("POST", chat, {
      key,
      headers: { traceparent: `00-${traceId}-00f067aa0ba902b7-01` },
      body: { ...body, max_tokens: 50, temperature: 0.5 }
    })
    assert.strictEqual(answer.status, 200, answer.text)
    const [span] = attempts(spans)
    if (span === undefined) return assert.fail("no span")
    assert.deepStrictEqual([span.name, span.traceId, span.status._tag], ["chat gpt", traceId, "Ended"])
    const usage = {
      "gen_ai.usage.input_tokens": used.input,
      "gen_ai.usage.output_tokens": used.output,
      "gen_ai.usage.cache_read.input_tokens": used.cached,
      "gen_ai.usage.cache_creation.input_tokens": 0,
      "gen_ai.usage.reasoning.output_tokens": used.reasoning
    }
    assert.deepInclude(told(span), {
      "gen_ai.operation.name": "chat",
      "gen_ai.provider.name": "oa",
      "gen_ai.request.model": "gpt",
      "gen_ai.request.max_tokens": 50,
      "gen_ai.request.temperature": 0.5,
      "app.dialect": "openai",
      "app.settlement.method": "provider_usage",
      "app.cost_usd": String(costNanoUsd / 1e9),
      "app.reservation.id": answer.headers.get("x-reservation-id"),
      ...usage
    })
    // Below the request's own span.
    const parent = Option.getOrUndefined(span.parent)
    assert.strictEqual(parent?.traceId, traceId)

    const all: Array<Tracer.NativeSpan> = []
    const next = () => all.push(...spans.splice(0))

    // A stream's span ends with the stream, and knows the usage too.
    next()
    assert.strictEqual(yield* hear(service, key), 200)
    const [streamed] = yield* eventually(
      Effect.sync(() => attempts(spans)),
      ([one]) => one?.status._tag === "Ended"
    )
    assert.deepInclude(told(streamed ?? assert.fail("no span")), {
      ...usage,
      "gen_ai.request.stream": true,
      "app.settlement.method": "provider_usage"
    })

    // A translated response names the tools that it leaves out.
    next()
    const tools = [{ type: "file_search", vector_store_ids: ["vs_1"] }]
    yield* service.call("POST", "/v1/responses", { key, body: { model: "gpt", input: question, tools } })
    assert.isTrue(spans.some(({ attributes }) => attributes.get("app.tools.omitted") === "file_search"))

    // What fails is told as such, try by try.
    next()
    standIn.answer = (_, response) => json(response, 503, { error: { message: `no to: ${question}` } })
    assert.strictEqual((yield* ask()).status, 503)
    const [failed] = attempts(spans)
    assert.deepInclude(told(failed ?? assert.fail("no span")), { "error.type": "503" })
    assert.isUndefined(failed?.attributes.get("app.cost_usd"))
    assert.strictEqual((yield* service.call("POST", "/api/llm/complete", { key, body })).status, 503)

    // Nobody heard the end of it.
    next()
    standIn.answer = (_, response) =>
      sse(response, [{ id: "c", choices: [{ index: 0, delta: { role: "assistant", content: said } }] }])
    yield* Effect.promise(async () => {
      const leaving = new AbortController()
      const response = await fetch(`${service.url}${chat}`, {
        method: "POST",
        signal: leaving.signal,
        headers: { "x-api-key": key, "content-type": "application/json" },
        body: JSON.stringify({ ...body, stream: true })
      })
      await response.body?.getReader().read()
      leaving.abort()
    })
    const [aborted] = yield* eventually(
      Effect.sync(() => attempts(spans)),
      ([one]) => one?.status._tag === "Ended"
    )
    assert.strictEqual(aborted?.attributes.get("app.settlement.method"), "aborted")

    next()
    const everything = JSON.stringify(
      all.map((one) => [one.name, told(one), one.events, failuresOf(one)]),
      (_, value: unknown) => (typeof value === "bigint" ? String(value) : value)
    )
    assert.include(everything, "status: 503")
    for (const secret of [question, said, key]) assert.notInclude(everything, secret)
  }).pipe(Effect.scoped)
)

it.live("calls are measured: their time, tokens, money, fallbacks, breakers and refusals", () =>
  Effect.gen(function* () {
    const service = yield* Effect.flatMap(makeDatabase, startService)
    const good = yield* startProvider(openAiVendor)
    const bad = yield* startProvider((_, response) => json(response, 500, { error: { message: "Out of order." } }))
    yield* configure(
      service,
      [
        { id: "measured-good", dialect: "openai", baseUrl: `${good.url}/v1` },
        { id: "measured-bad", dialect: "openai", baseUrl: `${bad.url}/v1` }
      ],
      [model("gpt", ["measured-bad", "measured-good"])],
      { breaker: { failures: 2, openSeconds: 60 } }
    )
    const { key } = yield* spender(service, [{ limit: 0.01 }])
    // Others of the process were measured too.
    const sumOf = Effect.fnUntraced(function* (name: string, label = "") {
      const lines = yield* metric(service, name)
      return lines.reduce((sum, { labels, value }) => (labels.includes(label) ? sum + value : sum), 0)
    })
    const sums = Effect.all({
      spent: sumOf("app_budget_spent_total"),
      reserved: sumOf("app_budget_reserved"),
      failed: sumOf("app_gateway_attempts_failed_total", 'error_type="500"')
    })
    const before = yield* sums
    const ask = (max_tokens: number) => service.call("POST", chat, { key, body: { ...body, max_tokens } })
    assert.strictEqual((yield* ask(30)).status, 200)
    for (let times = 0; times < 2; times++) assert.strictEqual(yield* hear(service, key, { max_tokens: 30 }), 200)
    assert.strictEqual((yield* ask(1_000_000)).status, 402)

    const good3 = 'gen_ai_provider_name="measured-good"'
    const valueOf = Effect.fnUntraced(function* (name: string, label: string) {
      const lines = yield* metric(service, name)
      return lines.find(({ labels }) => labels.includes(label))?.value
    })
    assert.strictEqual(yield* valueOf("gen_ai_client_operation_duration_seconds_count", good3), 3)
    assert.strictEqual(yield* valueOf("gen_ai_server_time_to_first_token_seconds_count", good3), 2)
    const tokens = yield* metric(service, "gen_ai_client_token_usage_sum")
    const used3 = tokens.filter(({ labels }) => labels.includes(good3)).map(({ value }) => value)
    assert.sameMembers(used3, [3 * used.input, 3 * used.output])
    assert.isAtLeast((yield* valueOf("app_gateway_overhead_seconds_count", "")) ?? 0, 3)
    assert.strictEqual(yield* valueOf("app_gateway_fallbacks_total", 'app_provider_from="measured-bad"'), 3)
    assert.strictEqual(yield* valueOf("app_gateway_breaker_state", 'app_provider_id="measured-bad"'), 2)
    assert.isAtLeast((yield* valueOf("app_gateway_settlements_total", 'method="provider_usage"')) ?? 0, 3)
    assert.isAtLeast((yield* valueOf("app_gateway_denials_total", 'reason="request_exceeds_budget"')) ?? 0, 1)
    const after = yield* sums
    assert.strictEqual(after.failed - before.failed, 2)
    assert.closeTo(after.spent - before.spent, (3 * costNanoUsd) / 1e9, 1e-9)
    assert.closeTo(after.reserved, before.reserved, 1e-9)
    // Caps of other tests of the process may have none left.
    const headroom = yield* metric(service, "app_budget_headroom")
    assert.isTrue(headroom.some(({ labels, value }) => labels.includes('app_cap_unit="usd"') && value > 0))
    const { text } = yield* service.call("GET", "/metrics")
    assert.notInclude(text, question)
  }).pipe(Effect.scoped)
)
