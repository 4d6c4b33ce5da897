import autocannon from "autocannon"
import { Array as List, Effect } from "effect"
import * as jose from "jose"
import * as crypto from "node:crypto"
import * as fs from "node:fs/promises"
import { median, print, rate, serviceKey, startService, temporaryDirectory } from "./rates.ts"

const agents = 20
const tokens = 6000
const seconds = Number(process.env.BENCH_SECONDS ?? "3")
const rounds = 3
const issuer = "http://127.0.0.1:11402"

const post = async (url: string, body: object): Promise<Record<string, string>> => {
  const headers = { "content-type": "application/json", "x-api-key": serviceKey }
  const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) })
  if (!answer.ok) throw new Error(`${url}: ${answer.status} ${await answer.text()}`)
  return (await answer.json()) as Record<string, string>
}

interface BenchAgent {
  readonly id: string
  readonly privateKey: crypto.KeyObject
}

const makeAgent = async (url: string, index: number): Promise<BenchAgent> => {
  const { id = "" } = await post(`${url}/api/agents`, { name: `bench ${index}`, scopeCeiling: ["llm:complete"] })
  const { privateKey, publicKey } = crypto.generateKeyPairSync("ed25519")
  const publicKeyPem = publicKey.export({ type: "spki", format: "pem" }).toString()
  await post(`${url}/api/agents/${id}/keys`, { kid: "bench", algorithm: "EdDSA", publicKeyPem })
  return { id, privateKey }
}

const tokenBody = async ({ id, privateKey }: BenchAgent): Promise<string> => {
  const clientAssertion = await new jose.SignJWT({ jti: crypto.randomUUID() })
    .setProtectedHeader({ alg: "EdDSA", kid: "bench" })
    .setIssuer(id)
    .setSubject(id)
    .setAudience(issuer)
    .setIssuedAt()
    .setExpirationTime("5 minutes")
    .sign(privateKey)
  return JSON.stringify({ agentId: id, clientAssertion })
}

/** Grants a second and their 95th percentile in milliseconds; each assertion is good once, so all are signed before. */
const grantRate = async (url: string, bodies: ReadonlyArray<string>) => {
  const connections = 24
  const millis: Array<number> = []
  let next = 0
  const worker = async () => {
    for (let body = bodies[next++]; body !== undefined; body = bodies[next++]) {
      const started = performance.now()
      const answer = await fetch(`${url}/api/agents/token`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body
      })
      if (!answer.ok) throw new Error(`${answer.status} ${await answer.text()}`)
      await answer.arrayBuffer()
      millis.push(performance.now() - started)
    }
  }
  const started = performance.now()
  await Promise.all(Array.from({ length: connections }, worker))
  const elapsedSeconds = (performance.now() - started) / 1000
  const p95 = millis.toSorted((a, b) => a - b)[Math.floor(millis.length * 0.95)] ?? Number.NaN
  return { perSecond: bodies.length / elapsedSeconds, p95 }
}

const introspectionRate = async (url: string, presented: ReadonlyArray<string>): Promise<number> => {
  const headers = { "content-type": "application/json", "x-api-key": serviceKey }
  const requests = presented.map((token) => ({
    method: "POST" as const,
    path: "/api/agents/introspect",
    body: JSON.stringify({ token })
  }))
  const result = await autocannon({ url, connections: 32, duration: seconds, headers, requests })
  if (result.non2xx > 0) throw new Error(`${result.non2xx} introspections were refused`)
  return result.requests.total / result.duration
}

const perSecond = (value: number) => `${Math.round(value).toLocaleString("en")}/s`

const run = async (): Promise<void> => {
  const directory = await temporaryDirectory()
  const service = await startService(directory, {
    Api__PublicUrl: issuer,
    Api__RateLimit__AnonymousPerMinute: "100000000",
    Api__RateLimit__PerMinute: "100000000"
  })
  try {
    const made = await Promise.all(List.makeBy(agents, (index) => makeAgent(service.url, index)))
    const bodiesOf = (count: number) =>
      Promise.all(List.makeBy(count, (index) => tokenBody(List.getUnsafe(made, index % agents))))
    await grantRate(service.url, await bodiesOf(1000))
    const grants = await grantRate(service.url, await bodiesOf(tokens))
    const issued = await Promise.all(made.map(({ id }) => post(`${service.url}/api/agents/${id}/credentials`, {})))
    const presented = issued.map(({ accessToken = "" }) => accessToken)
    await introspectionRate(service.url, presented)
    const introspections = await introspectionRate(service.url, presented)
    const [checked, open]: [Array<number>, Array<number>] = [[], []]
    for (let round = 0; round < rounds; round++) {
      checked.push(await rate(service.url, ["/api/auth/me"], seconds))
      open.push(await rate(service.url, ["/.well-known/oauth-authorization-server"], seconds))
    }
    const ratio = median(checked) / median(open)
    print("Agents", [
      {
        what: "POST /api/agents/token: 24 at a time, EdDSA",
        measured: perSecond(grants.perSecond),
        wanted: `p95 ${grants.p95.toFixed(1)} ms (wanted 1,000/s, 50 ms)`,
        met: grants.perSecond >= 1000 && grants.p95 < 50
      },
      {
        what: "POST /api/agents/introspect: 32 connections, 20 tokens",
        measured: perSecond(introspections),
        wanted: "(wanted 3,000/s)",
        met: introspections >= 3000
      },
      {
        what: "GET /api/auth/me: a key checked and nothing else",
        measured: perSecond(median(checked)),
        wanted: `${ratio.toFixed(2)} of an answer without a credential (wanted 0.80)`,
        met: ratio >= 0.8
      }
    ])
  } finally {
    await service.stop()
    await fs.rm(directory, { recursive: true, force: true })
  }
}

/** Rates of the token endpoint, of introspection, and of a checked key beside an open endpoint of the same server. */
export const benchAgents = Effect.promise(run)

if (import.meta.main) await Effect.runPromise(benchAgents)
