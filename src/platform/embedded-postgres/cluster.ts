import { Effect, Redacted } from "effect"
import { randomBytes, randomUUID } from "node:crypto"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { type Binaries } from "./binaries.ts"
import { attempt, EmbeddedPostgresError } from "./error.ts"
import { type Home, ifPresent } from "./home.ts"
import { run } from "./program.ts"

/** The superuser of every embedded cluster. */
export const username = "postgres"

const stagingPrefix = "initialising-"

/**
 * Makes the cluster unless it exists; `initialised` tells which. It is made beside its place and moved there when it is
 * whole. The password of the superuser is kept in the file `password`, which only this account may read.
 */
export const openCluster = Effect.fnUntraced(function* (
  home: Home,
  binaries: Binaries,
  durable: boolean
): Effect.fn.Return<{ readonly password: Redacted.Redacted; readonly initialised: boolean }, EmbeddedPostgresError> {
  yield* removeUnfinished(home.directory)
  const found = yield* attempt("unreachable-directory", `look into ${home.cluster}`, () =>
    ifPresent(fs.stat(home.cluster))
  )
  const password = yield* openPassword(home.directory, found === undefined)
  if (found === undefined) yield* initialise(home, binaries, password, durable)
  return { password, initialised: found === undefined }
})

const removeUnfinished = (directory: string) =>
  attempt("unreachable-directory", `read ${directory}`, async () => {
    const names = await fs.readdir(directory)
    const unfinished = names.filter((name) => name.startsWith(stagingPrefix))
    await Promise.all(unfinished.map((name) => removeStaging(path.join(directory, name))))
  })

// A program that was killed, or whose parent was, may write there for a moment; what is left the next start removes.
const removeStaging = (staging: string) =>
  fs.rm(staging, { recursive: true, force: true, maxRetries: 10, retryDelay: 20 }).catch(() => undefined)

const openPassword = Effect.fnUntraced(function* (
  directory: string,
  mayMake: boolean
): Effect.fn.Return<Redacted.Redacted, EmbeddedPostgresError> {
  const file = path.join(directory, "password")
  const kept = yield* attempt("unreachable-directory", `read ${file}`, () => ifPresent(fs.readFile(file, "utf8")))
  if (kept !== undefined) return Redacted.make(kept.trim())
  if (!mayMake) {
    return yield* new EmbeddedPostgresError({ reason: "start-failed", message: `The password file ${file} is missing` })
  }
  const made = randomBytes(32).toString("base64url")
  yield* attempt("unreachable-directory", `write ${file}`, async () => {
    await fs.rm(`${file}.new`, { force: true })
    await fs.writeFile(`${file}.new`, `${made}\n`, { mode: 0o600, flag: "wx", flush: true })
    await fs.rename(`${file}.new`, file)
  })
  return Redacted.make(made)
})

const initialise = (home: Home, binaries: Binaries, password: Redacted.Redacted, durable: boolean) => {
  const staging = path.join(home.directory, `${stagingPrefix}${randomUUID()}`)
  const staged = path.join(staging, "cluster")
  const passwordFile = path.join(staging, "password")
  return Effect.gen(function* () {
    yield* attempt("unreachable-directory", `make ${staging}`, async () => {
      await fs.mkdir(staging, { mode: 0o700 })
      await fs.writeFile(passwordFile, `${Redacted.value(password)}\n`, { mode: 0o600, flag: "wx" })
      if (home.user === undefined) return
      await fs.chown(passwordFile, home.user.uid, home.user.gid)
      await fs.chown(staging, home.user.uid, home.user.gid)
    })
    const result = yield* run(
      binaries.initdb,
      [
        `--pgdata=${staged}`,
        `--username=${username}`,
        `--pwfile=${passwordFile}`,
        "--auth=scram-sha-256",
        "--encoding=UTF8",
        "--locale=C",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "--data-checksums",
        "--no-instructions",
        ...(durable ? [] : ["--no-sync"])
      ],
      { user: home.user, directory: home.directory }
    )
    if (result.exitCode !== 0) {
      return yield* new EmbeddedPostgresError({
        reason: "initialise-failed",
        message: `PostgreSQL could not initialise ${home.directory}: ${result.output}`
      })
    }
    yield* attempt("initialise-failed", `move ${staged} to ${home.cluster}`, async () => {
      await fs.rename(staged, home.cluster)
      if (durable) await syncDirectory(home.directory)
    })
  }).pipe(Effect.ensuring(Effect.promise(() => removeStaging(staging))))
}

const syncDirectory = async (directory: string) => {
  if (process.platform === "win32") return
  const handle = await fs.open(directory, "r")
  await handle.sync().finally(() => handle.close())
}
