import { Context, Deferred, Effect, Option, type Scope } from "effect"
import { spawn } from "node:child_process"
import * as fs from "node:fs"
import * as net from "node:net"
import * as os from "node:os"
import * as path from "node:path"
import { type Binaries } from "./binaries.ts"
import { digestOf, type Home } from "./home.ts"
import { attempt, EmbeddedPostgresError, endPostmaster, programOptions } from "./system.ts"

/** Where a server listens: `host` is a directory with its Unix socket, or 127.0.0.1. */
export interface Endpoint {
  readonly host: string
  readonly port: number
}

/** Chooses a TCP port of 127.0.0.1 that was free a moment ago. */
export const FreePort = Context.Reference<Effect.Effect<number>>("app/platform/embedded-postgres/FreePort", {
  defaultValue: () =>
    Effect.callback((resume) => {
      const server = net.createServer().listen(0, "127.0.0.1", () => {
        const address = server.address()
        server.close(() => resume(Effect.succeed(typeof address === "object" && address !== null ? address.port : 0)))
      })
    })
})

/**
 * The places to try in turn. A socket in a private directory is accessible to no other account, but its path must be
 * short and some mounted directories hold no sockets; then it is in a temporary directory, and failing that a port.
 */
export const endpoints = (home: Home): ReadonlyArray<Effect.Effect<Endpoint | undefined, never, Scope.Scope>> => {
  const port = Effect.map(Effect.flatten(FreePort), (port) => ({ host: "127.0.0.1", port }))
  return [
    socketIn(home, path.join(home.directory, "socket")),
    socketIn(home, path.join(os.tmpdir(), `application-manager-${digestOf(home.directory)}`)),
    port,
    port,
    port
  ]
}

const socketPort = 5432
// sizeof(sockaddr_un.sun_path) is 108 on Linux and 104 on macOS, with the terminating NUL.
const maxSocketPathBytes = 103

const socketIn = (home: Home, directory: string) => {
  const remove = () => fs.rmSync(directory, { recursive: true, force: true })
  return Effect.acquireRelease(
    Effect.sync(() => {
      if (Buffer.byteLength(`${directory}/.s.PGSQL.${socketPort}`) > maxSocketPathBytes) return undefined
      try {
        // The lock file of a dead server whose process id is taken again would keep PostgreSQL from listening.
        remove()
        fs.mkdirSync(directory, { mode: 0o700 })
        if (home.user !== undefined) fs.chownSync(directory, home.user.uid, home.user.gid)
        return { host: directory, port: socketPort }
      } catch {
        return undefined
      }
    }),
    (endpoint) => Effect.ignore(Effect.try(() => endpoint && remove()))
  )
}

const settingsAt = (endpoint: Endpoint): Record<string, string> => ({
  ...(endpoint.host.startsWith("/")
    ? { listen_addresses: "", unix_socket_directories: `"${endpoint.host}"`, unix_socket_permissions: "0700" }
    : { listen_addresses: endpoint.host, unix_socket_directories: "" }),
  port: `${endpoint.port}`,
  max_connections: "100",
  shared_buffers: "64MB",
  // Else each session loads it from a file, which an installation of packages takes away for a while.
  shared_preload_libraries: "plpgsql",
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

const maxLogBytes = 4 * 1024 * 1024

/** Opens `postgres.log`; at 4 MiB it becomes `postgres.previous.log` and a new one begins. */
export const openLog = (directory: string): Effect.Effect<(text: Buffer) => void, EmbeddedPostgresError> => {
  const file = path.join(directory, "postgres.log")
  const open = () => fs.appendFileSync(file, "", { mode: 0o600 })
  return attempt("unreachable-directory", `write ${file}`, () => {
    try {
      open()
    } catch {
      // Another account may have served here before; the file is replaced, which only needs its directory.
      fs.rmSync(file, { force: true })
      open()
    }
    return (text) => {
      try {
        const { size = 0 } = fs.statSync(file, { throwIfNoEntry: false }) ?? {}
        if (size > 0 && size + text.length > maxLogBytes) {
          fs.renameSync(file, path.join(directory, "postgres.previous.log"))
        }
        fs.appendFileSync(file, text, { mode: 0o600 })
      } catch {
        // A full disk costs lines of the log, not the service.
      }
    }
  })
}

/** A server that accepts connections; `exited` waits for its end, whatever ends it. */
export interface Running {
  readonly exited: Effect.Effect<void>
}

/**
 * Starts the server and waits until it accepts connections; closing the scope shuts it down and waits for its end.
 * Fails with the server's own message when it does not come up.
 */
export const launch = Effect.fnUntraced(function* (options: {
  readonly home: Home
  readonly binaries: Binaries
  readonly endpoint: Endpoint
  readonly log: (text: Buffer) => void
  readonly settings: Record<string, string>
}): Effect.fn.Return<Running, EmbeddedPostgresError, Scope.Scope> {
  const server = yield* Effect.acquireRelease(
    Effect.sync(() => spawnServer(options)),
    Effect.fnUntraced(function* (server) {
      const pid = server.runningPid()
      if (pid !== undefined) yield* endPostmaster(pid, server.exited)
      yield* server.dismissWatcher
    })
  )
  const started = yield* Effect.raceFirst(
    Effect.as(server.ready, true),
    Effect.as(Effect.andThen(server.exited, Effect.timeoutOption(server.silent, "1 second")), false)
  ).pipe(Effect.timeoutOption("10 minutes"))
  if (Option.contains(started, true)) return { exited: server.exited }
  return yield* new EmbeddedPostgresError({
    reason: "start-failed",
    message: `PostgreSQL did not start in ${options.home.directory}: ${server.lastOutput()}`
  })
})

const readyMessage = "database system is ready to accept connections"
const lastOutputLength = 4_000

const spawnServer = ({ binaries, endpoint, home, log, settings }: Parameters<typeof launch>[0]) => {
  const ready = Deferred.makeUnsafe<void>()
  const exited = Deferred.makeUnsafe<void>()
  const silent = Deferred.makeUnsafe<void>()
  const options = Object.entries({ ...settingsAt(endpoint), ...settings })
  const child = spawn(
    binaries.postgres,
    ["-D", home.cluster, ...options.flatMap(([name, value]) => ["-c", `${name}=${value}`])],
    { ...programOptions(home), stdio: ["ignore", "ignore", "pipe"] }
  )
  if (child.pid !== undefined) lowerPriority(child.pid)
  let lastOutput = ""
  const collect = (chunk: Buffer) => {
    log(chunk)
    lastOutput = `${lastOutput}${chunk}`.slice(-lastOutputLength)
    if (lastOutput.includes(readyMessage)) complete(ready)
  }
  child.stderr?.on("data", collect)
  const watcher = child.pid === undefined ? undefined : watch(child.pid, home)
  child.once("exit", () => {
    watcher?.kill()
    complete(exited)
  })
  child.once("close", () => complete(exited, silent))
  child.once("error", (error) => {
    collect(Buffer.from(`${error.message}\n`))
    complete(exited, silent)
  })
  return {
    runningPid: () => (child.exitCode === null && child.signalCode === null ? child.pid : undefined),
    ready: Deferred.await(ready),
    exited: Deferred.await(exited),
    silent: Deferred.await(silent),
    lastOutput: () => lastOutput.trim(),
    dismissWatcher: watcher === undefined ? Effect.void : Effect.andThen(Effect.sync(watcher.kill), watcher.ended)
  }
}

const complete = (...reached: ReadonlyArray<Deferred.Deferred<void>>) =>
  reached.forEach((deferred) => Deferred.doneUnsafe(deferred, Effect.void))

/** One thread serves all callers; a server that woke in its place on the same processor delayed it a sixth of the time. */
const lowerPriority = (pid: number): void => {
  try {
    os.setPriority(pid, Math.min(19, os.getPriority() + 5))
  } catch {
    // It ended already, or the system allows no change: then both have the same priority.
  }
}

// It reads from a pipe that only this process holds open, so that the kernel tells it of our end, whatever ends us.
const watcherScript = `
read -r line
read -r pid < "$2" && [ "$pid" = "$1" ] && kill -INT "$1"
`

/** Has a small process shut the server down when this process ends without doing so. */
const watch = (pid: number, home: Home) => {
  const ended = Deferred.makeUnsafe<void>()
  const watcher = spawn(
    "/bin/sh",
    ["-c", watcherScript, "application-manager-watcher", `${pid}`, path.join(home.cluster, "postmaster.pid")],
    { ...programOptions(home), stdio: ["pipe", "ignore", "ignore"] }
  )
  for (const source of [watcher, watcher.stdin]) source?.once("error", () => complete(ended))
  watcher.once("exit", () => complete(ended))
  return { kill: () => watcher.kill("SIGKILL"), ended: Deferred.await(ended) }
}
