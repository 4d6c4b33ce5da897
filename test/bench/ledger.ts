import autocannon from "autocannon"
import { Effect } from "effect"
import * as crypto from "node:crypto"
import * as fs from "node:fs/promises"
import { median, print, type Row, serviceKey, startForUpdate, startService, temporaryDirectory } from "./rates.ts"

const rounds = Number(process.env.BENCH_ROUNDS ?? "3")
const seconds = Number(process.env.BENCH_SECONDS ?? "3")
const clients = 64

interface Measured {
  readonly perSecond: number
  readonly p50: number
  readonly p99: number
}

interface Load {
  readonly url: string
  readonly key: string
  readonly path?: string
  readonly method?: "GET" | "POST"
  readonly connections?: number
  /** Bodies that are sent in turn. */
  readonly bodies?: ReadonlyArray<object>
  readonly keyed?: boolean
  readonly duration?: number
}

const withKey = (sent: autocannon.Request) => {
  const headers = { ...sent.headers, "idempotency-key": crypto.randomUUID() }
  return { ...sent, headers }
}

/** Requests a second of some connections, and what they waited; any answer that is not 2xx ends the benchmark. */
const load = async (given: Load): Promise<Measured> => {
  const {
    bodies = [{ amountUsd: 0.000001 }],
    connections = clients,
    key,
    method = "POST",
    path = "/api/spend/reserve"
  } = given
  const requests = bodies.map((body): autocannon.Request => {
    const request = method === "POST" ? { method, path, body: JSON.stringify(body) } : { method, path }
    if (given.keyed !== true) return request
    return Object.assign(request, { setupRequest: withKey })
  })
  const result = await autocannon({
    url: given.url,
    connections,
    duration: given.duration ?? seconds,
    headers: { "x-api-key": key, "content-type": "application/json" },
    requests
  })
  if (result.non2xx > 0 || result.errors > 0) {
    throw new Error(`${path}: ${result.non2xx} refused, ${result.errors} broken`)
  }
  return { perSecond: result.requests.total / result.duration, p50: result.latency.p50, p99: result.latency.p99 }
}

const call = async (url: string, key: string, method: string, path: string, body?: unknown) => {
  const answer = await fetch(`${url}${path}`, {
    method,
    headers: { "x-api-key": key, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
  return text === "" ? undefined : JSON.parse(text)
}

const count = (value: number) => Math.round(value).toLocaleString("en")
const perSecond = (value: number) => `${count(value)}/s`
const times = (value: number) => `${value.toFixed(1)} times`

const middle = (measured: ReadonlyArray<Measured>): Measured => ({
  perSecond: median(measured.map((one) => one.perSecond)),
  p50: median(measured.map((one) => one.p50)),
  p99: median(measured.map((one) => one.p99))
})

/** A tenant with a key, and caps for it. */
const prepare = async (url: string, caps: ReadonlyArray<object>) => {
  const tenant = await call(url, serviceKey, "POST", "/api/tenants", { name: `bench ${crypto.randomUUID()}` })
  const { key } = await call(url, serviceKey, "POST", "/api/api-keys", {
    name: "bench",
    scopes: ["spend:*", "budgets:*", "agents:*"],
    tenantId: tenant.id
  })
  for (const cap of caps) {
    await call(url, key, "POST", "/api/budgets/caps", { unit: "usd", limit: 1_000_000, period: "month", ...cap })
  }
  return { key: String(key), tenantId: String(tenant.id) }
}

const run = async (): Promise<void> => {
  const directory = await temporaryDirectory()
  const service = await startService(directory, { Api__RateLimit__PerMinute: "100000000" })
  const rows: Array<Row> = []
  try {
    const { url } = service
    const hot = await prepare(url, [{ name: "hot" }])
    const naive = await startForUpdate(directory, hot.key)
    const targets = {
      "no work": { url, key: hot.key, path: "/api/auth/me", method: "GET" },
      "one hot cap": { url, key: hot.key },
      "one hot cap, keyed": { url, key: hot.key, keyed: true },
      "FOR UPDATE": { url: naive.url, key: hot.key }
    } satisfies Record<string, Load>
    const measured = new Map<string, Array<Measured>>()
    for (const target of Object.values(targets)) await load({ ...target, duration: 2 })
    for (let round = 0; round < rounds; round++) {
      for (const [name, target] of Object.entries(targets)) {
        measured.set(name, [...(measured.get(name) ?? []), await load(target)])
      }
    }
    const of = (name: keyof typeof targets) => middle(measured.get(name) ?? [])
    const idle = of("no work")
    const one = of("one hot cap")
    const keyed = of("one hot cap, keyed")
    const locked = of("FOR UPDATE")
    rows.push(
      { what: "GET /api/auth/me: a key checked, no work", measured: perSecond(idle.perSecond), wanted: "", met: true },
      {
        what: "SELECT … FOR UPDATE of the same endpoint",
        measured: perSecond(locked.perSecond),
        wanted: `p99 ${locked.p99} ms`,
        met: true
      },
      {
        what: "POST /api/spend/reserve, one hot cap",
        measured: perSecond(one.perSecond),
        wanted: `${times(one.perSecond / locked.perSecond)} (wanted 10), ${(one.perSecond / idle.perSecond).toFixed(2)} of no work (wanted 0.25), p99 ${one.p99} ms (wanted 25)`,
        met: one.perSecond / locked.perSecond >= 10 && one.perSecond / idle.perSecond >= 0.25 && one.p99 <= 25
      },
      {
        what: "the same with an Idempotency-Key each",
        measured: perSecond(keyed.perSecond),
        wanted: `${times(keyed.perSecond / locked.perSecond)}, p99 ${keyed.p99} ms`,
        met: keyed.p99 <= 25
      }
    )
    print(`Ledger over HTTP, ${clients} clients, median of ${rounds} rounds of ${seconds} s`, rows)
    await naive.stop()
  } finally {
    await service.stop()
    await fs.rm(directory, { recursive: true, force: true })
  }
}

/** Reservations through HTTP beside an implementation that locks the cap's row for each. */
export const benchLedger = Effect.promise(run)

if (import.meta.main) await Effect.runPromise(benchLedger)
