import * as crypto from "node:crypto"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { type Load, type Measured } from "./clients.ts"
import {
  call,
  giveWay,
  loadOn,
  median,
  print,
  root,
  serviceKey,
  type Server,
  type Spent,
  startProvider,
  startService,
  temporaryDirectory
} from "./rates.ts"

const seconds = Number(process.env.BENCH_SECONDS ?? "2")
const rounds = Number(process.env.BENCH_ROUNDS ?? "8")
/** Measures only what has this in its title. */
const only = process.env.BENCH_ONLY ?? ""
const warmSeconds = 8

type Sent = Omit<Load, "clients" | "seconds">

interface Measuring {
  readonly what: string
  readonly clients: number
  readonly sent: Sent
}

const titleOf = ({ clients, what }: Omit<Measuring, "sent">): string => `${what}, ${clients} at once`

/** More assertions than are used: each is good once, and signing takes the time of the clients. */
const signed = 40_000

const encoded = (value: object) => Buffer.from(JSON.stringify(value)).toString("base64url")

/** Bodies of `/oauth2/token`, each by an assertion of its own of one agent. */
const grants = async (url: string): Promise<() => string> => {
  const { id } = await call(url, serviceKey, "POST", "/api/agents", { name: "bench", scopeCeiling: ["llm:complete"] })
  const { privateKey, publicKey } = crypto.generateKeyPairSync("ed25519")
  const publicKeyPem = publicKey.export({ type: "spki", format: "pem" }).toString()
  await call(url, serviceKey, "POST", `/api/agents/${id}/keys`, { kid: "bench", algorithm: "EdDSA", publicKeyPem })
  const { issuer } = await call(url, serviceKey, "GET", "/.well-known/openid-configuration")
  const header = encoded({ alg: "EdDSA", kid: "bench" })
  const iat = Math.floor(Date.now() / 1000)
  const bodies = Array.from({ length: signed }, () => {
    const claims = { iss: id, sub: id, aud: issuer, iat, exp: iat + 280, jti: crypto.randomUUID() }
    const input = `${header}.${encoded(claims)}`
    const signature = crypto.sign(null, Buffer.from(input), privateKey).toString("base64url")
    return new URLSearchParams({
      grant_type: "client_credentials",
      client_assertion_type: "urn:ietf:params:oauth:client-assertion-type:jwt-bearer",
      client_assertion: `${input}.${signature}`
    }).toString()
  })
  return () => bodies.pop() ?? ""
}

/** What is measured of a service, in terms that older versions understand too. */
const measuringsOf = async ({ url }: Server, provider: Server): Promise<ReadonlyArray<Measuring>> => {
  await call(url, serviceKey, "PUT", "/api/llm/admin/config", {
    providers: [{ id: "bench", dialect: "openai", baseUrl: `${provider.url}/v1`, maxConcurrency: 1000 }],
    models: [
      {
        id: "bench",
        kind: "chat",
        prices: { inputUsdPerMTok: 0.1, outputUsdPerMTok: 0.4 },
        targets: [{ provider: "bench", model: "bench" }]
      }
    ]
  })
  const keyUnder = async (scopes: ReadonlyArray<object>): Promise<string> => {
    const tenant = await call(url, serviceKey, "POST", "/api/tenants", { name: `bench ${scopes.length}` })
    const { key } = await call(url, serviceKey, "POST", "/api/api-keys", {
      name: "bench",
      scopes: ["llm:*", "spend:*", "budgets:*"],
      tenantId: tenant.id
    })
    for (const [index, scope] of scopes.entries()) {
      await call(url, key, "POST", "/api/budgets/caps", {
        name: `bench ${index}`,
        unit: "usd",
        limit: 1_000_000,
        period: "month",
        scope
      })
    }
    return key
  }
  const one = await keyUnder([{}])
  const four = await keyUnder([{}, { apiKeyId: "each" }, { model: "bench" }, { provider: "bench" }])
  const user = await call(url, serviceKey, "POST", "/api/trial-users", {
    firstName: "Ada",
    lastName: "Lovelace",
    email: "ada@example.com"
  })
  const read = (path: string): Sent => ({ url, method: "GET", path, headers: { "x-api-key": serviceKey } })
  const reserve = (key: string): Sent => ({
    url,
    path: "/api/spend/reserve",
    headers: { "x-api-key": key, "content-type": "application/json" },
    body: () => `{"amountUsd":0.000001,"model":"bench","provider":"bench"}`
  })
  const chat = (key: string): Sent => ({
    url,
    path: "/v1/chat/completions",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: () => `{"model":"bench","messages":[{"role":"user","content":"What time is it in Oslo?"}]}`
  })
  const tokens: Sent = {
    url,
    path: "/oauth2/token",
    headers: { "content-type": "application/x-www-form-urlencoded" },
    body: await grants(url)
  }
  return [
    { what: "POST /oauth2/token", clients: 32, sent: tokens },
    { what: "GET /health", clients: 32, sent: read("/health") },
    { what: "GET /api/trial-users/{id}", clients: 32, sent: read(`/api/trial-users/${user.id}`) },
    { what: "a reservation, a lone client", clients: 1, sent: reserve(one) },
    { what: "a reservation, one hot cap", clients: 64, sent: reserve(one) },
    { what: "a reservation, four hot caps", clients: 64, sent: reserve(four) },
    ...[4, 16, 64, 256].map((clients) => ({ what: "a chat completion, one hot cap", clients, sent: chat(one) })),
    { what: "a chat completion, four hot caps", clients: 64, sent: chat(four) }
  ].filter((measuring) => titleOf(measuring).includes(only))
}

type Seen = Measured & Spent

const number = (value: number) => value.toFixed(value < 10 ? 1 : 0)

const shown = (all: ReadonlyArray<Seen>) => {
  const of = (name: keyof Seen) => number(median(all.map((one) => one[name])))
  return `${of("perSecond")}/s, p50 ${of("p50")}, p99 ${of("p99")} ms; ${of("process")} µs, ${of("mainThread")}, ${of("postgres")}`
}

/** This version's beside the other's of the same round, since the machine is not the same in every second. */
const ratios = (ours: ReadonlyArray<Seen>, theirs: ReadonlyArray<Seen>) => {
  const of = (name: keyof Seen) =>
    median(ours.map((one, round) => one[name] / (theirs[round]?.[name] ?? Number.NaN))).toFixed(2)
  return `rate ${of("perSecond")}, p99 ${of("p99")}; process ${of("process")}, main thread ${of("mainThread")}, PostgreSQL ${of("postgres")}`
}

/**
 * Runs this checkout and another, with its packages installed, in turns: what a change costs, or gains. The one that is
 * started first is slower by a tenth, so that each is for half of the rounds.
 */
const benchBeside = async (other: string): Promise<void> => {
  const checkouts = [root, path.resolve(other)]
  const seen = new Map<string, ReadonlyArray<Array<Seen>>>()
  for (const firstStarted of [0, 1]) {
    const provider = await startProvider()
    const running: Array<{ readonly checkout: number; readonly directory: string; readonly service: Server }> = []
    try {
      for (const checkout of firstStarted === 0 ? [0, 1] : [1, 0]) {
        const directory = await temporaryDirectory()
        const service = await startService(directory, { Api__RateLimit__Enabled: "false" }, checkouts[checkout])
        running.push({ checkout, directory, service })
      }
      const measured = await Promise.all(
        running.map(async ({ checkout, service }) => ({
          checkout,
          service,
          measurings: await measuringsOf(service, provider)
        }))
      )
      giveWay(provider)
      for (const { measurings, service } of measured) {
        for (const { clients, sent } of measurings) {
          await loadOn(service, { ...sent, clients, seconds: warmSeconds / 2 })
        }
      }
      for (const [place, measuring] of (measured[0]?.measurings ?? []).entries()) {
        const { clients } = measuring
        const title = titleOf(measuring)
        const all = seen.get(title) ?? checkouts.map(() => [])
        seen.set(title, all)
        for (let round = 0; round < rounds / 2; round++) {
          // What one leaves to do falls into the time of the other, so each goes first as often.
          for (const { checkout, measurings, service } of round % 2 === 0 ? measured : measured.toReversed()) {
            const { sent } = measurings[place]!
            all[checkout]?.push(await loadOn(service, { ...sent, clients, seconds }))
          }
        }
      }
    } finally {
      for (const { directory, service } of running) {
        await service.stop()
        await fs.rm(directory, { recursive: true, force: true })
      }
      await provider.stop()
    }
  }
  for (const [title, [ours = [], theirs = []]] of seen) {
    print(`${title}, median of ${rounds} rounds of ${seconds} s; processor time a request`, [
      { what: "this checkout", measured: shown(ours), wanted: "", met: true },
      { what: "the other", measured: shown(theirs), wanted: "", met: true },
      { what: "beside it", measured: ratios(ours, theirs), wanted: "", met: true }
    ])
  }
}

const [other] = process.argv.slice(2)
if (other === undefined) {
  process.stderr.write("Name another checkout, with its packages installed: npm run bench:beside -- ../before\n")
  process.exitCode = 2
} else await benchBeside(other)
