import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Fiber, Option } from "effect"
import { spawn } from "node:child_process"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { findProcess } from "../../src/platform/embedded-postgres/system.ts"
import {
  isRoot,
  isLinux,
  makeDirectory,
  start,
  query,
  postmasterPid,
  until,
  untilGone,
  exists,
  processesWith,
  startElsewhere,
  ended,
  staging,
  initialisationBegun,
  leavePid,
  assertRefused,
  UsedDirectory
} from "../support/embedded-postgres.ts"

describe("an initialisation", () => {
  it.live("that is interrupted leaves nothing behind", () =>
    Effect.gen(function* () {
      const directory = yield* makeDirectory()
      const fiber = yield* Effect.forkChild(Effect.scoped(start(directory)))
      yield* initialisationBegun(directory)
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(yield* staging(directory), [])
      assert.isFalse(yield* exists(path.join(directory, "cluster")))
      assert.isFalse(yield* exists(path.join(directory, "owner.json")))
      assert.isTrue((yield* start(directory)).initialised)
    })
  )

  it.live.skipIf(!isLinux)("that was killed is not taken for a database", () =>
    Effect.gen(function* () {
      const directory = yield* makeDirectory()
      const other = yield* Effect.forkChild(Effect.exit(Effect.scoped(startElsewhere(directory))))
      yield* initialisationBegun(directory)
      const pids = yield* processesWith(directory)
      for (const pid of pids) process.kill(pid, "SIGKILL")
      yield* Fiber.join(other)
      yield* Effect.forEach(pids, untilGone)
      assert.isNotEmpty(yield* staging(directory))
      const server = yield* start(directory)
      assert.isTrue(server.initialised)
      assert.deepStrictEqual(yield* staging(directory), [])
      assert.deepStrictEqual(yield* query(server, "SELECT 1"), [[1]])
    })
  )
})

layer(UsedDirectory.layer, { excludeTestServices: true })("what a dead service left behind", (it) => {
  it.effect("does not prevent a start when the process id is free", () =>
    Effect.gen(function* () {
      const directory = yield* UsedDirectory
      const dead = spawn(process.execPath, ["--version"], { stdio: "ignore" })
      yield* ended(dead)
      yield* leavePid(directory, dead.pid)
      assert.deepStrictEqual(yield* query(yield* start(directory), "SELECT 1"), [[1]])
    })
  )

  it.effect("does not prevent a start when the process id is another program's", () =>
    Effect.gen(function* () {
      const directory = yield* UsedDirectory
      const { uid, gid } = yield* Effect.promise(() => fs.stat(path.join(directory, "cluster")))
      const stranger = yield* Effect.acquireRelease(
        Effect.sync(() => spawn("sleep", ["600"], { stdio: "ignore", ...(isRoot ? { uid, gid } : {}) })),
        (child) =>
          Effect.andThen(
            Effect.sync(() => child.kill("SIGKILL")),
            ended(child)
          )
      )
      yield* leavePid(directory, stranger.pid)
      assert.deepStrictEqual(yield* query(yield* start(directory), "SELECT 1"), [[1]])
      assert.isNull(stranger.exitCode ?? stranger.signalCode)
    })
  )

  it.effect.skipIf(!isLinux)("is a server that ends by itself", () =>
    Effect.gen(function* () {
      const directory = yield* UsedDirectory
      const { child } = yield* startElsewhere(directory)
      const pid = yield* postmasterPid(directory)
      child.kill("SIGKILL")
      yield* untilGone(pid)
      yield* until(processesWith(directory), (pids) => pids.length === 0)
      assert.isFalse(yield* exists(path.join(directory, "cluster/postmaster.pid")))
    })
  )

  it.effect.skipIf(!isLinux)("is a server that is ended by the next start, with all that was committed", () =>
    Effect.gen(function* () {
      const directory = yield* UsedDirectory
      const { child, server } = yield* startElsewhere(directory)
      yield* query(server, "CREATE TABLE orphaned AS SELECT 'committed' AS text")
      const orphan = yield* postmasterPid(directory)
      const watchers = (yield* processesWith(`-watcher\0${orphan}\0`)).concat(child.pid ?? [])
      assert.lengthOf(watchers, 2)
      for (const pid of watchers) process.kill(pid, "SIGKILL")
      yield* ended(child)
      assert.isDefined(yield* findProcess(orphan))

      const next = yield* start(directory)
      assert.isUndefined(yield* findProcess(orphan))
      assert.isFalse(next.initialised)
      assert.deepStrictEqual(yield* query(next, "SELECT text FROM orphaned"), [["committed"]])
      const log = yield* Effect.promise(() => fs.readFile(path.join(directory, "postgres.log"), "utf8"))
      assert.notInclude(log, "automatic recovery")
    })
  )

  it.effect.skipIf(!isLinux)("is a database to recover when the server was killed as well", () =>
    Effect.gen(function* () {
      const directory = yield* UsedDirectory
      const { child, server } = yield* startElsewhere(directory)
      yield* query(server, "CREATE TABLE recovered AS SELECT 'committed' AS text")
      process.kill(yield* postmasterPid(directory), "SIGKILL")
      child.kill("SIGKILL")
      yield* ended(child)
      assert.deepStrictEqual(yield* query(yield* start(directory), "SELECT text FROM recovered"), [["committed"]])
    })
  )
})

layer(UsedDirectory.layer, { excludeTestServices: true })("a server that dies under its service", (it) => {
  it.effect("is restarted at the same endpoint, with all that was committed, and stopped with the service", () =>
    Effect.gen(function* () {
      const directory = yield* UsedDirectory
      const first = yield* Effect.scoped(
        Effect.gen(function* () {
          const server = yield* start(directory, {})
          yield* query(server, "CREATE TABLE survived AS SELECT 'committed' AS text")
          process.kill(yield* postmasterPid(directory), "SIGKILL")
          const rows = Effect.option(query(server, "SELECT text FROM survived"))
          assert.deepStrictEqual(yield* until(rows, Option.isSome), Option.some([["committed"]]))
          return yield* postmasterPid(directory)
        })
      )
      yield* untilGone(first)
      assert.deepStrictEqual(yield* query(yield* start(directory), "SELECT text FROM survived"), [["committed"]])
    })
  )
})

it.live("a server that listens in a temporary directory and dies is restarted at the same endpoint", () =>
  Effect.gen(function* () {
    const directory = path.join(yield* makeDirectory(), "long".repeat(30))
    const server = yield* start(directory)
    process.kill(yield* postmasterPid(directory), "SIGKILL")
    const rows = Effect.option(query(server, "SELECT 1"))
    yield* until(rows, Option.isNone)
    assert.deepStrictEqual(yield* until(rows, Option.isSome), Option.some([[1]]))
  })
)

layer(UsedDirectory.layer, { excludeTestServices: true })("an owner", (it) => {
  it.effect("excludes others in its process", () =>
    Effect.gen(function* () {
      const directory = yield* UsedDirectory
      const server = yield* start(directory)
      assertRefused(
        yield* Effect.flip(Effect.scoped(start(`${directory}/../${path.basename(directory)}`))),
        directory,
        process.pid
      )
      assert.deepStrictEqual(yield* query(server, "SELECT 1"), [[1]])
      assertRefused(yield* Effect.flip(Effect.scoped(start(directory))), directory, process.pid)
    })
  )

  it.effect.skipIf(!isLinux)("excludes other processes", () =>
    Effect.gen(function* () {
      const directory = yield* UsedDirectory
      const { child, server } = yield* startElsewhere(directory)
      assertRefused(yield* Effect.flip(Effect.scoped(start(directory))), directory, child.pid)
      assert.deepStrictEqual(yield* query(server, "SELECT 1"), [[1]])
    })
  )

  it.effect("leaves nothing running", () =>
    Effect.gen(function* () {
      const directory = yield* UsedDirectory
      const pid = yield* Effect.scoped(Effect.andThen(start(directory), postmasterPid(directory)))
      assert.isUndefined(yield* findProcess(pid))
      if (isLinux) assert.deepStrictEqual(yield* processesWith(directory), [])
      assert.isFalse(yield* exists(path.join(directory, "owner.json")))
      assert.isFalse(yield* exists(path.join(directory, "cluster/postmaster.pid")))
      const log = yield* Effect.promise(() => fs.readFile(path.join(directory, "postgres.log"), "utf8"))
      assert.include(log, "database system is shut down")
    })
  )

  it.effect.skipIf(!isLinux)("keeps its server until its own end when a terminal interrupts the process group", () =>
    Effect.gen(function* () {
      const directory = yield* UsedDirectory
      const { child } = yield* startElsewhere(directory)
      const pid = yield* postmasterPid(directory)
      process.kill(-(child.pid ?? 0), "SIGINT")
      assert.strictEqual(yield* ended(child), 0)
      assert.isUndefined(yield* findProcess(pid))
      assert.deepStrictEqual(yield* processesWith(directory), [])
    })
  )
})
