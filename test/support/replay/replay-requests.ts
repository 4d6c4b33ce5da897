import { Effect } from "effect"
import { configure, model, provider, spender, whenCharged } from "../gateway.ts"
import { type Answerer, json, startProvider } from "../provider.ts"
import { type RecordedExchange } from "../recorded.ts"
import { TestService } from "../service.ts"
import { type RequestDifference } from "./differences.ts"
import { type Json } from "./gists.ts"
import { judgeOf, judges, translated, type TranslatedName } from "./judges.ts"
import { requestGists, type RequestGist } from "./request-gists.ts"

const usage = { prompt_tokens: 3, completion_tokens: 1, total_tokens: 4 }
/** A short answer in the format of each path. */
const shortAnswers: ReadonlyArray<readonly [path: RegExp, answer: object]> = [
  [
    /\/chat\/completions$/,
    {
      id: "c",
      object: "chat.completion",
      choices: [{ index: 0, message: { role: "assistant", content: "Yes." }, finish_reason: "stop" }],
      usage
    }
  ],
  [
    /\/messages$/,
    {
      id: "msg_1",
      type: "message",
      role: "assistant",
      content: [{ type: "text", text: "Yes." }],
      stop_reason: "end_turn",
      usage: { input_tokens: 3, output_tokens: 1 }
    }
  ],
  [
    /\/responses$/,
    {
      id: "resp_1",
      object: "response",
      status: "completed",
      output: [
        {
          id: "m",
          type: "message",
          role: "assistant",
          status: "completed",
          content: [{ type: "output_text", text: "Yes.", annotations: [] }]
        }
      ],
      usage: { input_tokens: 3, output_tokens: 1, total_tokens: 4 }
    }
  ],
  [
    /:generateContent/,
    {
      candidates: [{ index: 0, content: { role: "model", parts: [{ text: "Yes." }] }, finishReason: "STOP" }],
      usageMetadata: { promptTokenCount: 3, candidatesTokenCount: 1, totalTokenCount: 4 }
    }
  ]
]

const answerShortly: Answerer = ({ path }, response) => {
  const [, answer = {}] = shortAnswers.find(([pattern]) => pattern.test(path)) ?? []
  json(response, 200, answer)
}

const compare = (expected: Json, actual: Json) =>
  Object.keys(expected)
    .filter((name) => JSON.stringify(expected[name]) !== JSON.stringify(actual[name]))
    .map((name) => ({ field: name, expected: expected[name], actual: actual[name] }))

/** Replays recorded requests to a provider of each format, and compares what the provider is asked with what was asked. */
export const replayRequests = Effect.fnUntraced(function* (exchanges: ReadonlyArray<RecordedExchange>) {
  const service = yield* TestService
  const standIn = yield* startProvider(answerShortly)
  yield* configure(
    service,
    [
      provider("chat", standIn, { apis: ["chat"] }),
      provider("responses", standIn, { apis: ["responses"] }),
      provider("messages", standIn, { dialect: "anthropic", baseUrl: standIn.url }),
      provider("gemini", standIn, { dialect: "gemini", baseUrl: `${standIn.url}/v1beta` })
    ],
    Object.keys(translated).map((name) => model(name, [name], { contextTokens: 1_000_000 }))
  )
  const { key } = yield* spender(service, [{ limit: 1_000_000, mode: "soft" }])
  const differences: Array<RequestDifference> = []
  for (const exchange of exchanges) {
    const from = judgeOf[exchange.dialect] as TranslatedName
    const expected: RequestGist = requestGists[from](exchange.request)
    for (const to of Object.keys(translated) as ReadonlyArray<TranslatedName>) {
      standIn.requests.length = 0
      const betas = exchange.requestHeaders?.["anthropic-beta"]
      const address = { url: service.url, key, headers: betas === undefined ? {} : { "anthropic-beta": betas } }
      const failure = yield* Effect.promise(() =>
        judges[from].ask(address, { ...exchange.request, model: to }, false).then(
          () => undefined,
          (error: unknown) => String((error as Error).message)
        )
      )
      const [received] = standIn.requests
      if (received === undefined)
        differences.push({ exchange, from, to, field: "refused", expected: null, actual: failure })
      else
        differences.push(
          ...compare(expected, requestGists[to](received.body)).map((found) =>
            Object.assign({ exchange, from, to }, found)
          )
        )
    }
  }
  return differences
})

/** What the gateway adds or gives another value, in a request of the provider's own format. */
const ours = new Set(["model", "stream", "stream_options"])

const nameOf = ({ dialect, request }: RecordedExchange) => `${judgeOf[dialect]}/${request?.model ?? "none"}`

/**
 * Replays recorded requests with their answers, in their own format and under a hard cap: what the provider gets is what was
 * asked, and the answer costs no more than was reserved.
 */
export const replayExchanges = Effect.fnUntraced(function* (exchanges: ReadonlyArray<RecordedExchange>) {
  const service = yield* TestService
  const standIn = yield* startProvider(answerShortly)
  const members: Readonly<Record<string, object>> = {
    chat: { apis: ["chat"] },
    responses: { apis: ["responses"] },
    messages: { dialect: "anthropic", baseUrl: standIn.url }
  }
  const models = new Map(exchanges.map((exchange) => [nameOf(exchange), exchange]))
  yield* configure(
    service,
    Object.entries(members).map(([id, given]) => provider(id, standIn, given)),
    Array.from(models, ([name, { dialect, request }]) =>
      model(name, [], {
        targets: [{ provider: judgeOf[dialect], model: String(request?.model ?? "none") }],
        contextTokens: 1_000_000
      })
    )
  )
  const { key, tenantId } = yield* spender(service, [{ limit: 1_000_000 }])
  const differences: Array<RequestDifference> = []
  for (const [index, exchange] of exchanges.entries()) {
    const from = judgeOf[exchange.dialect] as TranslatedName
    standIn.requests.length = 0
    standIn.answer = (_, response) =>
      void response.writeHead(exchange.status, { "content-type": exchange.contentType }).end(exchange.body)
    const betas = exchange.requestHeaders?.["anthropic-beta"]
    const headers = { "x-task-type": `call-${index}`, ...(betas === undefined ? {} : { "anthropic-beta": betas }) }
    const address = { url: service.url, key, headers }
    const failure = yield* Effect.promise(() =>
      judges[from].ask(address, { ...exchange.request, model: nameOf(exchange) }, exchange.streamed).then(
        () => undefined,
        (error: unknown) => String((error as Error).message)
      )
    )
    const [received] = standIn.requests
    const note = (field: string, expected: Json, actual: Json) =>
      differences.push({ exchange, from, to: from, field, expected, actual })
    if (received === undefined) note("refused", null, failure)
    else
      for (const name of new Set([...Object.keys(exchange.request ?? {}), ...Object.keys(received.body)])) {
        const [was, is]: ReadonlyArray<Json> = [exchange.request?.[name], received.body[name]]
        if (!ours.has(name) && JSON.stringify(was) !== JSON.stringify(is)) note(`member ${name}`, was, is)
      }
  }
  const reservations = yield* whenCharged(
    service,
    (sql) => sql<{ readonly label: string; readonly held: string; readonly charged: string }>`
      SELECT task_type AS label, amount::text AS held, actual::text AS charged FROM budget_reservations
      WHERE tenant_id = ${tenantId} AND state = 'settled'`
  )
  const overspent = reservations
    .filter(({ charged, held }) => BigInt(charged) > BigInt(held))
    .map(({ charged, held, label }) => ({ id: exchanges[Number(label.slice("call-".length))]?.id, held, charged }))
  return { differences, overspent }
})
