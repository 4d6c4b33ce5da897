import * as fs from "node:fs/promises"
import * as http from "node:http"
import { load, type Measured } from "./clients.ts"
import { serviceKey, startService, temporaryDirectory } from "./rates.ts"

/** Streams of the audit log that one tenant opens, and what another tenant's reservations wait beside them. */
const attempted = 1000
const keysOfTenant = 10
const seconds = 5
const rounds = 3

const directory = await temporaryDirectory()
const service = await startService(directory, { Api__RateLimit__Enabled: "false" })
const call = async (path: string, body: object) => {
  const answer = await fetch(`${service.url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-api-key": serviceKey },
    body: JSON.stringify(body)
  })
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
  return (await answer.json()) as { readonly id: string; readonly key: string }
}
const makeKey = async (tenantId: string, scopes: ReadonlyArray<string>) =>
  (await call("/api/api-keys", { name: "bench", tenantId, scopes })).key

const median = (values: ReadonlyArray<number>): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0
const figures = (all: ReadonlyArray<Measured>): string =>
  `${median(all.map(({ p99 }) => p99))
    .toFixed(1)
    .padStart(10)} ${median(all.map(({ perSecond }) => perSecond))
    .toFixed(0)
    .padStart(12)}`

const agent = new http.Agent({ maxSockets: Infinity })
const open = (key: string) =>
  new Promise<http.IncomingMessage>((resolve, reject) => {
    http
      .get(`${service.url}/api/audit-logs/stream`, { agent, headers: { "x-api-key": key } }, (response) => {
        response.resume()
        response.on("error", () => {})
        resolve(response)
      })
      .once("error", reject)
  })

try {
  const many = await call("/api/tenants", { name: "many streams" })
  const other = await call("/api/tenants", { name: "the other" })
  const reserving = await makeKey(other.id, ["spend:*", "audit-logs:read"])
  await call("/api/budgets/caps", { name: "a cap", unit: "usd", limit: 1_000_000, period: "month", tenantId: other.id })
  const reserve = () =>
    load({
      url: service.url,
      path: "/api/spend/reserve",
      clients: 16,
      seconds,
      headers: { "x-api-key": reserving, "content-type": "application/json" },
      body: () => JSON.stringify({ amountUsd: 0.001 })
    })
  await reserve()
  const without = []
  for (let round = 0; round < rounds; round++) without.push(await reserve())

  const statuses = new Map<number, number>()
  const streams: Array<http.IncomingMessage> = []
  for (let index = 0; index < keysOfTenant; index++) {
    const key = await makeKey(many.id, ["audit-logs:read"])
    const opened = await Promise.all(Array.from({ length: attempted / keysOfTenant }, () => open(key)))
    streams.push(...opened)
    for (const { statusCode = 0 } of opened) statuses.set(statusCode, (statuses.get(statusCode) ?? 0) + 1)
  }
  const others = await open(reserving)
  const beside = []
  for (let round = 0; round < rounds; round++) beside.push(await reserve())

  const opened = statuses.get(200) ?? 0
  process.stdout.write(
    `${attempted} streams of one tenant are answered ${JSON.stringify(Object.fromEntries(statuses))}, another's ${others.statusCode}.\n` +
      `reserves of the other tenant     p99 ms    per second\n` +
      `without streams              ${figures(without)}\n` +
      `beside ${String(opened).padStart(4)} streams          ${figures(beside)}\n`
  )
  for (const stream of [...streams, others]) stream.destroy()
} finally {
  agent.destroy()
  await service.stop()
  await fs.rm(directory, { recursive: true, force: true })
}
