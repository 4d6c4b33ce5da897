import { type PgClient } from "@effect/sql-pg"
import { Deferred, Effect, type Redacted, Schedule, type Scope } from "effect"
import * as path from "node:path"
import { findBinaries } from "./binaries.ts"
import { openCluster, username } from "./cluster.ts"
import { type Endpoint, endpoints } from "./endpoint.ts"
import { EmbeddedPostgresError } from "./error.ts"
import { type Home, openHome } from "./home.ts"
import { openServerLog } from "./log.ts"
import { own } from "./owner.ts"
import { findRunning } from "./running.ts"
import { endPredecessor } from "./predecessor.ts"
import { launch, type Running } from "./server.ts"

export { EmbeddedPostgresError }

/** A running server; {@link connection} has what `PgClient` needs of it. */
export interface EmbeddedPostgresServer {
  /** The directory of its Unix socket (it begins with `/`), or 127.0.0.1. */
  readonly host: string
  readonly port: number
  /** The superuser, who owns the database `postgres`. */
  readonly username: string
  readonly password: Redacted.Redacted
  /** Where everything is kept: the given directory, or the one that took its place because the server could not enter it. */
  readonly directory: string
  /** The account that the server runs as when that is not the account of this process. */
  readonly operatingSystemUser: string | undefined
  /** Whether this start made the database. */
  readonly initialised: boolean
}

/** How `PgClient` reaches the server: it takes a `host` that begins with `/` for the directory of a Unix socket. */
export const connection = (
  server: EmbeddedPostgresServer
): Pick<PgClient.PgClientConfig, "host" | "port" | "username" | "password"> => ({
  host: server.host,
  port: server.port,
  username: server.username,
  password: server.password
})

/**
 * Starts PostgreSQL on a directory, making a database there at first, and stops it when the scope closes. `settings`
 * are further settings of the server, such as `fsync`. One process at a time owns a directory; what a killed one left
 * behind is put in order.
 */
export const start = Effect.fn("EmbeddedPostgres.start")(function* (options: {
  readonly directory: string
  readonly settings?: Record<string, string>
}): Effect.fn.Return<EmbeddedPostgresServer, EmbeddedPostgresError, Scope.Scope> {
  const settings = options.settings ?? {}
  const home = yield* openHome(path.resolve(options.directory))
  yield* own(home.directory)
  const binaries = yield* findBinaries(home.user, home.copies)
  yield* endPredecessor(home, binaries)
  const { password, initialised } = yield* openCluster(home, binaries, settings.fsync !== "off")
  const log = yield* openServerLog(home.directory)

  const endpoint = yield* keepRunning(home, (endpoint) => launch({ home, binaries, endpoint, log, settings }))
  yield* Effect.logInfo("Embedded PostgreSQL started").pipe(
    Effect.annotateLogs({ directory: home.directory, ...(home.user && { user: home.user.name }) })
  )
  return {
    ...endpoint,
    username,
    password,
    directory: home.directory,
    operatingSystemUser: home.user?.name,
    initialised
  }
})

/**
 * Like {@link start}, but where another process of this service already runs the server of the directory, it is that
 * server, which goes on when the scope closes.
 */
export const join: typeof start = Effect.fn("EmbeddedPostgres.join")(function* (options) {
  return yield* Effect.catchIf(
    start(options),
    ({ reason }) => reason === "directory-in-use",
    (inUse) =>
      Effect.gen(function* () {
        const home = yield* openHome(path.resolve(options.directory))
        const found = yield* findRunning(home)
        if (found === undefined) return yield* inUse
        return {
          ...found,
          username,
          directory: home.directory,
          operatingSystemUser: home.user?.name,
          initialised: false
        }
      })
  )
})

type LaunchAt = (endpoint: Endpoint) => Effect.Effect<Running, EmbeddedPostgresError, Scope.Scope>

/** Runs the server until the scope closes: one that ends by itself is started again where it was. */
const keepRunning = Effect.fnUntraced(function* (
  home: Home,
  launchAt: LaunchAt
): Effect.fn.Return<Endpoint, EmbeddedPostgresError, Scope.Scope> {
  const first = yield* Deferred.make<Endpoint, EmbeddedPostgresError>()
  const again = (endpoint: Endpoint) =>
    Effect.logError("The embedded PostgreSQL ended unexpectedly and is started again").pipe(
      Effect.annotateLogs({ directory: home.directory }),
      Effect.andThen(Effect.scoped(Effect.flatMap(launchAt(endpoint), ({ exited }) => exited))),
      Effect.tapError((error) => Effect.logError(error.message)),
      Effect.retry(Schedule.min([Schedule.exponential("200 millis"), Schedule.spaced("10 seconds")])),
      Effect.forever
    )
  yield* Effect.scoped(
    Effect.gen(function* () {
      const { endpoint, exited } = yield* listen(home, launchAt)
      yield* Deferred.succeed(first, endpoint)
      yield* exited
      return endpoint
    })
  ).pipe(
    Effect.tapCause((cause) => Deferred.failCause(first, cause)),
    Effect.flatMap(again),
    Effect.forkScoped
  )
  return yield* Deferred.await(first)
})

const listen = Effect.fnUntraced(function* (
  home: Home,
  launchAt: LaunchAt
): Effect.fn.Return<Running & { readonly endpoint: Endpoint }, EmbeddedPostgresError, Scope.Scope> {
  for (const candidate of endpoints(home)) {
    const endpoint = yield* candidate
    if (endpoint === undefined) continue
    const running = yield* launchAt(endpoint).pipe(
      // Processes of a server that was killed by force need a moment to notice it.
      Effect.retry({ while: isStillAttached, times: 100, schedule: Schedule.spaced("100 millis") }),
      Effect.catchIf(isRefusedEndpoint, () => Effect.succeed(undefined))
    )
    if (running !== undefined) return { ...running, endpoint }
    yield* Effect.logDebug("Embedded PostgreSQL could not listen").pipe(Effect.annotateLogs({ host: endpoint.host }))
  }
  return yield* new EmbeddedPostgresError({
    reason: "start-failed",
    message: `PostgreSQL finds no place to listen; its log is in ${home.directory}`
  })
})

const isStillAttached = (error: EmbeddedPostgresError) => error.message.includes("pre-existing shared memory block")

const isRefusedEndpoint = (error: EmbeddedPostgresError) =>
  /could not create any (Unix-domain|TCP\/IP) sockets|lock file "[^"]*\.s\.PGSQL/.test(error.message)
