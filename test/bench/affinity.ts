import * as fs from "node:fs/promises"
import { load, type Measured } from "./clients.ts"
import { placeOf } from "./ledger-data.ts"
import {
  call,
  median,
  postgresSeconds,
  print,
  processorSeconds,
  type Server,
  serviceKey,
  startDistance,
  startService,
  temporaryDirectory
} from "./rates.ts"

/** What it gains when a load balancer sends the calls of each tenant, whose caps are hot, to one replica of three. */
const seconds = Number(process.env.BENCH_SECONDS ?? "3")
const rounds = Number(process.env.BENCH_ROUNDS ?? "6")
const replicas = 3
const clients = 63

const environment = {
  Api__RateLimit__Enabled: "false",
  Security__EncryptionKey: Buffer.alloc(32, 7).toString("base64")
}

interface Seen extends Pick<Measured, "perSecond" | "p50" | "p99"> {
  /** Processor time for each request, in microseconds. */
  readonly process: number
  readonly postgres: number
}

/** Reservations of all tenants at once: each tenant's at its own replica, or at all. */
const measure = async (
  servers: ReadonlyArray<Server>,
  database: Server,
  keys: ReadonlyArray<string>,
  isKept: boolean
): Promise<Seen> => {
  const spent = async () => ({
    process: (await Promise.all(servers.map(processorSeconds))).reduce((sum, one) => sum + one, 0),
    postgres: await postgresSeconds(database)
  })
  const before = await spent()
  const loads = keys.flatMap((key, tenant) =>
    servers.flatMap(({ url }, at) =>
      isKept && at !== tenant
        ? []
        : [
            load({
              url,
              path: "/api/spend/reserve",
              headers: { "x-api-key": key, "content-type": "application/json" },
              body: () => `{"amountUsd":0.000001}`,
              clients: clients / replicas / (isKept ? 1 : replicas),
              seconds
            })
          ]
    )
  )
  const seen = await Promise.all(loads)
  const after = await spent()
  const perSecond = seen.reduce((sum, one) => sum + one.perSecond, 0)
  const micros = (name: "process" | "postgres") => ((after[name] - before[name]) / (perSecond * seconds)) * 1e6
  return {
    perSecond,
    p50: median(seen.map(({ p50 }) => p50)),
    p99: Math.max(...seen.map(({ p99 }) => p99)),
    process: micros("process"),
    postgres: micros("postgres")
  }
}

const shown = (all: ReadonlyArray<Seen>) => {
  const of = (name: keyof Seen) => median(all.map((one) => one[name])).toFixed(name === "p50" ? 1 : 0)
  return `${of("perSecond")}/s, p50 ${of("p50")}, p99 ${of("p99")} ms; ${of("process")} µs of replicas, ${of("postgres")} of PostgreSQL`
}

const run = async (title: string, servers: ReadonlyArray<Server>, database: Server, keys: ReadonlyArray<string>) => {
  for (const isKept of [true, false]) await measure(servers, database, keys, isKept)
  const seen = { kept: Array<Seen>(), spread: Array<Seen>() }
  for (let round = 0; round < rounds; round++) {
    seen.kept.push(await measure(servers, database, keys, true))
    seen.spread.push(await measure(servers, database, keys, false))
  }
  print(
    `${title}: ${replicas} replicas, ${replicas} tenants, each with a hot cap, ${clients} clients; ${rounds} rounds`,
    [
      { what: "each tenant at one replica", measured: shown(seen.kept), wanted: "", met: true },
      { what: "at all replicas", measured: shown(seen.spread), wanted: "", met: true }
    ]
  )
}

const directory = await temporaryDirectory()
const own = await temporaryDirectory()
const first = await startService(directory, environment)
const others: Array<Server> = []
try {
  const { host, password, port } = await placeOf(directory)
  const distance = await startDistance(host, port)
  others.push(distance)
  const urlOf = (at: string, to: number) =>
    `postgres://postgres:${encodeURIComponent(password)}@localhost/postgres?host=${encodeURIComponent(at)}&port=${to}`
  const start = (url: string) => startService(own, { ...environment, Database__Url: url })
  const keys: Array<string> = []
  for (let tenant = 0; tenant < replicas; tenant++) {
    const { id } = await call(first.url, serviceKey, "POST", "/api/tenants", { name: `tenant ${tenant}` })
    const made = { name: "bench", scopes: ["spend:*", "budgets:*"], tenantId: id }
    const { key } = await call(first.url, serviceKey, "POST", "/api/api-keys", made)
    const cap = { name: "hot", unit: "usd", limit: 1_000_000, period: "month" }
    await call(first.url, key, "POST", "/api/budgets/caps", cap)
    keys.push(key)
  }
  for (const [title, url] of [
    ["the database beside them", urlOf(host, port)],
    ["a millisecond away", urlOf("127.0.0.1", Number(distance.url))]
  ] as const) {
    const servers = await Promise.all(Array.from({ length: replicas }, () => start(url)))
    others.push(...servers)
    await run(title, servers, first, keys)
    for (const server of servers) await server.stop()
  }
} finally {
  for (const server of others) await server.stop()
  await first.stop()
  for (const made of [directory, own]) await fs.rm(made, { recursive: true, force: true })
}
