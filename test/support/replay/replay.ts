import { Effect } from "effect"
import { parsedJson } from "../../../src/kernel/json/parsed-json.ts"
import { configure, model, provider, spender, usageRows } from "../gateway.ts"
import { type Answerer, startProvider } from "../provider.ts"
import { type RecordedExchange } from "../recorded.ts"
import { TestService } from "../service.ts"
import { type Call, type Difference } from "./differences.ts"
import { type Json } from "./gists.ts"
import { type Address, type Judged, judgeOf, type JudgeName, judges, translated } from "./judges.ts"
import { advisorPrices, advisorsOf, replayCost, replayPrices, reportedUsage } from "./reported.ts"

/** Where a recorded body is cut: after each line, within names and within characters, by a rule that is the same each time. */
const pieces = (body: Buffer): ReadonlyArray<Buffer> => {
  const cuts = new Set<number>()
  let seed = body.length
  for (let times = 0; times < 40; times++) {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
    cuts.add(seed % body.length)
  }
  for (let at = 0; at < body.length && cuts.size < 80; at++) {
    if (body[at] === 10 || (body[at] ?? 0) > 127) cuts.add(at + 1)
  }
  const places = [0, ...[...cuts].filter((at) => at > 0 && at < body.length).toSorted((a, b) => a - b), body.length]
  return places.slice(1).map((end, index) => body.subarray(places[index], end))
}

/** Answers with a recorded answer, at once or piece by piece. */
const answererOf = ({ body, contentType, headers, status }: RecordedExchange, isChopped: boolean): Answerer => {
  const bytes = Buffer.from(body)
  return (_, response) => {
    response.writeHead(status, { ...headers, "content-type": contentType })
    if (!isChopped || bytes.length === 0) return void response.end(bytes)
    const left = [...pieces(bytes)]
    const send = () => {
      const piece = left.shift()
      if (piece === undefined) response.end()
      else response.write(piece, () => setImmediate(send))
    }
    response.socket?.setNoDelay(true)
    send()
  }
}

/** The API by which the provider of a dialect is reached. */
const apiOf = (dialect: string): string => dialect.replace(/^openai-/, "").replace(/-.*/, "")

/** The name of the model that answers as an exchange does. */
export const modelOf = ({ dialect, request }: RecordedExchange): string => `${dialect}/${request?.model ?? "none"}`

/** A service that is configured for the exchanges, the provider that gives their answers, and a key whose cap is soft. */
export const setUpReplay = Effect.fnUntraced(function* (exchanges: ReadonlyArray<RecordedExchange>) {
  const service = yield* TestService
  const standIn = yield* startProvider((_, response) => void response.end())
  const advisors = new Set(exchanges.flatMap(advisorsOf))
  const models = new Map(exchanges.map((exchange) => [modelOf(exchange), exchange]))
  const apis = ["chat", "responses", "completions", "embeddings"]
  yield* configure(
    service,
    [
      ...apis.map((api) => provider(api, standIn, { apis: [api] })),
      provider("anthropic", standIn, { dialect: "anthropic", baseUrl: standIn.url })
    ],
    [
      // The prices of a model are those of the first that has it as its target.
      ...Array.from(advisors, (name) =>
        model(`advisor-${name}`, [], {
          targets: [{ provider: "anthropic", model: name }],
          prices: advisorPrices
        })
      ),
      ...Array.from(models, ([name, { dialect, request }]) =>
        model(name, [], {
          kind: dialect === "openai-embeddings" ? "embedding" : "chat",
          targets: [{ provider: apiOf(dialect), model: String(request?.model ?? "none") }],
          prices: replayPrices,
          ...(dialect === "openai-embeddings" ? {} : { contextTokens: 1_000_000 })
        })
      )
    ]
  )
  const { key, tenantId } = yield* spender(service, [{ limit: 1_000_000, mode: "soft" }])
  return { service, standIn, key, tenantId }
})
export type Replay = Effect.Success<ReturnType<typeof setUpReplay>>

/** What may be another at each call: names that the gateway gives, and what it seals. */
const isNamed = (name: string): boolean =>
  /(?:^|_)ids?$|^model$|signature|encrypted_content$|^sdkHttpResponse$/.test(name)

/** An answer without what may be another each time. */
export const masked = (value: Json): Json => {
  if (Array.isArray(value)) return value.map(masked)
  if (typeof value !== "object" || value === null) return value
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, member]) =>
      member === undefined ? [] : [[name, isNamed(name) ? "" : masked(member)]]
    )
  )
}

/** What a failure says; vendors and their SDKs put other things around it. */
const failureOf = (error: Json): Json => {
  const text = String(error.message)
  const { error: body } = (parsedJson(text.slice(text.indexOf("{"))) ?? {}) as Json
  return {
    status: error.status ?? null,
    code: error.code ?? body?.code ?? null,
    type: error.type ?? body?.type ?? null,
    message: typeof body?.message === "string" ? body.message : text.replace(/^\d+ /, "")
  }
}

export type Outcome = Judged | { readonly failure: Json }

const asked = (judge: JudgeName, address: Address, request: Json, isStreamed: boolean): Effect.Effect<Outcome> =>
  Effect.promise(() =>
    judges[judge].ask(address, request, isStreamed).then(
      (answer): Outcome => answer,
      (error: unknown) => ({ failure: failureOf(error) })
    )
  )

/** How an answer is asked for: by the SDK of each format, as it was recorded, in pieces, and in the other form. */
const waysOf = ({
  dialect,
  streamed
}: RecordedExchange): ReadonlyArray<readonly [judge: JudgeName, isStreamed: boolean, isChopped: boolean]> => {
  const own = judgeOf[dialect]!
  const isTranslated = own in translated
  const hasOtherForm = isTranslated || own === "completions"
  return (isTranslated ? (Object.keys(translated) as ReadonlyArray<JudgeName>) : [own]).flatMap((judge) =>
    [[judge, streamed, false] as const, [judge, streamed, true] as const].concat(
      hasOtherForm ? [[judge, !streamed, false] as const] : []
    )
  )
}

/** The members of two answers that are not the same. */
const compare = (expected: Json, actual: Json): ReadonlyArray<readonly [field: string, expected: Json, actual: Json]> =>
  [...new Set([...Object.keys(expected), ...Object.keys(actual)])]
    .filter((name) => JSON.stringify(expected[name]) !== JSON.stringify(actual[name]))
    .map((name) => [name, expected[name], actual[name]])

/** What a call was charged that is not what its answer reports, at prices that are another of each class. */
const chargedOtherwise = (call: Call, row: Json): ReadonlyArray<Difference> => {
  if (call.exchange.status !== 200)
    return Number(row?.cost ?? 0) === 0 ? [] : [{ ...call, field: "charge", expected: 0, actual: row.cost }]
  const usage = reportedUsage(call.exchange)
  if (usage.input + usage.output === 0) return []
  const expected = { method: "provider_usage", ...usage, cost: replayCost(call.exchange) }
  const actual = {
    method: row?.method,
    input: row?.inputTokens,
    cached: row?.cachedInputTokens,
    written: row?.cacheWriteTokens,
    written1h: row?.cacheWrite1hTokens,
    output: row?.outputTokens,
    reasoning: row?.reasoningTokens,
    searches: row?.toolUses?.webSearch ?? 0,
    cost: Number(row?.cost)
  }
  return compare(expected, actual).map(([field, was, is]) =>
    Object.assign({ field: `charge.${field}`, expected: was, actual: is }, call)
  )
}

/**
 * Replays recorded answers through the gateway, to the SDK of each format, as they were recorded and in the other form, whole
 * and in pieces. What the SDK of the provider's vendor reads from the provider itself is what all of them should read.
 */
export const replayAnswers = Effect.fnUntraced(function* (
  { key, service, standIn, tenantId }: Replay,
  exchanges: ReadonlyArray<RecordedExchange>
) {
  const differences: Array<Difference> = []
  const calls: Array<Call> = []
  const direct = { url: standIn.url, key: "none" }
  const through = { url: service.url, key }
  for (const exchange of exchanges) {
    const own = judgeOf[exchange.dialect]!
    standIn.answer = answererOf(exchange, false)
    const given = yield* asked(own, direct, { ...judges[own].question, model: "none" }, exchange.streamed)
    const { input, output } = exchange.status === 200 ? reportedUsage(exchange) : { input: 0, output: 0 }
    const isMetered = input + output > 0
    for (const [judge, isStreamed, isChopped] of waysOf(exchange)) {
      standIn.answer = answererOf(exchange, isChopped)
      const by = `${judge}, ${isStreamed ? "streamed" : "whole"}${isChopped ? ", in pieces" : ""}`
      const call = { exchange, judge, by, given, label: `call-${calls.length}` }
      const note = (field: string, expected: Json, actual: Json) =>
        differences.push({ ...call, field, expected, actual })
      const question = { ...judges[judge].question, model: modelOf(exchange) }
      calls.push(call)
      const address = { ...through, headers: { "x-task-type": call.label } }
      const got = yield* asked(judge, address, question, isStreamed)
      if ("failure" in given && "failure" in got) {
        for (const [field, expected, actual] of compare(given.failure, got.failure))
          if (judge === own || field === "status" || field === "message") note(`error.${field}`, expected, actual)
      } else if ("failure" in got) note("failure", null, got.failure)
      else if ("failure" in given) note("success", given.failure, got.gist)
      else {
        // In its own format a usage passes as it is written; what others are to read is what it means.
        const { cached, input: read, output: written, reasoning } = reportedUsage(exchange)
        const usage = judge === own ? given.gist.usage : { input: read, cached, output: written, reasoning }
        for (const [field, expected, actual] of compare({ ...given.gist, usage }, got.gist))
          if (isMetered || field !== "usage") note(field, expected, actual)
        const [expected, actual] = [masked(given.events), masked(got.events)]
        if (judge === own && isStreamed === exchange.streamed && JSON.stringify(expected) !== JSON.stringify(actual))
          note("events", expected, actual)
      }
    }
  }
  const rows = new Map((yield* usageRows(service, tenantId)).map((row) => [row.taskType, row]))
  for (const call of calls) differences.push(...chargedOtherwise(call, rows.get(call.label)))
  return { differences, calls }
})
