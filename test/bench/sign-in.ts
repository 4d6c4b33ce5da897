import * as fs from "node:fs/promises"
import { median, print, rate, serviceKey, startService, temporaryDirectory } from "./rates.ts"

const rounds = Number(process.env.BENCH_ROUNDS ?? "3")
const seconds = Number(process.env.BENCH_SECONDS ?? "2")

const perSecond = (value: number) => `${Math.round(value).toLocaleString("en")}/s`

const post = async (url: string, body: unknown): Promise<Record<string, unknown>> => {
  const answer = await fetch(url, {
    method: "POST",
    headers: { "content-type": "application/json", "x-api-key": serviceKey },
    body: JSON.stringify(body)
  })
  return (await answer.json()) as Record<string, unknown>
}

/** What the check of a session token costs beside that of an issued key, on the same read, taken in turn. */
export const benchSignIn = async (): Promise<void> => {
  const directory = await temporaryDirectory()
  const service = await startService(directory)
  try {
    const credentials = { email: "ada@example.com", password: "seven grey herons at dawn" }
    await post(`${service.url}/api/accounts`, { ...credentials, name: "Ada", roleIds: [1] })
    const user = { firstName: "Ada", lastName: "Lovelace", email: "ada@example.com" }
    const { id } = await post(`${service.url}/api/trial-users`, user)
    const { key } = await post(`${service.url}/api/api-keys`, { name: "bench", scopes: ["trial-users:read"] })
    const login = () => post(`${service.url}/api/auth/login`, credentials)
    const { token } = await login()
    const callers = {
      key: { "x-api-key": String(key) },
      session: { authorization: `Bearer ${String(token)}` }
    }
    const measured: Record<keyof typeof callers, Array<number>> = { key: [], session: [] }
    const read = (name: keyof typeof callers) =>
      rate(service.url, [`/api/trial-users/${String(id)}`], seconds, 32, callers[name])
    for (const name of ["key", "session"] as const) await read(name)
    for (let round = 0; round < rounds; round++) {
      for (const name of ["key", "session"] as const) measured[name].push(await read(name))
    }
    const logins = 20
    const begun = performance.now()
    for (let count = 0; count < logins; count++) await login()
    const millis = (performance.now() - begun) / logins
    const [byKey, bySession] = [median(measured.key), median(measured.session)]
    print(`Sign-in, 32 connections, median of ${rounds} rounds`, [
      { what: "GET /api/trial-users/{id} with an issued key", measured: perSecond(byKey), wanted: "", met: true },
      {
        what: "the same with a session token",
        measured: perSecond(bySession),
        wanted: `${(bySession / byKey).toFixed(2)} of the key (wanted 0.80)`,
        met: bySession / byKey >= 0.8
      },
      {
        what: "POST /api/auth/login, one after another",
        measured: `${millis.toFixed(0)} ms`,
        wanted: "most of it argon2id",
        met: true
      }
    ])
  } finally {
    await service.stop()
    await fs.rm(directory, { recursive: true, force: true })
  }
}

if (import.meta.main) await benchSignIn()
