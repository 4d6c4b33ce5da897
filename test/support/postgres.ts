import { type PgClient } from "@effect/sql-pg"
import { Effect, Exit, Redacted, References, Scope } from "effect"
import * as crypto from "node:crypto"
import * as fs from "node:fs/promises"
import * as os from "node:os"
import * as path from "node:path"
import { type TestProject } from "vitest/node"
import { migrate } from "../../src/platform/database/migrations.ts"
import * as EmbeddedPostgres from "../../src/platform/embedded-postgres/embedded-postgres.ts"
import { type DatabaseServer, onServer } from "./database.ts"

const embeddedServer = Effect.gen(function* () {
  const directories = yield* Effect.acquireRelease(
    Effect.promise(async () => new Set([await fs.mkdtemp(path.join(await volume(), "application-manager-test-"))])),
    (directories) => Effect.forEach(directories, removeDirectory)
  )
  const [directory = ""] = directories
  // Root's server runs as another account, which a directory of mkdtemp keeps out.
  yield* Effect.promise(() => fs.chmod(directory, 0o711))
  const server = yield* EmbeddedPostgres.start({
    directory,
    settings: {
      fsync: "off",
      synchronous_commit: "off",
      full_page_writes: "off",
      max_connections: "200",
      // Sessions and databases are so young that most statements would be planned anew at each execution.
      plan_cache_mode: "force_generic_plan",
      // Each of hundreds of short-lived databases would have its visits.
      autovacuum_naptime: "1d"
    }
  })
  directories.add(server.directory)
  return {
    host: server.host,
    port: server.port,
    username: server.username,
    password: Redacted.value(server.password),
    maintenanceDatabase: "postgres",
    template: "template_migrated"
  }
})

/** Memory where there is much of it: what a test's database costs is the making of its files. */
const volume = async () => {
  const { bavail, bsize } = await fs.statfs("/dev/shm").catch(() => ({ bavail: 0, bsize: 0 }))
  return bavail * bsize > 4 * 2 ** 30 ? "/dev/shm" : os.tmpdir()
}

const removeDirectory = (directory: string) => Effect.promise(() => fs.rm(directory, { recursive: true, force: true }))

const givenServer = (given: string): DatabaseServer => {
  const url = new URL(given)
  return {
    host: url.hostname,
    port: Number(url.port || "5432"),
    username: decodeURIComponent(url.username),
    password: decodeURIComponent(url.password),
    maintenanceDatabase: decodeURIComponent(url.pathname.slice(1)) || "postgres",
    // Several runs may share the server.
    template: `template_migrated_${crypto.randomBytes(6).toString("hex")}`
  }
}

const makeTemplate = (server: DatabaseServer) =>
  Effect.gen(function* () {
    const { host, port, username, password, template } = server
    yield* Effect.acquireRelease(
      onServer(server, (sql) => sql`CREATE DATABASE ${sql(template)}`),
      () => Effect.orDie(onServer(server, dropTemplate(template)))
    )
    yield* migrate({ host, port, username, password: Redacted.make(password), database: template })
    yield* onServer(server, (sql) => sql`ALTER DATABASE ${sql(template)} IS_TEMPLATE true ALLOW_CONNECTIONS false`)
  })

/** Drops the template, and what was made from it and outlived its worker. */
const dropTemplate = (template: string) =>
  Effect.fnUntraced(function* (sql: PgClient.PgClient) {
    yield* sql`ALTER DATABASE ${sql(template)} IS_TEMPLATE false`
    const left = yield* sql<{ readonly name: string }>`
      SELECT datname AS name FROM pg_database WHERE starts_with(datname, ${template})`
    for (const { name } of left) yield* sql`DROP DATABASE ${sql(name)} WITH (FORCE)`
  })

/** Tests open thousands of sessions: without this, stretching the password takes longer than many of them live. */
const cheapenSessions = (server: DatabaseServer) =>
  onServer(server, (sql) =>
    sql.withTransaction(
      Effect.andThen(
        sql`SET LOCAL scram_iterations = 1`,
        sql`ALTER ROLE ${sql(server.username)} PASSWORD ${sql.literal(`'${server.password.replaceAll("'", "''")}'`)}`
      )
    )
  )

/**
 * Gives a test run its database server: an embedded one in a new directory, or the one that `DATABASE_URL_FOR_TESTS`
 * names (with a superuser); on it a migrated template, from which every test makes its database.
 */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const scope = Scope.makeUnsafe()
  const close = (exit: Exit.Exit<unknown, unknown>) => Effect.runPromise(Scope.close(scope, exit))
  const given = process.env.DATABASE_URL_FOR_TESTS
  const exit = await Effect.runPromiseExit(
    (given ? Effect.succeed(givenServer(given)) : Effect.tap(embeddedServer, cheapenSessions)).pipe(
      Effect.tap(makeTemplate),
      Scope.provide(scope),
      Effect.provideService(References.MinimumLogLevel, "Warn")
    )
  )
  if (Exit.isFailure(exit)) await close(exit)
  project.provide("databaseServer", Effect.runSync(exit))
  return () => close(Exit.void)
}
