import { Effect } from "effect"
import * as crypto from "node:crypto"
import * as fs from "node:fs/promises"
import { load, type Load, type Measured } from "./clients.ts"
import { benchAgent } from "./for-update-tables.ts"
import { addOld, placeOf, sweepRate } from "./ledger-data.ts"
import {
  call,
  median,
  print,
  type Row,
  serviceKey,
  startDistance,
  startForUpdate,
  startService,
  temporaryDirectory
} from "./rates.ts"

const rounds = Number(process.env.BENCH_ROUNDS ?? "3")
const seconds = Number(process.env.BENCH_SECONDS ?? "3")
const oldReservations = Number(process.env.BENCH_OLD_RESERVATIONS ?? "1000000")
const dueReservations = 200_000
const clients = 64
const caps = 2_000

const count = (value: number) => Math.round(value).toLocaleString("en")
const perSecond = (value: number) => `${count(value)}/s`
const times = (value: number) => `${value.toFixed(1)} times`
const millis = (value: number) => `${value.toFixed(value < 10 ? 1 : 0)} ms`

const middle = (measured: ReadonlyArray<Measured>): Measured => ({
  perSecond: median(measured.map((one) => one.perSecond)),
  p50: median(measured.map((one) => one.p50)),
  p99: median(measured.map((one) => one.p99))
})

/** A tenant with a key, and caps for it. */
const prepare = async (url: string, given: ReadonlyArray<object>): Promise<string> => {
  const tenant = await call(url, serviceKey, "POST", "/api/tenants", { name: `bench ${crypto.randomUUID()}` })
  const { key } = await call(url, serviceKey, "POST", "/api/api-keys", {
    name: "bench",
    scopes: ["spend:*", "budgets:*", "agents:*"],
    tenantId: tenant.id
  })
  for (const cap of given) {
    await call(url, key, "POST", "/api/budgets/caps", { unit: "usd", limit: 1_000_000, period: "month", ...cap })
  }
  return key
}

type Target = Omit<Load, "clients" | "seconds">

const reserveOf = (url: string, key: string, body: () => string = () => `{"amountUsd":0.000001}`): Target => ({
  url,
  headers: { "x-api-key": key, "content-type": "application/json" },
  path: "/api/spend/reserve",
  body
})
const hierarchyBody = (agentId: string) => () =>
  `{"amountUsd":0.000001,"agentId":"${agentId}","taskType":"bench","model":"bench"}`
const oneOfManyBody = () => `{"amountUsd":0.000001,"taskType":"task-${crypto.randomInt(caps)}"}`
const keyed = (target: Target): Target => ({
  ...target,
  ownHeaders: () => `idempotency-key: ${crypto.randomUUID()}\r\n`
})

/** What is loaded, of the service and of the implementation with row locks. */
const targetsOf = async (url: string, naiveUrl: string) => {
  const one = await prepare(url, [{ name: "hot" }])
  const four = await prepare(url, [
    { name: "tenant" },
    { name: "each agent", scope: { agentId: "each" } },
    { name: "task", scope: { taskType: "bench" } },
    { name: "model", scope: { model: "bench" } }
  ])
  const agent = await call(url, four, "POST", "/api/agents", { name: "bench", scopeCeiling: ["spend:*"] })
  const many = await prepare(
    url,
    Array.from({ length: caps }, (_, index) => ({ name: `task ${index}`, scope: { taskType: `task-${index}` } }))
  )
  const noWork: Target = { url, headers: { "x-api-key": one }, path: "/api/auth/me", method: "GET" }
  return {
    noWork,
    single: { ...reserveOf(naiveUrl, "one"), path: "/api/spend/reserve-in-one" },
    one: { ours: reserveOf(url, one), naive: reserveOf(naiveUrl, "one") },
    keyed: { ours: keyed(reserveOf(url, one)), naive: keyed(reserveOf(naiveUrl, "one")) },
    four: {
      ours: reserveOf(url, four, hierarchyBody(String(agent.id))),
      naive: reserveOf(naiveUrl, "four", hierarchyBody(benchAgent))
    },
    many: { ours: reserveOf(url, many, oneOfManyBody), naive: reserveOf(naiveUrl, "many", oneOfManyBody) }
  }
}

interface Compared {
  readonly ours: Measured
  readonly naive: Measured
}

/** `noWork` is what the endpoint without work serves, where the same server was asked. */
const row = (what: string, { naive, ours }: Compared, noWork: Measured | undefined, wantedTimes?: number): Row => {
  const ratio = ours.perSecond / naive.perSecond
  const share = noWork === undefined ? undefined : ours.perSecond / noWork.perSecond
  const wanted = wantedTimes === undefined ? "" : ` (wanted ${wantedTimes})`
  const beside = share === undefined ? "" : `; ${share.toFixed(2)} of no work (wanted 0.25)`
  return {
    what,
    measured: `${perSecond(ours.perSecond)}, p99 ${millis(ours.p99)}`,
    wanted: `${times(ratio)}${wanted} ${perSecond(naive.perSecond)}, p99 ${millis(naive.p99)}${beside}`,
    met: ratio >= (wantedTimes ?? 0) && (share ?? 1) >= 0.25 && ours.p99 <= 25
  }
}

const measure = (target: Target, atOnce = clients, during = seconds) =>
  load({ ...target, clients: atOnce, seconds: during })

/** The host may be the directory of a Unix socket. */
const urlOf = (host: string, port: number, password: string) =>
  `postgres://postgres:${encodeURIComponent(password)}@localhost/postgres?host=${encodeURIComponent(host)}&port=${port}`

/** The same on a database that is a millisecond away, as one is that has a machine of its own. */
const farAway = async (directory: string, environment: Record<string, string>): Promise<Compared> => {
  const { host, password, port } = await placeOf(directory)
  const distance = await startDistance(host, port)
  const own = await temporaryDirectory()
  const databaseUrl = urlOf("127.0.0.1", Number(distance.url), password)
  const service = await startService(own, { ...environment, Database__Url: databaseUrl })
  const naive = await startForUpdate(databaseUrl)
  try {
    const ours = reserveOf(service.url, await prepare(service.url, [{ name: "far" }]))
    const locked = reserveOf(naive.url, "one")
    await measure(ours, clients, 2)
    await measure(locked, clients, 2)
    return { ours: await measure(ours), naive: await measure(locked) }
  } finally {
    await naive.stop()
    await service.stop()
    await distance.stop()
    await fs.rm(own, { recursive: true, force: true })
  }
}

const run = async (): Promise<void> => {
  const directory = await temporaryDirectory()
  const environment = {
    Api__RateLimit__PerMinute: "100000000",
    Budgets__MaxCaps: "10000",
    Security__EncryptionKey: crypto.randomBytes(32).toString("base64")
  }
  const service = await startService(directory, environment)
  try {
    const { host, password, port } = await placeOf(directory)
    const naive = await startForUpdate(urlOf(host, port, password))
    const targets = await targetsOf(service.url, naive.url)
    const pairs = { one: targets.one, four: targets.four, keyed: targets.keyed, many: targets.many }
    const all = [targets.noWork, ...Object.values(pairs).flatMap(({ naive: locked, ours }) => [ours, locked])]
    for (const target of all) await measure(target, clients, 2)
    const measured = new Map<Target, Array<Measured>>()
    for (let round = 0; round < rounds; round++) {
      for (const target of all) measured.set(target, [...(measured.get(target) ?? []), await measure(target)])
    }
    const of = (target: Target) => middle(measured.get(target) ?? [])
    const compared = (name: keyof typeof pairs) => ({ ours: of(pairs[name].ours), naive: of(pairs[name].naive) })
    const noWork = of(targets.noWork)

    const shapes: Array<Row> = []
    for (const atOnce of [1, 10, 50, 64, 200]) {
      const [ours, locked] = [await measure(targets.one.ours, atOnce), await measure(targets.one.naive, atOnce)]
      shapes.push({
        what: `${atOnce} clients`.padStart(11),
        measured: `${perSecond(ours.perSecond)}, p50 ${millis(ours.p50)}, p99 ${millis(ours.p99)}`,
        wanted: `${perSecond(locked.perSecond)}, p50 ${millis(locked.p50)}, p99 ${millis(locked.p99)}`,
        met: true
      })
    }
    const [lone, single] = [await measure(targets.one.ours, 1), await measure(targets.single, 1)]

    await addOld(directory, "hot", oldReservations)
    const aged = { ours: await measure(targets.one.ours), naive: await measure(targets.one.naive) }
    const far = await farAway(directory, environment)
    const swept = await sweepRate(directory, "hot", dueReservations)

    print(
      `Reservations over HTTP, ${clients} clients, median of ${rounds} rounds of ${seconds} s, beside SELECT … FOR UPDATE`,
      [
        { what: "GET /api/auth/me: no work", measured: perSecond(noWork.perSecond), wanted: "", met: true },
        row("one hot cap", compared("one"), noWork, 10),
        row("four hot caps for each", compared("four"), noWork, 10),
        row("one hot cap, an Idempotency-Key for each", compared("keyed"), noWork),
        row(`one of ${count(caps)} caps`, compared("many"), noWork, 2),
        row("one hot cap, the database 1 ms away", far, undefined, 10),
        row(`one hot cap, ${count(oldReservations)} old reservations`, aged, noWork),
        {
          what: "a lone request",
          measured: millis(lone.p50),
          wanted: `a single statement ${millis(single.p50)} (wanted at most 1 ms less)`,
          met: lone.p50 <= single.p50 + 1
        },
        {
          what: "sweep of what has expired",
          measured: perSecond(swept),
          wanted: `(wanted 50,000)`,
          met: swept >= 50_000
        }
      ]
    )
    print("One hot cap, beside SELECT … FOR UPDATE", shapes)
    await naive.stop()
  } finally {
    await service.stop()
    await fs.rm(directory, { recursive: true, force: true })
  }
}

/** Reservations through HTTP beside an implementation that locks the cap's row for each. */
export const benchLedger = Effect.promise(run)

if (import.meta.main) await Effect.runPromise(benchLedger)
