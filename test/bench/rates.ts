import autocannon from "autocannon"
import { spawn, type ChildProcess } from "node:child_process"
import { readFileSync } from "node:fs"
import * as fs from "node:fs/promises"
import * as os from "node:os"
import * as path from "node:path"
import type manifest from "../../package.json"
import { load, type Load, type Measured } from "./clients.ts"

export const root = path.resolve(import.meta.dirname, "../..")
export const serviceKey = "benchmark-service-account-key-0123456789"

/** What `npm start` gives to node in a checkout, with its paths made absolute. */
const startArguments = (checkout: string): ReadonlyArray<string> => {
  const { scripts }: typeof manifest = JSON.parse(readFileSync(path.join(checkout, "package.json"), "utf8"))
  return scripts.start
    .split(" ")
    .slice(1)
    .map((argument) => (argument.includes("src/") ? path.join(checkout, argument) : argument))
}

/** A server under test: where it answers, its process, and how to end it. */
export interface Server {
  readonly url: string
  readonly process: ChildProcess
  stop(): Promise<void>
}

const started = async (child: ChildProcess, pattern: RegExp): Promise<Server> => {
  const url = await new Promise<string>((resolve, reject) => {
    let output = ""
    const read = (chunk: Buffer) => {
      output += chunk.toString()
      const match = pattern.exec(output)
      if (match?.[1] !== undefined) resolve(match[1])
    }
    child.stdout?.on("data", read)
    child.stderr?.on("data", read)
    child.once("exit", (code) => reject(new Error(`ended with ${code}: ${output}`)))
  })
  return {
    url,
    process: child,
    stop: async () => {
      if (child.exitCode !== null || child.signalCode !== null) return
      const ended = new Promise((resolve) => child.once("exit", resolve))
      child.kill("SIGTERM")
      await ended
    }
  }
}

/** What `npm start` gives to node in a checkout, for another script than the service. */
const startOptions = (checkout: string, script: string) => ({ script, options: startArguments(checkout).slice(0, -1) })

const production = {
  APP_ENVIRONMENT: "Production",
  Api__Host: "127.0.0.1",
  Api__Port: "0",
  Api__ApiKey: serviceKey,
  Api__RateLimit__PerMinute: "1000000"
}

/** The service as `npm start` runs it in a checkout, in Production with everything on, on a free port. */
export const startService = (
  directory: string,
  environment: Record<string, string> = {},
  checkout = root
): Promise<Server> =>
  started(
    spawn(process.execPath, startArguments(checkout), {
      cwd: directory,
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...production, ...environment }
    }),
    /serves on (http:[^\s"]+)/
  )

/** The reserve endpoint with locks on the rows of caps. */
export const startForUpdate = (databaseUrl: string): Promise<Server> =>
  started(
    spawn(process.execPath, [path.join(import.meta.dirname, "for-update.ts")], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, BENCH_DATABASE_URL: databaseUrl }
    }),
    /listening on (http:\S+)/
  )

/** A way to a database that takes longer; `url` is its port. */
export const startDistance = (host: string, port: number): Promise<Server> =>
  started(
    spawn(process.execPath, [path.join(import.meta.dirname, "distance.ts"), host, `${port}`], {
      stdio: ["ignore", "pipe", "pipe"]
    }),
    /listening on (\d+)/
  )

/** A bare Fastify server with one route that answers as /health does. */
export const startFastify = (): Promise<Server> =>
  started(
    spawn(process.execPath, [path.join(import.meta.dirname, "fastify.ts")], { stdio: ["ignore", "pipe", "pipe"] }),
    /listening on (http:\S+)/
  )

/** A provider of completions that does nothing but answer. */
export const startProvider = (): Promise<Server> =>
  started(
    spawn(process.execPath, [path.join(import.meta.dirname, "provider.ts")], { stdio: ["ignore", "pipe", "pipe"] }),
    /listening on (http:\S+)/
  )

/** A process that serves each stage of a gateway call by itself; `gatewayUrl` is the whole service. */
export const startStages = async (
  directory: string,
  provider: Server
): Promise<Server & { readonly gatewayUrl: string }> => {
  const { script, options } = startOptions(root, path.join(import.meta.dirname, "staged-gateway.ts"))
  const child = spawn(process.execPath, [...options, script], {
    cwd: directory,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...production, Api__RateLimit__Enabled: "false", BENCH_PROVIDER_URL: provider.url }
  })
  const [server, gateway] = await Promise.all([
    started(child, /stages on (http:\S+)/),
    started(child, /gateway on (http:\S+)/)
  ])
  return { ...server, gatewayUrl: gateway.url }
}

const portkeyPort = 18_787

/** Portkey's gateway as its package starts it. */
export const startPortkey = async (): Promise<Server> => {
  const file = path.join(root, "node_modules/@portkey-ai/gateway/build/start-server.js")
  const server = await started(
    spawn(process.execPath, [file, `--port=${portkeyPort}`, "--headless"], {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, NODE_ENV: "production" }
    }),
    /(Ready) for/
  )
  return { ...server, url: `http://127.0.0.1:${portkeyPort}` }
}

/**
 * What measures and what stands in for others would be on machines of their own: on this one they give way to what they
 * measure. Whatever is started after this process gave way does so too.
 */
export const giveWay = (...servers: ReadonlyArray<Server>): void => {
  const priority = Math.min(19, os.getPriority() + 10)
  for (const pid of [0, ...servers.flatMap(({ process: { pid } }) => pid ?? [])]) os.setPriority(pid, priority)
}

const ticksPerSecond = 100

/** The processor time that a process, or one of its threads, has taken so far, in seconds: its own and the kernel's for it. */
const secondsIn = async (statistics: string): Promise<number> => {
  const stat = await fs.readFile(statistics, "utf8").catch(() => "")
  const [user = 0, kernel = 0] = stat.slice(stat.lastIndexOf(")")).split(" ").slice(12, 14).map(Number)
  return (user + kernel) / ticksPerSecond
}

/** The processor time of a server's process so far, in seconds. */
export const processorSeconds = ({ process: { pid } }: Server): Promise<number> => secondsIn(`/proc/${pid}/stat`)

/** The processor time of the thread that runs a server's JavaScript so far, in seconds. */
export const mainThreadSeconds = ({ process: { pid } }: Server): Promise<number> =>
  secondsIn(`/proc/${pid}/task/${pid}/stat`)

/** The processor time of the PostgreSQL that a server runs so far, in seconds: of all its processes. */
export const postgresSeconds = async ({ process: { pid } }: Server): Promise<number> => {
  const processes = await Promise.all(
    (await fs.readdir("/proc")).map(async (name) => {
      const stat = await fs.readFile(`/proc/${name}/stat`, "utf8").catch(() => "")
      const [, command = "", parent = ""] = /^\d+ \((.*)\) \S (\d+)/s.exec(stat) ?? []
      return { id: name, isPostgres: command.startsWith("postgres"), parent }
    })
  )
  let seconds = 0
  const found = [String(pid)]
  for (const parent of found) {
    for (const child of processes) {
      if (child.parent !== parent) continue
      found.push(child.id)
      if (child.isPostgres) seconds += await secondsIn(`/proc/${child.id}/stat`)
    }
  }
  return seconds
}

/** What the service answers to a request with a key; any answer that is not 2xx ends the benchmark. */
export const call = async (url: string, key: string, method: string, path: string, body?: unknown) => {
  const answer = await fetch(`${url}${path}`, {
    method,
    headers: { "x-api-key": key, "content-type": "application/json" },
    ...(body === undefined ? {} : { body: JSON.stringify(body) })
  })
  const text = await answer.text()
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`)
  return text === "" ? undefined : JSON.parse(text)
}

/** Processor time for each request, in microseconds. */
export interface Spent {
  /** Of the server's process, with the threads of its runtime. */
  readonly process: number
  /** Of these, the thread that runs JavaScript. */
  readonly mainThread: number
  /** Of the PostgreSQL that the server runs. */
  readonly postgres: number
}

const spentBy = async (server: Server): Promise<Spent> => ({
  process: await processorSeconds(server),
  mainThread: await mainThreadSeconds(server),
  postgres: await postgresSeconds(server)
})

/** A load with the processor time that it takes a server. */
export const loadOn = async (server: Server, given: Load): Promise<Measured & Spent> => {
  const before = await spentBy(server)
  const seen = await load(given)
  const after = await spentBy(server)
  const micros = (name: keyof Spent) => ((after[name] - before[name]) / (seen.perSecond * given.seconds)) * 1e6
  return { ...seen, process: micros("process"), mainThread: micros("mainThread"), postgres: micros("postgres") }
}

/** The memory that a server has in use, in megabytes. */
export const residentMegabytes = async ({ process: { pid } }: Server): Promise<number> => {
  const status = await fs.readFile(`/proc/${pid}/status`, "utf8")
  return Number(/^VmRSS:\s+(\d+)/m.exec(status)?.[1] ?? Number.NaN) / 1024
}

export const temporaryDirectory = async (): Promise<string> => {
  const directory = await fs.mkdtemp(path.join(os.tmpdir(), "application-manager-bench-"))
  await fs.chmod(directory, 0o755)
  return directory
}

/** Requests a second over a few seconds of 32 connections; any answer that is not 2xx ends the benchmark. */
export const rate = async (
  url: string,
  paths: ReadonlyArray<string>,
  seconds: number,
  connections = 32,
  headers: Record<string, string> = { "x-api-key": serviceKey }
): Promise<number> => {
  const requests = paths.map((path) => ({ path }))
  const result = await autocannon({ url, connections, duration: seconds, headers, requests })
  if (result.non2xx > 0 || result.errors > 0)
    throw new Error(`${url}: ${result.non2xx} refused, ${result.errors} broken`)
  return result.requests.total / result.duration
}

export const median = (values: ReadonlyArray<number>): number =>
  values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)] ?? Number.NaN

export interface Row {
  readonly what: string
  readonly measured: string
  readonly wanted: string
  readonly met: boolean
}

export const print = (title: string, rows: ReadonlyArray<Row>): void => {
  const widths = [Math.max(...rows.map((row) => row.what.length)), Math.max(...rows.map((row) => row.measured.length))]
  const lines = rows.map(
    (row) =>
      `  ${row.what.padEnd(widths[0] ?? 0)}  ${row.measured.padStart(widths[1] ?? 0)}  ${row.wanted}${row.met ? "" : "  MISSED"}`
  )
  process.stdout.write(`\n${title}\n${lines.join("\n")}\n`)
}
