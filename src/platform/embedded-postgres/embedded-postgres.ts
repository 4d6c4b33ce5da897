import { type PgClient } from "@effect/sql-pg"
import { Deferred, Effect, type Redacted, Schedule, Scope } from "effect"
import * as path from "node:path"
import { findBinaries } from "./binaries.ts"
import { endpointOfRunning, endPredecessor, openCluster, readPassword, username } from "./cluster.ts"
import { type Home, openHome, own } from "./home.ts"
import { type Endpoint, endpoints, launch, openLog, type Running } from "./server.ts"
import { EmbeddedPostgresError } from "./system.ts"

/** A running server; {@link connection} has what `PgClient` needs of it. */
export interface EmbeddedPostgresServer extends Endpoint {
  /** The superuser, who owns the database `postgres`. */
  readonly username: string
  readonly password: Redacted.Redacted
  /** Where everything is kept: the given directory, or the one that took its place because the server could not enter it. */
  readonly directory: string
  /** The account that the server runs as when that is not the account of this process. */
  readonly operatingSystemUser: string | undefined
  /** Whether this start created the database. */
  readonly initialised: boolean
}

/** How `PgClient` reaches the server: it takes a `host` that begins with `/` for the directory of a Unix socket. */
export const connection = ({
  host,
  password,
  port,
  username
}: EmbeddedPostgresServer): Pick<PgClient.PgClientConfig, "host" | "port" | "username" | "password"> => ({
  host,
  port,
  username,
  password
})

interface Options {
  readonly directory: string
  /** Further settings of the server, such as `fsync`. */
  readonly settings?: Record<string, string>
}

const serverIn = (home: Home, server: Endpoint & Pick<EmbeddedPostgresServer, "password" | "initialised">) => ({
  ...server,
  username,
  directory: home.directory,
  operatingSystemUser: home.user?.name
})

/**
 * Starts PostgreSQL on a directory, creating a database there at first, and stops it when the scope closes. One process
 * at a time owns a directory; what a killed one left behind is cleaned up.
 */
export const start = Effect.fn("EmbeddedPostgres.start")(function* ({
  directory,
  settings = {}
}: Options): Effect.fn.Return<EmbeddedPostgresServer, EmbeddedPostgresError, Scope.Scope> {
  const home = yield* openHome(path.resolve(directory))
  yield* own(home.directory)
  const binaries = yield* findBinaries(home.user, home.copies)
  yield* endPredecessor(home)
  const cluster = yield* openCluster(home, binaries, settings.fsync !== "off")
  const log = yield* openLog(home.directory)
  const endpoint = yield* keepRunning(home, (endpoint) => launch({ home, binaries, endpoint, log, settings }))
  yield* Effect.logInfo("Embedded PostgreSQL started").pipe(
    Effect.annotateLogs({ directory: home.directory, ...(home.user && { user: home.user.name }) })
  )
  return serverIn(home, { ...endpoint, ...cluster })
})

/**
 * Like {@link start}, but where another process of this service already runs the server of the directory, it is that
 * server, which goes on when the scope closes.
 */
export const join: typeof start = Effect.fn("EmbeddedPostgres.join")(function* (options) {
  return yield* Effect.catchIf(
    start(options),
    ({ reason }) => reason === "directory-in-use",
    Effect.fnUntraced(function* (inUse: EmbeddedPostgresError) {
      const home = yield* openHome(path.resolve(options.directory))
      const endpoint = yield* endpointOfRunning(home)
      if (endpoint === undefined) return yield* inUse
      return serverIn(home, { ...endpoint, password: yield* readPassword(home), initialised: false })
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
  // A server that is started again finds the directory of its socket where it was.
  const places = endpoints(home).map(Scope.provide(yield* Effect.scope))
  const again = (endpoint: Endpoint) =>
    Effect.logError("The embedded PostgreSQL ended unexpectedly and is started again").pipe(
      Effect.annotateLogs({ directory: home.directory }),
      Effect.andThen(Effect.scoped(Effect.flatMap(launchAt(endpoint), ({ exited }) => exited))),
      Effect.tapError((error) => Effect.logError(error.message)),
      Effect.retry(Schedule.min([Schedule.exponential("200 millis"), Schedule.spaced("10 seconds")])),
      Effect.forever
    )
  const untilFirstEnd = Effect.gen(function* () {
    const { endpoint, exited } = yield* listen(home, places, launchAt)
    yield* Deferred.succeed(first, endpoint)
    yield* exited
    return endpoint
  })
  yield* Effect.scoped(untilFirstEnd).pipe(
    Effect.tapCause((cause) => Deferred.failCause(first, cause)),
    Effect.flatMap(again),
    Effect.forkScoped
  )
  return yield* Deferred.await(first)
})

const listen = Effect.fnUntraced(function* (
  home: Home,
  places: ReadonlyArray<Effect.Effect<Endpoint | undefined>>,
  launchAt: LaunchAt
) {
  for (const place of places) {
    const endpoint = yield* place
    if (endpoint === undefined) continue
    const running = yield* launchAt(endpoint).pipe(
      // Processes of a server that was killed by force need a moment to notice it.
      Effect.retry({ while: isStillAttached, times: 100, schedule: Schedule.spaced("100 millis") }),
      Effect.catchIf(isRefusedEndpoint, () => Effect.undefined)
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
