import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Redacted } from "effect"
import * as fs from "node:fs/promises"
import * as net from "node:net"
import * as os from "node:os"
import * as path from "node:path"
import { FreePort } from "../../src/platform/embedded-postgres/server.ts"
import {
  isLinux,
  fast,
  makeDirectory,
  start,
  query,
  postmasterPid,
  exists,
  UsedDirectory
} from "../support/embedded-postgres.ts"

describe("a start", () => {
  it.live("makes a durable database whose order does not depend on the machine, and finds it again", () =>
    Effect.gen(function* () {
      const directory = yield* makeDirectory()
      yield* Effect.scoped(
        Effect.gen(function* () {
          const server = yield* start(directory, {})
          assert.isTrue(server.initialised)
          assert.strictEqual(server.directory, directory)
          assert.deepStrictEqual(
            yield* query(
              server,
              `SELECT pg_encoding_to_char(encoding), datlocprovider::text, datlocale FROM pg_database WHERE datname = 'postgres'`
            ),
            [["UTF8", "b", "C.UTF-8"]]
          )
          const settings = ["data_checksums", "fsync", "jit", "max_connections", "shared_buffers", "listen_addresses"]
          assert.deepStrictEqual(
            yield* query(server, `SELECT ${settings.map((name) => `current_setting('${name}')`).join()}`),
            [["on", "on", "off", "100", "64MB", ""]]
          )
          yield* query(server, "CREATE TABLE kept AS SELECT 'found again' AS text")
        })
      )
      const server = yield* start(directory, {})
      assert.isFalse(server.initialised)
      assert.deepStrictEqual(yield* query(server, "SELECT text FROM kept"), [["found again"]])
    })
  )

  it.live("fails on a path that cannot be a directory", () =>
    Effect.gen(function* () {
      const directory = yield* makeDirectory()
      const file = path.join(directory, "file")
      yield* Effect.promise(() => fs.writeFile(file, ""))
      const error = yield* Effect.flip(start(path.join(file, "data")))
      assert.strictEqual(error.reason, "unreachable-directory")
      assert.include(error.message, file)
    })
  )
})

layer(UsedDirectory.layer, { excludeTestServices: true })("a start on a used directory", (it) => {
  it.effect("stores the password only in a file that only its account may read", () =>
    Effect.gen(function* () {
      const directory = yield* UsedDirectory
      const server = yield* start(directory)
      const password = Redacted.value(server.password)
      const file = path.join(directory, "password")
      const stat = yield* Effect.promise(() => fs.stat(file))
      assert.strictEqual(stat.mode & 0o777, 0o600)
      assert.strictEqual(yield* Effect.promise(() => fs.readFile(file, "utf8")), `${password}\n`)
      yield* Effect.flip(query({ ...server, password: Redacted.make("guess") }, "SELECT 1"))
      const pid = yield* postmasterPid(directory)
      const texts = yield* Effect.promise(() =>
        Promise.all(
          [
            path.join(directory, "postgres.log"),
            ...(isLinux ? [`/proc/${pid}/cmdline`, `/proc/${pid}/environ`] : [])
          ].map((name) => fs.readFile(name, "utf8"))
        )
      )
      for (const text of texts) assert.notInclude(text, password)
      assert.notInclude(texts[2] ?? "", "VITEST")
    })
  )

  it.effect("has a lower priority than the process that started it", () =>
    Effect.gen(function* () {
      const directory = yield* UsedDirectory
      yield* start(directory)
      const pid = Number(yield* postmasterPid(directory))
      assert.strictEqual(os.getPriority(pid), Math.min(19, os.getPriority() + 5))
    })
  )

  it.effect("fails with the server's own message", () =>
    Effect.gen(function* () {
      const directory = yield* UsedDirectory
      const error = yield* Effect.flip(start(directory, { ...fast, shared_buffers: "plenty" }))
      assert.strictEqual(error.reason, "start-failed")
      assert.include(error.message, 'invalid value for parameter "shared_buffers": "plenty"')
      assert.isFalse(yield* exists(path.join(directory, "cluster/postmaster.pid")))
    })
  )

  it.effect("keeps its log within bounds", () =>
    Effect.gen(function* () {
      const directory = yield* UsedDirectory
      yield* Effect.promise(() => fs.writeFile(path.join(directory, "postgres.log"), "x".repeat(4 * 1024 * 1024)))
      yield* start(directory)
      const log = yield* Effect.promise(() => fs.readFile(path.join(directory, "postgres.log"), "utf8"))
      assert.isBelow(log.length, 10_000)
      assert.include(log, "ready to accept connections")
      assert.isTrue(yield* exists(path.join(directory, "postgres.previous.log")))
    })
  )
})

describe("a place to listen", () => {
  it.live("is a private temporary directory when the path of the directory is too long for a socket", () =>
    Effect.gen(function* () {
      const directory = path.join(yield* makeDirectory(), "long".repeat(30))
      const host = yield* Effect.scoped(
        Effect.gen(function* () {
          const server = yield* start(directory)
          assert.deepStrictEqual(yield* query(server, "SELECT 1"), [[1]])
          assert.strictEqual((yield* Effect.promise(() => fs.stat(server.host))).mode & 0o777, 0o700)
          return server.host
        })
      )
      assert.isTrue(host.startsWith(os.tmpdir()))
      assert.isFalse(yield* exists(host))
    })
  )

  it.live("is another port when the chosen one is busy", () =>
    Effect.gen(function* () {
      const busy = yield* Effect.acquireRelease(
        Effect.callback<net.Server>((resume) => {
          const server = net.createServer().listen(0, "127.0.0.1", () => resume(Effect.succeed(server)))
        }),
        (server) => Effect.callback<void>((resume) => void server.close(() => resume(Effect.void)))
      )
      const address = busy.address()
      const busyPort = typeof address === "object" && address !== null ? address.port : 0
      const directory = path.join(yield* makeDirectory(), "long".repeat(30))
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          const original = process.env.TMPDIR
          process.env.TMPDIR = directory
          return original
        }),
        (original) =>
          Effect.sync(() => {
            if (original === undefined) delete process.env.TMPDIR
            else process.env.TMPDIR = original
          })
      )
      const freePort = yield* FreePort
      const choices = [Effect.succeed(busyPort)]
      const server = yield* start(directory).pipe(
        Effect.provideService(
          FreePort,
          Effect.suspend(() => choices.pop() ?? freePort)
        )
      )
      assert.strictEqual(server.host, "127.0.0.1")
      assert.notStrictEqual(server.port, busyPort)
      assert.lengthOf(choices, 0)
      assert.deepStrictEqual(yield* query(server, "SELECT 1"), [[1]])
      yield* Effect.flip(query({ ...server, password: Redacted.make("guess") }, "SELECT 1"))
    })
  )
})
