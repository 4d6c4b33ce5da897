import { Array as List, Effect } from "effect"
import * as crypto from "node:crypto"
import * as fs from "node:fs/promises"
import { median, print, type Row, serviceKey, startService, temporaryDirectory } from "./rates.ts"

const introspections = Number(process.env.BENCH_INTROSPECTIONS ?? "600")
const accounts = 12
const triesOfEach = 4

interface Sent {
  readonly path: string
  readonly body: object
  readonly headers: Record<string, string>
}

const post = async (url: string, { body, headers, path }: Sent) => {
  const answer = await fetch(`${url}${path}`, {
    method: "POST",
    headers: { "content-type": "application/json", ...headers },
    body: JSON.stringify(body)
  })
  return { status: answer.status, text: await answer.text() }
}

const make = async (url: string, path: string, body: object): Promise<Record<string, string>> => {
  const { status, text } = await post(url, { path, body, headers: { "x-api-key": serviceKey } })
  if (status >= 300) throw new Error(`${path}: ${status} ${text}`)
  return JSON.parse(text) as Record<string, string>
}

/** Milliseconds of two kinds of requests, one after another and in turn, so that what slows the machine slows both. */
const inTurn = async (url: string, expected: number, kinds: readonly [ReadonlyArray<Sent>, ReadonlyArray<Sent>]) => {
  const millis: readonly [Array<number>, Array<number>] = [[], []]
  for (let index = 0; index < kinds[0].length; index++) {
    for (const kind of index % 2 === 0 ? ([0, 1] as const) : ([1, 0] as const)) {
      const begun = performance.now()
      const { status, text } = await post(url, List.getUnsafe(kinds[kind], index))
      millis[kind].push(performance.now() - begun)
      if (status !== expected) throw new Error(`${status} ${text}`)
    }
  }
  return millis
}

/** The standard error of a median, by the median of what is off it: a few slow answers do not count. */
const errorOf = (values: ReadonlyArray<number>): number => {
  const middle = median(values)
  return (1.2533 * 1.4826 * median(values.map((value) => Math.abs(value - middle)))) / Math.sqrt(values.length)
}

const row = (what: string, [one, other]: readonly [ReadonlyArray<number>, ReadonlyArray<number>]): Row => {
  const difference = median(one) - median(other)
  const noise = 4 * Math.hypot(errorOf(one), errorOf(other))
  return {
    what,
    measured: `${(difference * 1000).toFixed(0)} µs apart`,
    wanted: `of ${median(other).toFixed(2)} ms, noise ${(noise * 1000).toFixed(0)} µs, ${one.length} of each`,
    met: Math.abs(difference) <= noise
  }
}

const introspection = async (url: string) => {
  const { id: tenantId = "" } = await make(url, "/api/tenants", { name: "Another" })
  const { key = "" } = await make(url, "/api/api-keys", { name: "bench", scopes: ["agents:introspect"], tenantId })
  const { id } = await make(url, "/api/agents", { name: "bench", scopeCeiling: ["llm:complete"] })
  const foreign: Array<string> = []
  for (let count = 0; count < introspections; count++) {
    foreign.push((await make(url, `/api/agents/${id}/credentials`, {})).accessToken ?? "")
  }
  const sent = (token: string): Sent => ({
    path: "/api/agents/introspect",
    body: { token },
    headers: { "x-api-key": key }
  })
  const malformed = foreign.map((token) => `${crypto.randomUUID()}${token.slice(36).replaceAll(".", "-")}`)
  return row(
    "POST /api/agents/introspect: another tenant's live token, and a malformed one",
    await inTurn(url, 200, [foreign.map(sent), malformed.map(sent)])
  )
}

const signIn = async (url: string) => {
  let addresses = 0
  const sent = (email: string): Sent => {
    addresses += 1
    return {
      path: "/api/auth/login",
      body: { email, password: "nine brown otters at dusk" },
      headers: { "x-forwarded-for": `10.2.${Math.floor(addresses / 256)}.${addresses % 256}` }
    }
  }
  const password = "seven grey herons at dawn"
  const known = List.makeBy(accounts, (index) => `known${index}@example.com`)
  for (const email of known) await make(url, "/api/accounts", { email, name: "Ada", password, roleIds: [] })
  const tried = List.makeBy(triesOfEach, () => known).flat()
  return row(
    "POST /api/auth/login: a wrong password, and an unknown account",
    await inTurn(url, 401, [tried.map(sent), tried.map((email) => sent(`un${email}`))])
  )
}

const run = async (): Promise<void> => {
  const directory = await temporaryDirectory()
  const service = await startService(directory, {
    Api__RateLimit__Enabled: "false",
    Api__TrustedProxies__0: "127.0.0.1/32"
  })
  try {
    print("What must take one time", [await introspection(service.url), await signIn(service.url)])
  } finally {
    await service.stop()
    await fs.rm(directory, { recursive: true, force: true })
  }
}

/** How far apart answers are in time that must not be told apart; test/tokens and test/sign-in compare the work itself. */
export const benchEvenTime = Effect.promise(run)

if (import.meta.main) await Effect.runPromise(benchEvenTime)
