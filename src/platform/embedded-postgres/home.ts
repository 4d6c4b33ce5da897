import { Effect, Option } from "effect"
import { createHash } from "node:crypto"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { attempt, EmbeddedPostgresError } from "./error.ts"
import { mayEnter, type OperatingSystemUser, userNamed, userOwning } from "./program.ts"

/** Where a database lives and who serves it. */
export interface Home {
  /** The directory that holds everything: the given one, or the one that took its place. */
  readonly directory: string
  /** The data directory of PostgreSQL in it, which exists only as a whole cluster. */
  readonly cluster: string
  /** Whom the server runs as; `undefined`: the account of this process. */
  readonly user: OperatingSystemUser | undefined
  /** Makes and names the directory that may hold copies of programs. */
  readonly copies: Effect.Effect<string, EmbeddedPostgresError>
}

/**
 * Finds or makes the home of a directory's database. PostgreSQL refuses to run as root, so root has it run as
 * `postgres` or `nobody`; where that account cannot enter the given directory, a directory of root's own takes its
 * place, and the file `location` in the given one names it from then on.
 */
export const openHome = Effect.fnUntraced(function* (given: string): Effect.fn.Return<Home, EmbeddedPostgresError> {
  const directory = yield* attempt("unreachable-directory", `make the directory ${given}`, async () => {
    await fs.mkdir(given, { recursive: true, mode: isRoot() ? 0o711 : 0o700 })
    return fs.realpath(given)
  })
  const location = yield* readLocation(directory)
  const home = yield* homeIn(location ?? directory)
  if (home.user === undefined || (yield* mayEnter(home.user, home.directory))) return home
  const refused = unreachable(`The user ${home.user.name} cannot enter ${home.directory}`)
  if (location !== undefined || (yield* ownerOfCluster(home.directory)) !== undefined) return yield* refused
  const substitute = yield* homeIn(yield* makeSubstitute(directory))
  if (substitute.user === undefined || (yield* mayEnter(substitute.user, substitute.directory))) return substitute
  return yield* refused
})

const isRoot = () => process.geteuid?.() === 0

const unreachable = (message: string) => new EmbeddedPostgresError({ reason: "unreachable-directory", message })

const homeIn = Effect.fnUntraced(function* (directory: string): Effect.fn.Return<Home, EmbeddedPostgresError> {
  const owner = yield* ownerOfCluster(directory)
  const cluster = path.join(directory, "cluster")
  if (isRoot()) {
    const user = owner === undefined ? yield* serverUser : yield* userOwning(owner)
    return { directory, cluster, user, copies: rootDirectory }
  }
  if (owner === undefined || process.geteuid === undefined || owner.uid === process.geteuid()) {
    return { directory, cluster, user: undefined, copies: Effect.succeed(directory) }
  }
  const { name } = yield* userOwning(owner)
  return yield* unreachable(`The database in ${directory} belongs to the user ${name}; start the service as that user`)
})

const ownerOfCluster = (directory: string) =>
  attempt("unreachable-directory", `look into ${directory}`, () => ifPresent(fs.stat(path.join(directory, "cluster"))))

/** Turns the failure to find a file into `undefined`. */
export const ifPresent = <A>(operation: Promise<A>): Promise<A | undefined> =>
  operation.catch((cause: unknown) => {
    if (cause instanceof Error && "code" in cause && cause.code === "ENOENT") return undefined
    throw cause
  })

const serverUser = Effect.gen(function* (): Effect.fn.Return<OperatingSystemUser, EmbeddedPostgresError> {
  for (const name of ["postgres", "_postgres", "nobody"]) {
    const user = yield* userNamed(name)
    if (Option.isSome(user)) return user.value
  }
  return yield* new EmbeddedPostgresError({
    reason: "unsupported-platform",
    message: "PostgreSQL does not run as root, and this system has neither a user postgres nor a user nobody"
  })
})

const readLocation = Effect.fnUntraced(function* (directory: string) {
  const file = path.join(directory, "location")
  const location = (yield* attempt("unreachable-directory", `read ${file}`, () =>
    ifPresent(fs.readFile(file, "utf8"))
  ))?.trim()
  if (location === undefined) return undefined
  // A database that vanished must not come back empty without a word.
  return yield* attempt(
    "unreachable-directory",
    `find the database of ${directory} in ${location} (restore it, or remove ${file} to begin with an empty one)`,
    () => fs.realpath(location)
  )
})

const makeSubstitute = Effect.fnUntraced(function* (directory: string) {
  const name = `${path.basename(directory)}-${createHash("sha256").update(directory).digest("hex").slice(0, 16)}`
  const substitute = path.join(yield* rootDirectory, name)
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
        const made = await fs.mkdir(directory).then(
          () => true,
          () => false
        )
        if (made) await fs.chmod(directory, 0o755)
        // Anybody may make a directory in /var/tmp: one that others made or can change is not to be trusted.
        const found = await fs.lstat(directory)
        if (!found.isDirectory() || found.uid !== process.geteuid?.()) throw new Error("it belongs to another user")
        if ((found.mode & 0o022) !== 0) throw new Error("other users may write there")
        return directory
      })
    )
  )
)
