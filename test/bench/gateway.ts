import autocannon from "autocannon"
import * as fs from "node:fs/promises"
import { median, print, serviceKey, startPortkey, startProvider, startService, temporaryDirectory } from "./rates.ts"

const seconds = Number(process.env.BENCH_SECONDS ?? "5")
const rounds = 3
const connections = 50
/** Where `@portkey-ai/gateway` is installed; without it there is nothing to compare with. */
const portkeyServer = process.env.BENCH_PORTKEY

interface Measured {
  readonly perSecond: number
  readonly p99Millis: number
}

const body = JSON.stringify({ model: "bench", messages: [{ role: "user", content: "What time is it in Oslo?" }] })

const measure = async (url: string, headers: Record<string, string>): Promise<Measured> => {
  const result = await autocannon({
    url: `${url}/v1/chat/completions`,
    method: "POST",
    connections,
    duration: seconds,
    body,
    headers: { "content-type": "application/json", ...headers }
  })
  if (result.non2xx > 0 || result.errors > 0)
    throw new Error(`${url}: ${result.non2xx} refused, ${result.errors} broken`)
  return { perSecond: result.requests.total / result.duration, p99Millis: result.latency.p99 }
}

const call = async (url: string, method: string, path: string, payload: object) => {
  const headers = { "content-type": "application/json", "x-api-key": serviceKey }
  const answer = await fetch(`${url}${path}`, { method, headers, body: JSON.stringify(payload) })
  if (!answer.ok) throw new Error(`${path}: ${answer.status} ${await answer.text()}`)
}

const middle = (measured: ReadonlyArray<Measured>): Measured => ({
  perSecond: median(measured.map(({ perSecond }) => perSecond)),
  p99Millis: median(measured.map(({ p99Millis }) => p99Millis))
})
const shown = ({ p99Millis, perSecond }: Measured) =>
  `${Math.round(perSecond).toLocaleString("en")}/s, p99 ${p99Millis} ms`

/** Chat completions through the gateway, every one metered by a cap, beside what meters nothing; in turns, in one run. */
export const benchGateway = async (): Promise<void> => {
  const directory = await temporaryDirectory()
  const provider = await startProvider()
  const service = await startService(directory)
  const portkey = portkeyServer === undefined ? undefined : await startPortkey(portkeyServer)
  try {
    const prices = { inputUsdPerMTok: 0.1, outputUsdPerMTok: 0.4 }
    await call(service.url, "PUT", "/api/llm/admin/config", {
      providers: [{ id: "bench", dialect: "openai", baseUrl: `${provider.url}/v1` }],
      models: [{ id: "bench", kind: "chat", prices, targets: [{ provider: "bench", model: "bench" }] }]
    })
    await call(service.url, "POST", "/api/budgets/caps", {
      name: "bench",
      unit: "usd",
      limit: 1_000_000,
      period: "month"
    })
    const own: Array<Measured> = []
    const theirs: Array<Measured> = []
    const bare: Array<Measured> = []
    for (let round = 0; round < rounds; round++) {
      bare.push(await measure(provider.url, {}))
      own.push(await measure(service.url, { authorization: `Bearer ${serviceKey}` }))
      if (portkey !== undefined) {
        theirs.push(
          await measure(portkey.url, {
            authorization: "Bearer sk-bench",
            "x-portkey-provider": "openai",
            "x-portkey-custom-host": `${provider.url}/v1`
          })
        )
      }
    }
    const [ours, other] = [middle(own), theirs.length === 0 ? undefined : middle(theirs)]
    print("LLM gateway, 50 connections", [
      { what: "the provider itself", measured: shown(middle(bare)), wanted: "", met: true },
      { what: "through the gateway, metered", measured: shown(ours), wanted: "", met: true },
      ...(other === undefined
        ? []
        : [
            { what: "through Portkey, which meters nothing", measured: shown(other), wanted: "", met: true },
            {
              what: "requests a second beside Portkey",
              measured: `${(ours.perSecond / other.perSecond).toFixed(2)} times`,
              wanted: "at least 2 times",
              met: ours.perSecond >= 2 * other.perSecond
            },
            {
              what: "p99 beside Portkey",
              measured: `${ours.p99Millis} ms`,
              wanted: `below ${other.p99Millis} ms`,
              met: ours.p99Millis < other.p99Millis
            }
          ])
    ])
  } finally {
    await portkey?.stop()
    await service.stop()
    await provider.stop()
    await fs.rm(directory, { recursive: true, force: true })
  }
}

if (import.meta.main) await benchGateway()
