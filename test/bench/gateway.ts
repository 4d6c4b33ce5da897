import * as fs from "node:fs/promises"
import { type Measured as Seen } from "./clients.ts"
import {
  call,
  giveWay,
  loadOn,
  median,
  print,
  residentMegabytes,
  type Row,
  type Server,
  type Spent,
  serviceKey,
  startPortkey,
  startProvider,
  startService,
  temporaryDirectory
} from "./rates.ts"
import { readStreams, type Source } from "./streams.ts"

const seconds = Number(process.env.BENCH_SECONDS ?? "2")
const rounds = Number(process.env.BENCH_ROUNDS ?? "3")
const warmSeconds = 8
const levels = [4, 16, 64, 256]
/** Below this many connections, waiting for commits decides the rate, not the processor. */
const busyConnections = 64
const calls = Number(process.env.BENCH_CALLS ?? "200000")
const secondsPerSample = 3

export interface Target extends Source {
  readonly server: Server
  /** What is asked for; a chat completion unless given. */
  readonly asked?: { readonly path: string; readonly body: string }
}

type Measured = Seen & Spent

const body = JSON.stringify({ model: "bench", messages: [{ role: "user", content: "What time is it in Oslo?" }] })

export const load = ({ asked, headers, server, url }: Target, clients: number, during: number): Promise<Measured> =>
  loadOn(server, {
    url,
    path: asked?.path ?? "/v1/chat/completions",
    clients,
    seconds: during,
    body: () => asked?.body ?? body,
    headers: { "content-type": "application/json", ...headers }
  })

/** A key of a tenant of its own, under caps of these scopes. */
export const spender = async (url: string, scopes: ReadonlyArray<object>): Promise<Source["headers"]> => {
  const { id: tenantId } = await call(url, serviceKey, "POST", "/api/tenants", { name: `bench ${scopes.length}` })
  const { key } = await call(url, serviceKey, "POST", "/api/api-keys", { name: "bench", scopes: ["llm:*"], tenantId })
  for (const [index, scope] of scopes.entries()) {
    const cap = { name: `bench ${index}`, unit: "usd", limit: 1_000_000, period: "month", scope, tenantId }
    await call(url, serviceKey, "POST", "/api/budgets/caps", cap)
  }
  return { authorization: `Bearer ${key}` }
}

/** Two models of a provider: one that answers chat completions, and one that has responses of its own. */
export const configureModels = async (url: string, provider: Server): Promise<void> => {
  await call(url, serviceKey, "PUT", "/api/llm/admin/config", {
    providers: ["bench", "native"].map((id) => ({
      id,
      dialect: "openai",
      baseUrl: `${provider.url}/v1`,
      maxConcurrency: 1000,
      apis: [id === "bench" ? "chat" : "responses"]
    })),
    models: ["bench", "native"].map((id) => ({
      id,
      kind: "chat",
      prices: { inputUsdPerMTok: 0.1, outputUsdPerMTok: 0.4 },
      targets: [{ provider: id, model: "bench" }]
    }))
  })
}

const middle = (measured: ReadonlyArray<Measured>): Measured => {
  const of = (name: keyof Measured) => median(measured.map((one) => one[name]))
  return {
    perSecond: of("perSecond"),
    p50: of("p50"),
    p99: of("p99"),
    process: of("process"),
    mainThread: of("mainThread"),
    postgres: of("postgres")
  }
}
const shown = ({ p50, p99, perSecond }: Measured) =>
  `${Math.round(perSecond).toLocaleString("en")}/s, p50 ${p50.toFixed(0)} ms, p99 ${p99.toFixed(0)} ms`
const row = (what: string, measured: string, wanted = "", met = true): Row => ({ what, measured, wanted, met })

const micros = (value: number) => value.toFixed(0).padStart(3)

/** Rates vary with the machine from second to second, so each is compared with the peer's of the same round. */
const throughput = async (
  targets: Readonly<Record<string, Target>>,
  peer: string,
  connections: number
): Promise<void> => {
  const measured = new Map(Object.keys(targets).map((name) => [name, [] as Array<Measured>]))
  for (let round = 0; round < rounds; round++) {
    for (const [name, target] of Object.entries(targets)) {
      measured.get(name)?.push(await load(target, connections, seconds))
    }
  }
  const theirs = measured.get(peer) ?? []
  const theirMiddle = middle(theirs)
  const rows = [...measured].map(([name, all]) => {
    const ours = middle(all)
    const spent = `${micros(ours.process)} µs a call, main thread ${micros(ours.mainThread)}, PostgreSQL ${micros(ours.postgres)}`
    if (!name.startsWith("metered")) return row(name, shown(ours), spent)
    const times = median(all.map(({ perSecond }, round) => perSecond / (theirs[round]?.perSecond ?? Number.NaN)))
    const wanted = connections < busyConnections ? "" : " (wanted 2, and its p99)"
    const isMet = connections < busyConnections || (times >= 2 && ours.p99 < theirMiddle.p99)
    return row(name, shown(ours), `${spent}; ${times.toFixed(2)} times Portkey${wanted}`, isMet)
  })
  print(`LLM gateway, ${connections} connections, median of ${rounds} rounds of ${seconds} s; processor time`, rows)
}

const asResponse = (target: Target, model: string, store: boolean): Target => ({
  ...target,
  asked: {
    path: "/v1/responses",
    body: JSON.stringify({ model, input: "What time is it in Oslo?", store })
  }
})

/** Responses beside chat completions, in turns: each rate is compared with that of the same round. */
const everyMillis = 200

const shownSilence = (longest: number, half: number) =>
  `${longest.toFixed(0)} ms, of half of them ${half.toFixed(0)} ms`

/** The longest silences of 500 streams; those of the provider itself are the machine's own. */
const silences = async (bare: Source, ours: Source): Promise<ReadonlyArray<Row>> => {
  const many = { atOnce: 500, rounds: 3, tokens: 10, everyMillis }
  const direct = await readStreams(bare, many)
  const { longestSilenceMillis, silenceMillis } = await readStreams(ours, many)
  return [
    row(
      `500 streams, a token each ${everyMillis} ms: the longest silence of any`,
      shownSilence(longestSilenceMillis, silenceMillis),
      `below ${2 * everyMillis} ms`,
      longestSilenceMillis < 2 * everyMillis
    ),
    row("the same from the provider itself", shownSilence(direct.longestSilenceMillis, direct.silenceMillis))
  ]
}

const responses = async (bare: Source, chat: Target): Promise<void> => {
  const targets: ReadonlyArray<readonly [name: string, target: Target, wanted: number]> = [
    ["a chat completion", chat, 0],
    ["a response, native", asResponse(chat, "native", false), 0.95],
    ["a response, translated", asResponse(chat, "bench", false), 0.6],
    ["a response, translated and stored", asResponse(chat, "bench", true), 0]
  ]
  for (const [, target] of targets) await load(target, busyConnections, warmSeconds / 2)
  const measured = targets.map((): Array<Measured> => [])
  for (let round = 0; round < rounds; round++) {
    for (const [index, [, target]] of targets.entries()) {
      measured[index]?.push(await load(target, busyConnections, seconds))
    }
  }
  const rows = targets.map(([name, , wanted], index) => {
    const own = measured[index] ?? []
    const share = median(own.map(({ perSecond }, round) => perSecond / (measured[0]?.[round]?.perSecond ?? Number.NaN)))
    const ours = middle(own)
    const spent = `${micros(ours.process)} µs a call, main thread ${micros(ours.mainThread)}`
    return row(
      name,
      shown(ours),
      `${spent}; ${share.toFixed(2)} of a chat completion${wanted > 0 ? ` (wanted ${wanted})` : ""}`,
      share >= wanted
    )
  })
  print(`Responses, ${busyConnections} connections, median of ${rounds} rounds of ${seconds} s`, rows)
  print("Streams of translated responses", await silences(bare, { ...chat, isResponses: true }))
}

const streaming = async (bare: Source, ours: Source): Promise<void> => {
  const few = { atOnce: 50, rounds: 6, tokens: 20, everyMillis: 25 }
  await readStreams(ours, { ...few, rounds: 2 })
  const firsts: Array<{ readonly direct: number; readonly added: number }> = []
  for (let round = 0; round < rounds; round++) {
    const direct = (await readStreams(bare, few)).firstMillis
    firsts.push({ direct, added: (await readStreams(ours, few)).firstMillis - direct })
  }
  const direct = median(firsts.map((one) => one.direct))
  const added = median(firsts.map((one) => one.added))
  print("Streams through the gateway, metered", [
    row("first token, from the provider itself, 50 streams", `${direct.toFixed(2)} ms`),
    row("added by the gateway", `${added.toFixed(2)} ms`, "below 2 ms", added < 2),
    ...(await silences(bare, ours))
  ])
}

const memory = async (target: Target): Promise<void> => {
  const samples: Array<number> = []
  for (let made = 0; made < calls;) {
    const { perSecond } = await load(target, 64, secondsPerSample)
    made += perSecond * secondsPerSample
    samples.push(await residentMegabytes(target.server))
  }
  const half = Math.floor(samples.length / 2)
  const [early, late] = [median(samples.slice(0, half)), median(samples.slice(half))]
  print(`Memory over ${calls.toLocaleString("en")} calls`, [
    row(`resident after each ${secondsPerSample} s`, samples.map((one) => one.toFixed(0)).join(" "), "MB"),
    row("second half beside the first", `${(late / early).toFixed(2)} times`, "at most 1.10", late <= 1.1 * early)
  ])
}

/**
 * Calls through the gateway, every one metered, beside what meters nothing; in turns, in one run, after long enough for
 * both to be compiled. On two cores the gateway's process, PostgreSQL, the provider and what measures share what there is:
 * 64 clients keep Portkey's thread busy, and leave a fifth of the machine idle beside this gateway; 256 keep both busy.
 * Of the gateway's thread a quarter goes into writing to sockets, a sixth into the steps of effects, a tenth into collecting
 * garbage, and PostgreSQL takes half as long again. What a call waits for is one commit, which calls of a tenant share in
 * batches; what it did cost is charged after its answer left, in batches of its own.
 */
export const benchGateway = async (): Promise<void> => {
  const directory = await temporaryDirectory()
  const provider = await startProvider()
  const service = await startService(directory, { Api__RateLimit__Enabled: "false" })
  const portkey = await startPortkey()
  try {
    const { url } = service
    await configureModels(url, provider)
    const through = async (scopes: ReadonlyArray<object>): Promise<Target> => ({
      server: service,
      url,
      headers: await spender(url, scopes)
    })
    const bare: Target = { server: provider, url: provider.url, headers: {} }
    const theirs: Target = {
      server: portkey,
      url: portkey.url,
      headers: {
        authorization: "Bearer sk-bench",
        "x-portkey-provider": "openai",
        "x-portkey-custom-host": `${provider.url}/v1`
      }
    }
    const hot = await through([{}])
    const peer = "Portkey, which meters nothing"
    const targets = {
      "the provider itself": bare,
      [peer]: theirs,
      "metered, no cap": await through([]),
      "metered, one hot cap": hot,
      "metered, four caps of a hierarchy": await through([
        {},
        { apiKeyId: "each" },
        { model: "bench" },
        { provider: "bench" }
      ])
    }
    giveWay(provider)
    for (const target of Object.values(targets)) await load(target, busyConnections, warmSeconds)
    for (const connections of levels) await throughput(targets, peer, connections)
    await responses(bare, hot)
    await streaming(bare, hot)
    await memory(hot)
  } finally {
    await portkey.stop()
    await service.stop()
    await provider.stop()
    await fs.rm(directory, { recursive: true, force: true })
  }
}

if (import.meta.main) await benchGateway()
