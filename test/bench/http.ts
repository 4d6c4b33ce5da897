import { median, print, rate, serviceKey, startFastify, startService, temporaryDirectory } from "./rates.ts"
import * as fs from "node:fs/promises"

const rounds = Number(process.env.BENCH_ROUNDS ?? "5")
const seconds = Number(process.env.BENCH_SECONDS ?? "3")

const perSecond = (value: number) => `${Math.round(value).toLocaleString("en")}/s`

/** Rates of a read by id, of /health and of a bare Fastify server, taken in turn so that all see the same machine. */
export const benchHttp = async (): Promise<void> => {
  const directory = await temporaryDirectory()
  const service = await startService(directory)
  const fastify = await startFastify()
  try {
    const created = await fetch(`${service.url}/api/trial-users`, {
      method: "POST",
      headers: { "content-type": "application/json", "x-api-key": serviceKey },
      body: JSON.stringify({ firstName: "Ada", lastName: "Lovelace", email: "ada@example.com" })
    })
    const { id } = (await created.json()) as { id: number }
    const targets = {
      fastify: `${fastify.url}/health`,
      health: `${service.url}/health`,
      read: `${service.url}/api/trial-users/${id}`
    }
    for (const url of Object.values(targets)) await rate(url, 2)
    const measured: Record<keyof typeof targets, Array<number>> = { fastify: [], health: [], read: [] }
    for (let round = 0; round < rounds; round++) {
      for (const name of ["fastify", "health", "read"] as const) measured[name].push(await rate(targets[name], seconds))
    }
    const [bare, health, read] = [median(measured.fastify), median(measured.health), median(measured.read)]
    print(`HTTP, 32 connections, median of ${rounds} rounds`, [
      { what: "bare Fastify, GET /health", measured: perSecond(bare), wanted: "", met: true },
      {
        what: "GET /health",
        measured: perSecond(health),
        wanted: `${(health / bare).toFixed(2)} of Fastify (wanted 0.50)`,
        met: health / bare >= 0.5
      },
      {
        what: "GET /api/trial-users/{id}: key check and SQL",
        measured: perSecond(read),
        wanted: `${(read / health).toFixed(2)} of /health (wanted 0.45)`,
        met: read / health >= 0.45
      }
    ])
  } finally {
    await Promise.all([service.stop(), fastify.stop()])
    await fs.rm(directory, { recursive: true, force: true })
  }
}

if (import.meta.main) await benchHttp()
