import { Effect, Exit, Scope } from "effect"
import * as fs from "node:fs/promises"
import { migrate } from "../../src/platform/database/migrations.ts"
import * as EmbeddedPostgres from "../../src/platform/embedded-postgres/embedded-postgres.ts"
import { sendSignal } from "../../src/platform/embedded-postgres/system.ts"
import { type TestDatabase } from "./database.ts"
import { makeDirectory, postmasterPid, start } from "./embedded-postgres.ts"

/** The processes that a process has started, on Linux. */
export const childrenOf = (parent: number) =>
  Effect.promise(async () => {
    const names = (await fs.readdir("/proc")).filter((name) => /^\d+$/u.test(name))
    const stats = await Promise.all(names.map((name) => fs.readFile(`/proc/${name}/stat`, "utf8").catch(() => "")))
    // After the name in parentheses come the state and the parent.
    return names.map(Number).filter((_, at) => Number(stats[at]?.split(") ").at(-1)?.split(" ")[1]) === parent)
  })

/** A database server that may go away and come back at the same place. */
export const makeServer = Effect.gen(function* () {
  const directory = yield* makeDirectory()
  let scope = yield* Scope.make()
  yield* Effect.addFinalizer(() => Effect.suspend(() => Scope.close(scope, Exit.void)))
  // A server that is killed keeps what it has written, as long as it has: commits wait for that here.
  const begin = Effect.suspend(() => Scope.provide(start(directory, { fsync: "off" }), scope))
  const end = Effect.suspend(() => Scope.close(scope, Exit.void))
  const database: TestDatabase = yield* Effect.map(begin, (server) => ({
    ...EmbeddedPostgres.connection(server),
    host: server.host,
    port: server.port,
    username: server.username,
    password: server.password,
    database: "postgres"
  }))
  yield* migrate(database)
  const signalAll = (signal: NodeJS.Signals) =>
    Effect.gen(function* () {
      const pid = yield* postmasterPid(directory)
      for (const one of [pid, ...(yield* childrenOf(pid))]) sendSignal(one, signal)
    })
  return {
    database,
    stop: end,
    crash: Effect.flatMap(postmasterPid(directory), (pid) => Effect.sync(() => sendSignal(pid, "SIGKILL"))).pipe(
      Effect.andThen(end)
    ),
    /** Stops every process of the server where it stands: it takes connections and says nothing. */
    freeze: Effect.acquireRelease(signalAll("SIGSTOP"), () => signalAll("SIGCONT")),
    startAgain: Effect.suspend(() => {
      scope = Scope.makeUnsafe()
      return begin
    })
  }
})
