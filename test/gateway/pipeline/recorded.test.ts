import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { configure, model, provider, readAll, spender, usageRows } from "../../support/gateway.ts"
import { startProvider } from "../../support/provider.ts"
import { hasRecorded, readRecorded, type RecordedExchange, recordedFile } from "../../support/recorded.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- answers of every shape
type Json = any

const messages = [{ role: "user", content: "Hi" }]
/** How the gateway is called. */
const wires = {
  chat: { path: "/v1/chat/completions", body: { messages } },
  messages: { path: "/v1/messages", body: { messages, max_tokens: 1000 } },
  responses: { path: "/v1/responses", body: { input: "Hi", store: false } },
  completions: { path: "/v1/completions", body: { prompt: "Hi" } },
  embeddings: { path: "/v1/embeddings", body: { input: "Hi" } }
}
type Wire = keyof typeof wires

/** The wires that a provider of each dialect is behind: its own, and those that are translated. */
const wiresOf: Readonly<Record<string, ReadonlyArray<Wire>>> = {
  "openai-chat": ["chat", "messages", "responses"],
  "openai-responses": ["responses"],
  "anthropic-messages": ["messages", "chat", "responses"],
  "openai-completions": ["completions"],
  "openai-embeddings": ["embeddings"]
}

const eventsOf = ({ body, streamed }: RecordedExchange): ReadonlyArray<Json> =>
  streamed ? Array.from(body.matchAll(/^data: ?(\{.*)$/gm), ([, data]) => JSON.parse(data ?? "")) : [JSON.parse(body)]

/** What an answer reports that it used: each class from the last event that has it, and at its start what Anthropic reads. */
const reported = (exchange: RecordedExchange) => {
  const usage: Json = {}
  for (const event of eventsOf(exchange)) {
    const given = event.usage ?? event.message?.usage ?? event.response?.usage ?? {}
    for (const [name, value] of Object.entries(given)) if (value !== null) usage[name] = value
  }
  const besides = (usage.iterations ?? []).filter(
    ({ type }: Json) => type === "compaction" || type === "advisor_message"
  )
  const sum = (name: string) => [usage, ...besides].reduce((all, one) => all + (one[name] ?? 0), 0)
  // Mistral counts the audio that it reads beside the prompt, and in the total alone.
  const audio = usage.prompt_tokens_details?.audio_tokens ?? 0
  const beside = usage.total_tokens - usage.prompt_tokens - usage.completion_tokens === audio ? audio : 0
  const prompt = usage.prompt_tokens === undefined ? undefined : usage.prompt_tokens + beside
  const input = prompt ?? sum("input_tokens") + sum("cache_read_input_tokens") + sum("cache_creation_input_tokens")
  const output = Math.max(usage.completion_tokens ?? sum("output_tokens"), (usage.total_tokens ?? 0) - input)
  return { input, output }
}

/** Whether an answer has what is rarely met. */
const isOdd = ({ features }: RecordedExchange): boolean =>
  features.some((one) => /^(?:answer|stream|usage): /.test(one))

/** One of each vendor, dialect and form, and all that are odd. */
const sample = (exchanges: ReadonlyArray<RecordedExchange>): ReadonlyArray<RecordedExchange> => {
  const seen = new Set<string>()
  return exchanges.filter((exchange) => {
    const { dialect, status, streamed, vendor } = exchange
    if (status !== 200 || wiresOf[dialect] === undefined) return false
    const kind = `${vendor} ${dialect} ${streamed}`
    if (seen.has(kind) && !isOdd(exchange)) return false
    seen.add(kind)
    const { input, output } = reported(exchange)
    return input + output > 0
  })
}

/** What all classes of input cost, and of output. */
const [input, output] = [2, 10]
const prices = {
  inputUsdPerMTok: input,
  outputUsdPerMTok: output,
  cacheReadUsdPerMTok: input,
  cacheWriteUsdPerMTok: input,
  cacheWrite1hUsdPerMTok: input
}

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "120 seconds" })(
  "recorded answers of providers",
  (it) => {
    it.effect.skipIf(!hasRecorded)(`are charged what they report, where ${recordedFile} has them`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const exchanges = sample(readRecorded())
        let current: RecordedExchange | undefined
        const standIn = yield* startProvider((_, response) => {
          response.writeHead(200, { "content-type": current?.contentType ?? "" }).end(current?.body)
        })
        const apis = ["chat", "responses", "completions", "embeddings"]
        yield* configure(
          service,
          [
            ...apis.map((api) => provider(`openai-${api}`, standIn, { apis: [api] })),
            provider("anthropic-messages", standIn, { dialect: "anthropic", baseUrl: standIn.url })
          ],
          Object.keys(wiresOf).map((name) =>
            model(name, [name], { prices, ...(name === "openai-embeddings" ? { kind: "embedding" } : {}) })
          )
        )
        const { key, tenantId } = yield* spender(service, [{ limit: 1000, mode: "soft" }])
        const expected: Array<readonly [answer: string, cost: number, method: string]> = []
        for (current of exchanges) {
          const odd = isOdd(current)
          for (const wire of wiresOf[current.dialect]!.slice(0, odd ? undefined : 1)) {
            const { body, path } = wires[wire]
            const used = reported(current)
            const cost = (used.input * input + used.output * output) * 1000
            // Whatever the provider sends: whole answers and streams are made of each other.
            for (const stream of odd && wire !== "embeddings" ? [false, true] : [current.streamed]) {
              const asked = { model: current.dialect, stream, ...body }
              const answer = yield* readAll(service, key, path, asked)
              const name = `${current.id} at ${path}, ${stream ? "streamed" : "whole"}`
              assert.strictEqual(answer.status, 200, `${name}: ${answer.text}`)
              assert.notMatch(answer.text, /"error":\{|response\.failed/, name)
              if (stream)
                assert.match(answer.text, /data: [^]*(?:\[DONE\]|"finish_reason":"|message_stop|response\.)/, name)
              expected.push([name, cost, "provider_usage"])
            }
          }
        }
        const rows = yield* usageRows(service, tenantId)
        assert.deepStrictEqual(
          rows.map(({ cost, method }, index) => [expected[index]?.[0], Number(cost), method]),
          expected
        )
        assert.isAbove(exchanges.length, 40)
      }).pipe(Effect.scoped)
    )
  }
)
