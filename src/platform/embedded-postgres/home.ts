import { Effect, Schedule, Schema, type Scope } from "effect"
import { createHash } from "node:crypto"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { DatabaseSync } from "node:sqlite"
import { makeDirectory } from "../runtime/directory.ts"
import {
  attempt,
  EmbeddedPostgresError,
  ifPresent,
  isTaken,
  mayEnter,
  type Runner,
  userNamed,
  userOwning
} from "./system.ts"

/** Where a database lives, the given directory or the one that took its place, and which account serves it. */
export interface Home extends Runner {
  /** The data directory of PostgreSQL in it, which exists only as a whole cluster. */
  readonly cluster: string
  /** Creates and names the directory that may hold copies of programs. */
  readonly copies: Effect.Effect<string, EmbeddedPostgresError>
}

/**
 * Finds or creates the home of a directory's database. PostgreSQL refuses to run as root, so root runs it as `postgres`
 * or `nobody`; where that account cannot enter the given directory, a directory of root's own takes its place, and the
 * file `location` in the given one names it from then on.
 */
export const openHome = Effect.fnUntraced(function* (given: string): Effect.fn.Return<Home, EmbeddedPostgresError> {
  const directory = yield* attempt("unreachable-directory", `make the directory ${given}`, async () => {
    await makeDirectory(given, isRoot() ? 0o711 : 0o700)
    return fs.realpath(given)
  })
  const location = yield* readLocation(directory)
  const home = yield* homeIn(location ?? directory)
  if (home.user === undefined || (yield* mayEnter(home.user, home.directory))) return home
  const refused = unreachableDirectory(`The user ${home.user.name} cannot enter ${home.directory}`)
  if (location !== undefined || (yield* ownerOfCluster(home.directory)) !== undefined) return yield* refused
  const substitute = yield* homeIn(yield* makeSubstitute(directory))
  if (substitute.user === undefined || (yield* mayEnter(substitute.user, substitute.directory))) return substitute
  return yield* refused
})

const isRoot = () => process.geteuid?.() === 0

const unreachableDirectory = (message: string) =>
  new EmbeddedPostgresError({ reason: "unreachable-directory", message })

/** A short name for a directory, for what belongs to it and lives elsewhere. */
export const digestOf = (directory: string) => createHash("sha256").update(directory).digest("hex").slice(0, 16)

const homeIn = Effect.fnUntraced(function* (directory: string): Effect.fn.Return<Home, EmbeddedPostgresError> {
  const owner = yield* ownerOfCluster(directory)
  const cluster = path.join(directory, "cluster")
  if (isRoot()) {
    const user = owner === undefined ? yield* serverUser : yield* userOwning(owner)
    return { directory, cluster, user, copies: rootDirectory }
  }
  if (owner === undefined || owner.uid === process.geteuid?.()) {
    return { directory, cluster, user: undefined, copies: Effect.succeed(directory) }
  }
  const { name } = yield* userOwning(owner)
  return yield* unreachableDirectory(
    `The database in ${directory} belongs to the user ${name}; start the service as that user`
  )
})

const ownerOfCluster = (directory: string) =>
  attempt("unreachable-directory", `look into ${directory}`, () => ifPresent(fs.stat(path.join(directory, "cluster"))))

const serverUser = Effect.gen(function* () {
  for (const name of ["postgres", "_postgres", "nobody"]) {
    const user = yield* userNamed(name)
    if (user !== undefined) return user
  }
  return yield* new EmbeddedPostgresError({
    reason: "unsupported-platform",
    message: "PostgreSQL does not run as root, and this system has neither a user postgres nor a user nobody"
  })
})

const readLocation = Effect.fnUntraced(function* (directory: string) {
  const file = path.join(directory, "location")
  const location = yield* attempt("unreachable-directory", `read ${file}`, () => ifPresent(fs.readFile(file, "utf8")))
  if (location === undefined) return undefined
  // A database that vanished must not come back empty without notice.
  return yield* attempt(
    "unreachable-directory",
    `find the database of ${directory} in ${location.trim()} (restore it, or remove ${file} to begin with an empty one)`,
    () => fs.realpath(location.trim())
  )
})

const makeSubstitute = Effect.fnUntraced(function* (directory: string) {
  const substitute = path.join(yield* rootDirectory, `${path.basename(directory)}-${digestOf(directory)}`)
  return yield* attempt("unreachable-directory", `make the directory ${substitute}`, async () => {
    await fs.mkdir(substitute, { recursive: true })
    await fs.chmod(substitute, 0o711)
    await fs.writeFile(path.join(directory, "location.new"), `${substitute}\n`, { flush: true })
    await fs.rename(path.join(directory, "location.new"), path.join(directory, "location"))
    return fs.realpath(substitute)
  })
})

const rootDirectory = Effect.suspend(() =>
  Effect.firstSuccessOf(
    ["/var/lib/application-manager", `/var/tmp/application-manager-${process.geteuid?.()}`].map((directory) =>
      attempt("unreachable-directory", `use ${directory} for PostgreSQL`, async () => {
        await fs.mkdir(directory).then(
          () => fs.chmod(directory, 0o755),
          () => undefined
        )
        // Any account may create a directory in /var/tmp: one that others own or can change is not trusted.
        const found = await fs.lstat(directory)
        if (!found.isDirectory() || found.uid !== process.geteuid?.()) throw new Error("it belongs to another user")
        if ((found.mode & 0o022) !== 0) throw new Error("other users may write there")
        return directory
      })
    )
  )
)

/**
 * Takes the directory for this process until the scope closes; `owner.json` in it names the owner meanwhile.
 * The lock is the operating system's: it ends with its process, however that comes about, a process that got a dead
 * owner's id does not hold it, and two containers that mount one directory see each other's.
 */
export const own = Effect.fnUntraced(function* (
  directory: string
): Effect.fn.Return<void, EmbeddedPostgresError, Scope.Scope> {
  const file = path.join(directory, "owner.json")
  yield* Effect.acquireRelease(lock(directory, file), (held) => Effect.sync(() => held.close()))
  yield* Effect.acquireRelease(
    attempt("unreachable-directory", `write ${file}`, async () => {
      await fs.writeFile(`${file}.new`, `${JSON.stringify({ pid: process.pid })}\n`)
      await fs.rename(`${file}.new`, file)
    }),
    () => Effect.promise(() => fs.rm(file, { force: true }))
  )
})

// SQLite is Node's only way to the file locks of every operating system; nothing is ever written to this file, and it
// stays, since a lock on a removed file excludes no other process. No other code may open it: closing it would release the lock.
const lock = Effect.fnUntraced(function* (directory: string, ownerFile: string) {
  const file = path.join(directory, "owner.lock")
  const held = yield* attempt("unreachable-directory", `lock ${file}`, () => {
    const database = new DatabaseSync(file)
    try {
      database.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE")
      return database
    } catch (cause) {
      database.close()
      if (cause instanceof Error && "errcode" in cause && cause.errcode === sqliteBusy) return undefined
      throw cause
    }
  })
  return held ?? (yield* inUse(directory, ownerFile))
})

const sqliteBusy = 5

const Owner = Schema.fromJsonString(Schema.Struct({ pid: Schema.Int }))

const inUse = (directory: string, ownerFile: string): Effect.Effect<never, EmbeddedPostgresError> =>
  Effect.tryPromise(() => fs.readFile(ownerFile, "utf8")).pipe(
    Effect.flatMap(Schema.decodeEffect(Owner)),
    Effect.filterOrFail(({ pid }) => isTaken(pid)),
    // The owner writes its process id only after it has the lock.
    Effect.retry({ times: 50, schedule: Schedule.spaced("10 millis") }),
    Effect.match({
      onSuccess: ({ pid }) => `the process ${pid}`,
      onFailure: () => "a process that is not visible from here"
    }),
    Effect.flatMap((owner) =>
      Effect.fail(
        new EmbeddedPostgresError({
          reason: "directory-in-use",
          message: `The database in ${directory} is in use by ${owner}`
        })
      )
    )
  )
