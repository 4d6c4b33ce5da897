import { Deferred, Effect, Option, type Scope } from "effect"
import { spawn } from "node:child_process"
import * as os from "node:os"
import * as path from "node:path"
import { type Binaries } from "./binaries.ts"
import { type Endpoint } from "./endpoint.ts"
import { EmbeddedPostgresError } from "./error.ts"
import { type Home } from "./home.ts"
import { type ServerLog } from "./log.ts"
import { endPostmaster } from "./process.ts"
import { programOptions } from "./program.ts"

const settingsAt = (endpoint: Endpoint): Record<string, string> => ({
  ...(endpoint.host.startsWith("/")
    ? { listen_addresses: "", unix_socket_directories: `"${endpoint.host}"`, unix_socket_permissions: "0700" }
    : { listen_addresses: endpoint.host, unix_socket_directories: "" }),
  port: `${endpoint.port}`,
  max_connections: "100",
  shared_buffers: "64MB",
  jit: "off",
  timezone: "UTC",
  log_timezone: "UTC",
  log_destination: "stderr",
  logging_collector: "off",
  log_min_messages: "warning",
  log_checkpoints: "off",
  // Details of an error quote the rows that it is about.
  log_error_verbosity: "terse"
})

/** A server that accepts connections; `exited` waits for its end, whatever ends it. */
export interface Running {
  readonly exited: Effect.Effect<void>
}

/**
 * Starts the server and waits until it accepts connections; closing the scope shuts it down and waits for its end.
 * Fails with the server's own words when it does not come up.
 */
export const launch = Effect.fnUntraced(function* (options: {
  readonly home: Home
  readonly binaries: Binaries
  readonly endpoint: Endpoint
  readonly log: ServerLog
  readonly settings: Record<string, string>
}): Effect.fn.Return<Running, EmbeddedPostgresError, Scope.Scope> {
  const server = yield* Effect.acquireRelease(spawnServer(options), (server) =>
    Effect.gen(function* () {
      const pid = server.runningPid()
      if (pid !== undefined) yield* endPostmaster(pid, server.exited, options.binaries.pg_ctl)
      yield* server.dismissWatcher
    })
  )
  const started = yield* Effect.raceFirst(
    Effect.as(server.ready, true),
    Effect.as(Effect.andThen(server.exited, Effect.timeoutOption(server.silent, "1 second")), false)
  ).pipe(Effect.timeoutOption("10 minutes"))
  if (!Option.getOrElse(started, () => false)) {
    return yield* new EmbeddedPostgresError({
      reason: "start-failed",
      message: `PostgreSQL did not start in ${options.home.directory}: ${server.lastWords()}`
    })
  }
  return { exited: server.exited }
})

const readyMessage = "database system is ready to accept connections"
const lastWordsLength = 4_000

const spawnServer = (options: Parameters<typeof launch>[0]) =>
  Effect.sync(() => {
    const ready = Deferred.makeUnsafe<void>()
    const exited = Deferred.makeUnsafe<void>()
    const silent = Deferred.makeUnsafe<void>()
    const settings = Object.entries({ ...settingsAt(options.endpoint), ...options.settings })
    const child = spawn(
      options.binaries.postgres,
      ["-D", options.home.cluster, ...settings.flatMap(([name, value]) => ["-c", `${name}=${value}`])],
      { ...programOptions(options.home.user, options.home.directory), stdio: ["ignore", "ignore", "pipe"] }
    )
    if (child.pid !== undefined) giveWay(child.pid)
    let lastWords = ""
    const hear = (chunk: Buffer) => {
      options.log.append(chunk)
      lastWords = `${lastWords}${chunk}`.slice(-lastWordsLength)
      if (lastWords.includes(readyMessage)) complete(ready)
    }
    child.stderr?.on("data", hear)
    const watcher = child.pid === undefined ? undefined : watch(child.pid, options.home)
    child.once("exit", () => {
      watcher?.kill()
      complete(exited)
    })
    child.once("close", () => complete(exited, silent))
    child.once("error", (error) => {
      hear(Buffer.from(`${error.message}\n`))
      complete(exited, silent)
    })
    return {
      runningPid: () => (child.exitCode === null && child.signalCode === null ? child.pid : undefined),
      ready: Deferred.await(ready),
      exited: Deferred.await(exited),
      silent: Deferred.await(silent),
      lastWords: () => lastWords.trim(),
      dismissWatcher: watcher === undefined ? Effect.void : Effect.andThen(Effect.sync(watcher.kill), watcher.ended)
    }
  })

/** One thread answers all callers; a server that woke in its place on the same processor kept it waiting a sixth of the time. */
const giveWay = (pid: number): void => {
  try {
    os.setPriority(pid, Math.min(leastPriority, os.getPriority() + niceness))
  } catch {
    // It ended already, or the system lets nobody do so: then both are equals.
  }
}

const niceness = 5
const leastPriority = 19

const complete = (...reached: ReadonlyArray<Deferred.Deferred<void>>) =>
  reached.forEach((deferred) => Deferred.doneUnsafe(deferred, Effect.void))

// It reads from a pipe that only this process holds open, so that the kernel tells it of our end, whatever ends us.
const watcherScript = `
read -r line
read -r pid < "$2" && [ "$pid" = "$1" ] && kill -INT "$1"
`

/** Has a small process shut the server down when this process ends without doing so. */
const watch = (pid: number, home: Home) => {
  if (process.platform === "win32") return undefined
  const ended = Deferred.makeUnsafe<void>()
  const watcher = spawn(
    "/bin/sh",
    ["-c", watcherScript, "application-manager-watcher", `${pid}`, path.join(home.cluster, "postmaster.pid")],
    { ...programOptions(home.user, home.directory), stdio: ["pipe", "ignore", "ignore"] }
  )
  const end = () => complete(ended)
  watcher.once("exit", end)
  watcher.once("error", end)
  watcher.stdin?.once("error", end)
  return { kill: () => watcher.kill("SIGKILL"), ended: Deferred.await(ended) }
}
