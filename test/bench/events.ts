import * as fs from "node:fs/promises"
import * as http from "node:http"
import { type AddressInfo } from "node:net"
import { setTimeout as sleep } from "node:timers/promises"
import { load } from "./clients.ts"
import { serviceKey, startService, temporaryDirectory } from "./rates.ts"

/** How long events take to a follower of the stream, how many webhooks are delivered, and what writes pay for either. */
const eventsPerSecond = 1000
const batchSize = 25
const streamSeconds = 10
const deliveries = 10_000
const rounds = 3
const roundSeconds = 4

const directory = await temporaryDirectory()
const service = await startService(directory, {
  Api__RateLimit__Enabled: "false",
  Integrations__AllowPrivateAddresses: "true"
})
const headers = { "content-type": "application/json", "x-api-key": serviceKey }
const post = async (path: string, body: unknown, contentType = "application/json") => {
  const answer = await fetch(service.url + path, {
    method: "POST",
    headers: { ...headers, "content-type": contentType },
    body: JSON.stringify(body)
  })
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
  return (await answer.json()) as { readonly id: string }
}

let made = 0
const publish = (size: number, type: string) =>
  post(
    "/api/cloudevents",
    Array.from({ length: size }, () => ({
      specversion: "1.0",
      id: `${made++}`,
      source: "https://bench.example",
      type
    })),
    "application/cloudevents-batch+json"
  )

const at = (sorted: ReadonlyArray<number>, share: number) =>
  (sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN).toFixed(0)

/** When each event came over the stream. */
const arrivals = new Map<number, number>()
const follow = () =>
  new Promise<http.IncomingMessage>((resolve, reject) => {
    http
      .get(`${service.url}/api/cloudevents/stream?types=bench.*`, { headers }, (response) => {
        let rest = ""
        response.setEncoding("utf8").on("data", (chunk: string) => {
          const now = performance.now()
          const blocks = (rest + chunk).split("\n\n")
          rest = blocks.pop() ?? ""
          for (const block of blocks) {
            const id = /"id":"(\d+)"/.exec(block)?.[1]
            if (id !== undefined) arrivals.set(Number(id), now)
          }
        })
        resolve(response)
      })
      .once("error", reject)
  })

const received = { count: 0 }
const receiver = http.createServer((request, response) => {
  request.resume().on("end", () => {
    received.count++
    response.writeHead(204).end()
  })
})
await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve))
const url = `http://127.0.0.1:${(receiver.address() as AddressInfo).port}/hook`

const write = () =>
  load({
    url: service.url,
    path: "/api/trial-users",
    clients: 8,
    seconds: roundSeconds,
    headers,
    body: () => JSON.stringify({ firstName: "Ada", lastName: "Lovelace", email: `ada${made++}@example.com` })
  })
const median = (values: ReadonlyArray<number>): number => values.toSorted((a, b) => a - b)[values.length >> 1] ?? 0

try {
  const stream = await follow()
  await publish(batchSize, "bench.warm")
  await sleep(1000)
  const waits: Array<number> = []
  const begun = performance.now()
  const pending: Array<Promise<void>> = []
  for (let batch = 0; batch < (eventsPerSecond * streamSeconds) / batchSize; batch++) {
    await sleep(Math.max(0, begun + (batch * batchSize * 1000) / eventsPerSecond - performance.now()))
    const first = made
    pending.push(
      publish(batchSize, "bench.streamed").then(async () => {
        const committed = performance.now()
        while (!arrivals.has(first + batchSize - 1)) await sleep(20)
        for (let id = first; id < first + batchSize; id++) waits.push(Math.max(0, arrivals.get(id)! - committed))
      })
    )
  }
  await Promise.all(pending)
  const rate = (waits.length * 1000) / (performance.now() - begun)
  stream.destroy()
  const sorted = waits.toSorted((a, b) => a - b)
  process.stdout.write(
    `streaming ${rate.toFixed(0)} events/s: ${at(sorted, 0.5)} ms behind the commit at the median, ${at(sorted, 0.99)} ms at the 99th percentile, ${at(sorted, 1)} ms at worst (250 wanted)\n`
  )

  const integration = await post("/api/integrations", {
    kind: "webhook",
    name: "bench",
    url,
    eventTypes: ["bench.delivered"]
  })
  for (let sent = 0; sent < deliveries; sent += 500) await publish(500, "bench.delivered")
  const [before, from] = [received.count, performance.now()]
  while (received.count < deliveries) await sleep(50)
  process.stdout.write(
    `delivering: ${(((deliveries - before) * 1000) / (performance.now() - from)).toFixed(0)} signed webhooks/s to one receiver (500 wanted)\n`
  )

  await write()
  const plain: Array<number> = []
  const followed: Array<number> = []
  for (let round = 0; round < rounds; round++) {
    await fetch(`${service.url}/api/integrations/${integration.id}`, {
      method: "PATCH",
      headers,
      body: JSON.stringify({ status: "disabled" })
    })
    plain.push((await write()).p50)
    await fetch(`${service.url}/api/integrations/${integration.id}`, {
      method: "PATCH",
      headers,
      body: JSON.stringify({ status: "active" })
    })
    followed.push((await write()).p50)
  }
  process.stdout.write(
    `a write: ${median(plain).toFixed(2)} ms at the median without a target, ${median(followed).toFixed(2)} ms while events are dispatched\n`
  )
} finally {
  receiver.closeAllConnections()
  receiver.close()
  await service.stop()
  await fs.rm(directory, { recursive: true, force: true })
}
