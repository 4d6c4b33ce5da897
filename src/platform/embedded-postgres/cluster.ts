import { Effect, Redacted, Schedule } from "effect"
import { randomBytes, randomUUID } from "node:crypto"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { type Binaries } from "./binaries.ts"
import { type Home } from "./home.ts"
import { attempt, EmbeddedPostgresError, endPostmaster, findProcess, ifPresent, isTaken, run } from "./system.ts"

/** The superuser of every embedded cluster. */
export const username = "postgres"

const stagingPrefix = "initialising-"

/**
 * Creates the cluster unless it exists; `initialised` tells which. It is created beside its place and moved there when
 * it is whole. The password of the superuser is kept in the file `password`, which only this account may read.
 */
export const openCluster = Effect.fnUntraced(function* (
  home: Home,
  binaries: Binaries,
  durable: boolean
): Effect.fn.Return<{ readonly password: Redacted.Redacted; readonly initialised: boolean }, EmbeddedPostgresError> {
  const found = yield* attempt("unreachable-directory", `look into ${home.directory}`, async () => {
    const names = await fs.readdir(home.directory)
    const unfinished = names.filter((name) => name.startsWith(stagingPrefix))
    await Promise.all(unfinished.map((name) => removeStaging(path.join(home.directory, name))))
    return names.includes(path.basename(home.cluster))
  })
  const password = yield* found ? readPassword(home) : makePassword(home)
  if (!found) yield* initialise(home, binaries, password, durable)
  return { password, initialised: !found }
})

// A program that was killed, or whose parent was, may write there for a moment; the next start removes what is left.
const removeStaging = (staging: string) =>
  fs.rm(staging, { recursive: true, force: true, maxRetries: 10, retryDelay: 20 }).catch(() => undefined)

const passwordFile = (home: Home) => path.join(home.directory, "password")

/** The superuser's password of a cluster that exists. */
export const readPassword = (home: Home): Effect.Effect<Redacted.Redacted, EmbeddedPostgresError> =>
  attempt("unreachable-directory", `read ${passwordFile(home)}`, async () =>
    Redacted.make((await fs.readFile(passwordFile(home), "utf8")).trim())
  )

const makePassword = (home: Home) =>
  attempt("unreachable-directory", `write ${passwordFile(home)}`, async () => {
    const file = passwordFile(home)
    const password = randomBytes(32).toString("base64url")
    await fs.rm(`${file}.new`, { force: true })
    await fs.writeFile(`${file}.new`, `${password}\n`, { mode: 0o600, flag: "wx", flush: true })
    await fs.rename(`${file}.new`, file)
    return Redacted.make(password)
  })

const initialise = (home: Home, binaries: Binaries, password: Redacted.Redacted, durable: boolean) => {
  const staging = path.join(home.directory, `${stagingPrefix}${randomUUID()}`)
  const staged = path.join(staging, "cluster")
  const pwfile = path.join(staging, "password")
  return Effect.gen(function* () {
    yield* attempt("unreachable-directory", `make ${staging}`, async () => {
      await fs.mkdir(staging, { mode: 0o700 })
      await fs.writeFile(pwfile, `${Redacted.value(password)}\n`, { mode: 0o600, flag: "wx" })
      if (home.user === undefined) return
      await fs.chown(pwfile, home.user.uid, home.user.gid)
      await fs.chown(staging, home.user.uid, home.user.gid)
    })
    const result = yield* run(
      binaries.initdb,
      [
        `--pgdata=${staged}`,
        `--username=${username}`,
        `--pwfile=${pwfile}`,
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--data-checksums",
        "--no-instructions",
        ...(durable ? [] : ["--no-sync"])
      ],
      home
    )
    if (result.exitCode !== 0) {
      return yield* new EmbeddedPostgresError({
        reason: "initialise-failed",
        message: `PostgreSQL could not initialise ${home.directory}: ${result.output}`
      })
    }
    yield* attempt("initialise-failed", `move ${staged} to ${home.cluster}`, async () => {
      await fs.rename(staged, home.cluster)
      if (!durable) return
      const directory = await fs.open(home.directory, "r")
      await directory.sync().finally(() => directory.close())
    })
  }).pipe(Effect.ensuring(Effect.promise(() => removeStaging(staging))))
}

const postmasterFile = (home: Home) => path.join(home.cluster, "postmaster.pid")

const readPostmasterFile = (home: Home) =>
  attempt("start-failed", `read ${postmasterFile(home)}`, () => ifPresent(fs.readFile(postmasterFile(home), "utf8")))

/** Where the server of a home listens that another process runs: the fourth line of its file and the two after it. */
export const endpointOfRunning = (home: Home) =>
  Effect.map(readPostmasterFile(home), (text = "") => {
    const [, , , port = "", socketDirectory = "", address = ""] = text.split("\n").map((line) => line.trim())
    const host = socketDirectory || address
    return host !== "" && /^\d+$/.test(port) ? { host, port: Number(port) } : undefined
  })

/**
 * Ends a server that outlived the process which started it, and removes a `postmaster.pid` whose number now belongs to
 * another program, which PostgreSQL would take for its predecessor. Needs the ownership of the home.
 */
export const endPredecessor = Effect.fnUntraced(function* (home: Home) {
  const pid = Math.abs(Number.parseInt((yield* readPostmasterFile(home)) ?? "", 10))
  if (Number.isNaN(pid) || !isTaken(pid)) return
  const commandLine = `${(yield* findProcess(pid)) ?? ""} `
  const isOurs = commandLine.includes(`postgres -D ${home.cluster} `)
  // PostgreSQL itself finds out whether a server that was started by hand, without a full path, is this cluster's.
  if (!isOurs && /^\S*\bpostgres /.test(commandLine) && !commandLine.includes(" -D /")) return
  if (isOurs) {
    yield* Effect.logWarning("Stopping an embedded PostgreSQL that outlived its service").pipe(
      Effect.annotateLogs({ pid, directory: home.directory })
    )
    const ended = Effect.repeat(findProcess(pid), {
      until: (current) => current === undefined,
      schedule: Schedule.spaced("5 millis")
    })
    if (!(yield* endPostmaster(pid, ended))) {
      return yield* new EmbeddedPostgresError({
        reason: "start-failed",
        message: `The server ${pid} that an earlier service left in ${home.directory} does not stop`
      })
    }
  }
  yield* attempt("start-failed", `remove ${postmasterFile(home)}`, () => fs.rm(postmasterFile(home), { force: true }))
})
