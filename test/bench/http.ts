import * as fs from "node:fs/promises"
import { median, print, rate, serviceKey, startFastify, startService, temporaryDirectory } from "./rates.ts"

const rounds = Number(process.env.BENCH_ROUNDS ?? "5")
const seconds = Number(process.env.BENCH_SECONDS ?? "3")

const perSecond = (value: number) => `${Math.round(value).toLocaleString("en")}/s`

const createUser = async (url: string, index: number): Promise<number> => {
  const created = await fetch(`${url}/api/trial-users`, {
    method: "POST",
    headers: { "content-type": "application/json", "x-api-key": serviceKey },
    body: JSON.stringify({ firstName: "Ada", lastName: "Lovelace", email: `ada-${index}@example.com` })
  })
  return ((await created.json()) as { id: number }).id
}

/** Rates of a read by id, of /health and of a bare Fastify server, taken in turn so that all see the same machine. */
export const benchHttp = async (): Promise<void> => {
  const directory = await temporaryDirectory()
  const service = await startService(directory)
  const fastify = await startFastify()
  try {
    const ids = await Promise.all(Array.from({ length: 200 }, (_, index) => createUser(service.url, index)))
    const targets = {
      fastify: { url: fastify.url, paths: ["/health"] },
      health: { url: service.url, paths: ["/health"] },
      read: { url: service.url, paths: ids.map((id) => `/api/trial-users/${id}`) }
    }
    for (const { paths, url } of Object.values(targets)) await rate(url, paths, 5)
    const measured: Record<keyof typeof targets, Array<number>> = { fastify: [], health: [], read: [] }
    for (let round = 0; round < rounds; round++) {
      for (const name of ["fastify", "health", "read"] as const)
        measured[name].push(await rate(targets[name].url, targets[name].paths, seconds))
    }
    // The machine is not the same in every second: what is compared was measured in the same round.
    const share = (of: keyof typeof targets, base: keyof typeof targets) =>
      median(measured[of].map((one, round) => one / (measured[base][round] ?? Number.NaN)))
    const [ofFastify, ofHealth] = [share("health", "fastify"), share("read", "health")]
    print(`HTTP, 32 connections, median of ${rounds} rounds`, [
      { what: "bare Fastify, GET /health", measured: perSecond(median(measured.fastify)), wanted: "", met: true },
      {
        what: "GET /health",
        measured: perSecond(median(measured.health)),
        wanted: `${ofFastify.toFixed(2)} of Fastify (wanted 0.50)`,
        met: ofFastify >= 0.5
      },
      {
        what: "GET /api/trial-users/{id}: key check and SQL",
        measured: perSecond(median(measured.read)),
        wanted: `${ofHealth.toFixed(2)} of /health (wanted 0.45)`,
        met: ofHealth >= 0.45
      }
    ])
  } finally {
    await Promise.all([service.stop(), fastify.stop()])
    await fs.rm(directory, { recursive: true, force: true })
  }
}

if (import.meta.main) await benchHttp()
