import { Effect, Exit, Redacted, Scope } from "effect"
import { type ChildProcess, spawn } from "node:child_process"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { migrate } from "../../src/platform/database/migrations.ts"
import { findBinaries } from "../../src/platform/embedded-postgres/binaries.ts"
import { openHome } from "../../src/platform/embedded-postgres/home.ts"
import { programOptions, sendSignal } from "../../src/platform/embedded-postgres/system.ts"
import { type TestDatabase } from "./database.ts"
import { fast, makeDirectory, start } from "./embedded-postgres.ts"
import { childrenOf } from "./leaving-server.ts"
import { freePort } from "./server-process.ts"
import { asSuperuser } from "./statements.ts"
import { eventually } from "./waiting.ts"

/** A server of a pair. */
export interface PairedServer {
  readonly database: TestDatabase
  /** Ends it without a word. */
  readonly kill: Effect.Effect<void>
  readonly startAgain: Effect.Effect<void>
  /** Stops every process of it where it stands: it takes connections and says nothing. */
  readonly freeze: Effect.Effect<void, never, Scope.Scope>
}

/** A value that a server answers, as text. */
const positionOf = (database: TestDatabase, position: string) =>
  asSuperuser(database, (sql) =>
    Effect.map(sql<{ readonly at: string }>`SELECT (${sql.literal(position)})::text AS at`, ([row]) => row?.at ?? "")
  )

/** A migrated primary and a standby that streams from it. */
export const makePair = Effect.gen(function* () {
  const directories = [yield* makeDirectory(), yield* makeDirectory()] as const
  const scope = yield* Scope.make()
  const { password, username } = yield* Scope.provide(start(directories[0]), scope)
  yield* Scope.close(scope, Exit.void)
  const [home, copy] = [yield* openHome(directories[0]), yield* openHome(directories[1])]
  const binaries = yield* findBinaries(home.user, home.copies)
  yield* Effect.promise(async () => {
    await fs.cp(home.cluster, copy.cluster, { recursive: true, preserveTimestamps: true })
    await fs.writeFile(path.join(copy.cluster, "standby.signal"), "")
    const { user } = home
    if (user === undefined) return
    const names = [".", ...(await fs.readdir(copy.cluster, { recursive: true }))]
    await Promise.all(names.map((name) => fs.chown(path.join(copy.cluster, name), user.uid, user.gid)))
  })
  const ports = [yield* freePort, yield* freePort] as const
  const databaseAt = (port: number): TestDatabase => ({
    host: "127.0.0.1",
    port,
    username,
    password,
    database: "postgres"
  })

  const server = Effect.fnUntraced(function* (place: 0 | 1, settings: Record<string, string> = {}) {
    const port = ports[place]
    const options = Object.entries({
      ...fast,
      listen_addresses: "127.0.0.1",
      unix_socket_directories: "",
      port: `${port}`,
      jit: "off",
      log_min_messages: "fatal",
      ...settings
    }).flatMap(([name, value]) => ["-c", `${name}=${value}`])
    let child: ChildProcess | undefined
    const kill = Effect.callback<void>((resume) => {
      if (child === undefined || child.exitCode !== null || child.signalCode !== null) return resume(Effect.void)
      child.once("exit", () => resume(Effect.void))
      child.kill("SIGQUIT")
    })
    const startAgain = Effect.gen(function* () {
      const words = ["-D", [home, copy][place]?.cluster ?? "", ...options]
      child = spawn(binaries.postgres, words, { ...programOptions(home), stdio: "ignore" })
      yield* eventually(Effect.exit(asSuperuser(databaseAt(port), (sql) => sql`SELECT 1`)), (exit) =>
        Exit.isSuccess(exit)
      )
    })
    yield* Effect.acquireRelease(startAgain, () => kill)
    const signalAll = (signal: NodeJS.Signals) =>
      Effect.gen(function* () {
        const { pid } = child ?? {}
        if (pid === undefined) return
        for (const one of [pid, ...(yield* childrenOf(pid))]) sendSignal(one, signal)
      })
    const freeze = Effect.acquireRelease(signalAll("SIGSTOP"), () => signalAll("SIGCONT"))
    return { database: databaseAt(port), kill, startAgain, freeze } satisfies PairedServer
  })

  const primary = yield* server(0)
  yield* migrate(primary.database)
  const source = `host=127.0.0.1 port=${ports[0]} user=${username} password=${Redacted.value(password)}`
  const standby = yield* server(1, { primary_conninfo: source })
  const caughtUp = Effect.gen(function* () {
    const written = yield* positionOf(primary.database, "pg_current_wal_insert_lsn()")
    yield* eventually(
      positionOf(standby.database, `pg_last_wal_replay_lsn() >= '${written}'::pg_lsn`),
      (isThere) => isThere === "true"
    )
  })
  yield* caughtUp
  return {
    primary,
    standby,
    /** Waits until the standby has replayed what the primary has written. */
    caughtUp,
    promote: asSuperuser(standby.database, (sql) => sql`SELECT pg_promote()`),
    /** The URL of both, the primary first unless the order is another one. */
    url: (order: ReadonlyArray<PairedServer>, query = "") =>
      `postgres://${username}:${encodeURIComponent(Redacted.value(password))}@${order
        .map(({ database }) => `127.0.0.1:${database.port}`)
        .join()}/postgres${query}`
  }
})
