import { PgClient } from "@effect/sql-pg"
import { assert } from "@effect/vitest"
import { Context, Effect, Layer, Redacted, Schedule } from "effect"
import { Reactivity } from "effect/reactivity"
import { type ChildProcess, spawn } from "node:child_process"
import * as fs from "node:fs/promises"
import * as os from "node:os"
import * as path from "node:path"
import * as EmbeddedPostgres from "../../src/platform/embedded-postgres/embedded-postgres.ts"
import { type EmbeddedPostgresError, findProcess } from "../../src/platform/embedded-postgres/system.ts"

export const isRoot = process.geteuid?.() === 0
export const isLinux = process.platform === "linux"
export const project = path.resolve(import.meta.dirname, "../..")
export const fast = { fsync: "off", synchronous_commit: "off", full_page_writes: "off" }

export const makeDirectory = (parent = os.tmpdir()) =>
  Effect.acquireRelease(
    Effect.promise(async () => {
      const directory = await fs.mkdtemp(path.join(parent, "embedded-"))
      await fs.chmod(directory, 0o711)
      return fs.realpath(directory)
    }),
    (directory) => Effect.promise(() => fs.rm(directory, { recursive: true, force: true }))
  )

export const start = (directory: string, settings: Record<string, string> = fast) =>
  EmbeddedPostgres.start({ directory, settings })

export const query = (server: EmbeddedPostgres.EmbeddedPostgresServer, text: string) =>
  PgClient.makeClient({ ...EmbeddedPostgres.connection(server), database: "postgres" }).pipe(
    Effect.flatMap((sql) => sql.unsafe(text).values),
    Effect.scoped,
    Effect.provide(Reactivity.layer)
  )

export const postmasterPid = (directory: string) =>
  Effect.promise(async () =>
    Number.parseInt(await fs.readFile(path.join(directory, "cluster/postmaster.pid"), "utf8"), 10)
  )

export const until = <A, E>(check: Effect.Effect<A, E>, isReached: (value: A) => boolean) =>
  Effect.repeat(check, { until: isReached, schedule: Schedule.spaced("5 millis") })

export const untilGone = (pid: number) => until(findProcess(pid), (found) => found === undefined)

export const exists = (file: string) =>
  Effect.promise(() =>
    fs.access(file).then(
      () => true,
      () => false
    )
  )

/** The processes of Linux whose command line contains a text. */
export const processesWith = (text: string) =>
  Effect.promise(async () => {
    const names = (await fs.readdir("/proc")).filter((name) => /^\d+$/.test(name))
    const commandLines = await Promise.all(
      names.map((name) => fs.readFile(`/proc/${name}/cmdline`, "utf8").catch(() => ""))
    )
    return names.filter((_, index) => commandLines[index]?.includes(text)).map(Number)
  })

interface OtherService {
  readonly child: ChildProcess
  readonly server: EmbeddedPostgres.EmbeddedPostgresServer
}

/** A service in a process (and process group) of its own; on SIGINT it asks its server something and closes its scope. */
export const startElsewhere = (
  directory: string,
  options: { readonly source?: string; readonly user?: { readonly uid: number; readonly gid: number } } = {}
) =>
  Effect.acquireRelease(
    Effect.callback<OtherService, Error>((resume) => {
      const source = options.source ?? project
      const child = spawn(
        process.execPath,
        [
          "--input-type=module",
          "--eval",
          service,
          path.join(source, "src/platform/embedded-postgres/embedded-postgres.ts"),
          directory
        ],
        { cwd: source, detached: true, stdio: ["ignore", "pipe", "pipe"], ...options.user }
      )
      const output: Array<string> = []
      const collect = (chunk: Buffer) => {
        output.push(chunk.toString())
        const ready = /^ready (.*)$/m.exec(output.join(""))?.[1]
        if (ready === undefined) return
        const { password, ...server } = JSON.parse(ready)
        resume(Effect.succeed({ child, server: { ...server, password: Redacted.make(password) } }))
      }
      child.stdout.on("data", collect)
      child.stderr.on("data", collect)
      child.once("close", () => resume(Effect.die(new Error(output.join("")))))
    }),
    ({ child, server }) =>
      Effect.gen(function* () {
        child.kill("SIGKILL")
        const watched = isLinux ? yield* processesWith(server.directory) : []
        yield* Effect.forEach(watched, untilGone)
      })
  )

const service = `
import { Deferred, Effect, Redacted } from "effect"
import { PgClient } from "@effect/sql-pg"
import { Reactivity } from "effect/reactivity"
const [module, directory] = process.argv.slice(1)
const { connection, start } = await import(module)
const interrupted = Deferred.makeUnsafe()
process.once("SIGINT", () => Deferred.doneUnsafe(interrupted, Effect.void))
await Effect.gen(function* () {
  const server = yield* start({ directory, settings: { fsync: "off" } })
  process.stdout.write("ready " + JSON.stringify({ ...server, password: Redacted.value(server.password) }) + "\\n")
  yield* Deferred.await(interrupted)
  const sql = yield* PgClient.makeClient({ ...connection(server), database: "postgres" })
  yield* sql\`SELECT 1\`
}).pipe(Effect.scoped, Effect.provide(Reactivity.layer), Effect.runPromise)
`

export const ended = (child: ChildProcess) =>
  Effect.callback<number | null>((resume) => {
    if (child.exitCode !== null || child.signalCode !== null) resume(Effect.succeed(child.exitCode))
    else child.once("exit", (exitCode) => resume(Effect.succeed(exitCode)))
  })

/** A directory that has a database already and nobody uses; the tests that need no new one share it. */
export class UsedDirectory extends Context.Service<UsedDirectory, string>()("test/UsedDirectory") {
  static readonly layer = Layer.effect(
    UsedDirectory,
    Effect.gen(function* () {
      const directory = yield* makeDirectory()
      yield* Effect.scoped(start(directory))
      return directory
    })
  )
}

export const staging = (directory: string) =>
  Effect.promise(async () => {
    const names = await fs.readdir(directory).catch(() => [])
    return names.filter((name) => name.startsWith("initialising-"))
  })

export const initialisationBegun = (directory: string) => until(staging(directory), (names) => names.length > 0)

/** Leaves behind what a killed service leaves when its process ids went to `pid`. */
export const leavePid = (directory: string, pid: number | undefined) =>
  Effect.promise(async () => {
    const cluster = path.join(directory, "cluster")
    const file = path.join(cluster, "postmaster.pid")
    await fs.writeFile(file, [pid, cluster, 1_700_000_000, 5432, "", "", "", "ready", ""].join("\n"), { mode: 0o600 })
    const { uid, gid } = await fs.stat(cluster)
    await fs.chown(file, uid, gid)
    await fs.writeFile(path.join(directory, "owner.json"), JSON.stringify({ pid }))
  })

export const assertRefused = (error: EmbeddedPostgresError, directory: string, pid: number | undefined) => {
  assert.strictEqual(error.reason, "directory-in-use")
  assert.include(error.message, directory)
  assert.match(error.message, new RegExp(`\\b${pid}\\b`))
}

export const closeToOthers = (directory: string) => Effect.promise(() => fs.chmod(directory, 0o700))
