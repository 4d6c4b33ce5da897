import { Effect, Schedule } from "effect"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { type Binaries } from "./binaries.ts"
import { attempt, EmbeddedPostgresError } from "./error.ts"
import { type Home, ifPresent } from "./home.ts"
import { endPostmaster, findProcess, isTaken } from "./process.ts"

/**
 * Ends a server that outlived the process which started it, and removes a `postmaster.pid` whose number now belongs to
 * another program, which PostgreSQL would take for its predecessor. Needs the ownership of the home.
 */
export const endPredecessor = Effect.fnUntraced(function* (home: Home, binaries: Binaries) {
  const file = path.join(home.cluster, "postmaster.pid")
  const lines = yield* attempt("start-failed", `read ${file}`, () => ifPresent(fs.readFile(file, "utf8")))
  const pid = Math.abs(Number.parseInt(lines ?? "", 10))
  if (Number.isNaN(pid) || !isTaken(pid)) return
  const holder = identify((yield* findProcess(pid)) ?? "", home.cluster)
  // Whether this is a server of this cluster, started by hand, PostgreSQL finds out.
  if (holder === "some-server") return
  if (holder === "own-server") yield* endOrphan(home, binaries, pid)
  yield* attempt("start-failed", `remove ${file}`, () => fs.rm(file, { force: true }))
})

const identify = (commandLine: string, cluster: string): "own-server" | "some-server" | "other-program" => {
  const words = `${commandLine.replaceAll('"', "")} `
  if (/postgres(\.exe)? -D /.test(words) && words.includes(` -D ${cluster} `)) return "own-server"
  const namesDirectory = / -D ([/\\]|[A-Za-z]:)/.test(words)
  return /^\S*\bpostgres(\.exe)? /.test(words) && !namesDirectory ? "some-server" : "other-program"
}

const endOrphan = Effect.fnUntraced(function* (home: Home, binaries: Binaries, pid: number) {
  yield* Effect.logWarning("Embedded PostgreSQL outlived its service and is ended").pipe(
    Effect.annotateLogs({ pid, directory: home.directory })
  )
  const ended = Effect.repeat(findProcess(pid), {
    until: (current) => current === undefined,
    schedule: Schedule.spaced("5 millis")
  })
  if (yield* endPostmaster(pid, ended, binaries.pg_ctl)) return
  return yield* new EmbeddedPostgresError({
    reason: "start-failed",
    message: `The server ${pid} that an earlier service left in ${home.directory} does not end`
  })
})
