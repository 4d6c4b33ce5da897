import { PgClient } from "@effect/sql-pg"
import { Effect, Exit, Redacted, Scope } from "effect"
import { Reactivity } from "effect/reactivity"
import * as crypto from "node:crypto"
import { inject } from "vitest"

/** The database server of a test run, as its workers get it: superuser's credentials and the migrated template. */
export interface DatabaseServer {
  readonly host: string
  readonly port: number
  readonly username: string
  readonly password: string
  /** A database that everybody may connect to, to make others from there. */
  readonly maintenanceDatabase: string
  readonly template: string
}

declare module "vitest" {
  interface ProvidedContext {
    readonly databaseServer: DatabaseServer
  }
}

const connect = ({ host, port, username, password, maintenanceDatabase }: DatabaseServer) =>
  Effect.provide(
    PgClient.makeClient({ host, port, username, password: Redacted.make(password), database: maintenanceDatabase }),
    Reactivity.layer
  )

/** Runs statements on a server over one connection, which is closed afterwards. */
export const onServer = <A, E>(server: DatabaseServer, statements: (sql: PgClient.PgClient) => Effect.Effect<A, E>) =>
  Effect.scoped(Effect.flatMap(connect(server), statements))

let kept: Promise<PgClient.PgClient> | undefined

/** The same over the connection of this worker: opening one takes more than making a database. */
const onKeptConnection = <A, E>(server: DatabaseServer, statements: (sql: PgClient.PgClient) => Effect.Effect<A, E>) =>
  Effect.flatMap(
    Effect.promise(() => (kept ??= Effect.runPromise(Scope.provide(connect(server), Scope.makeUnsafe())))),
    statements
  )

/** How a test connects to its own database, as its superuser. */
export interface TestDatabase {
  readonly host: string
  readonly port: number
  readonly username: string
  readonly password: Redacted.Redacted
  readonly database: string
}

/** A session of a superuser, which outlives the statements that it was opened for. */
export interface Session {
  readonly sql: PgClient.PgClient
  readonly scope: Scope.Closeable
}

/** Sessions that wait for the next statements on a database: opening one costs more than most statements of a test. */
export const idleSessions = new WeakMap<TestDatabase, Array<Session>>()

const closeIdle = (database: TestDatabase) =>
  Effect.forEach(idleSessions.get(database)?.splice(0) ?? [], ({ scope }) =>
    Effect.ignoreCause(Scope.close(scope, Exit.void))
  )

const connectionTo = (server: DatabaseServer, database: string): TestDatabase => ({
  host: server.host,
  port: server.port,
  username: server.username,
  password: Redacted.make(server.password),
  database
})

const makeFrom = (template: (server: DatabaseServer) => string): Effect.Effect<TestDatabase, never, Scope.Scope> =>
  Effect.suspend(() => {
    const server = inject("databaseServer")
    const database = `${server.template}_${crypto.randomUUID().replaceAll("-", "")}`
    const connection = connectionTo(server, database)
    return Effect.acquireRelease(
      onKeptConnection(
        server,
        // Copying through the log of PostgreSQL takes several times the processor time, and disk.
        (sql) => sql`CREATE DATABASE ${sql(database)} TEMPLATE ${sql(template(server))} STRATEGY FILE_COPY`
      ),
      () =>
        Effect.andThen(
          closeIdle(connection),
          Effect.orDie(onKeptConnection(server, (sql) => sql`DROP DATABASE ${sql(database)} WITH (FORCE)`))
        )
    ).pipe(
      Effect.andThen(Effect.sync(() => void idleSessions.set(connection, []))),
      Effect.as(connection),
      Effect.orDie
    )
  })

/** A migrated database of one's own, which is dropped when the scope closes, whoever is still connected to it. */
export const makeDatabase = makeFrom(({ template }) => template)

/** A copy of a database that nobody is connected to. */
export const copyOf = (database: TestDatabase) =>
  Effect.andThen(
    closeIdle(database),
    makeFrom(() => database.database)
  )

/** A database with nothing in it. */
export const makeEmptyDatabase = makeFrom(() => "template0")
