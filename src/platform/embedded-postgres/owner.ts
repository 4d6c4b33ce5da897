import { Effect, Schedule, Schema, type Scope } from "effect"
import * as fs from "node:fs/promises"
import * as path from "node:path"
import { DatabaseSync } from "node:sqlite"
import { attempt, attemptSync, EmbeddedPostgresError } from "./error.ts"
import { isTaken } from "./process.ts"

/**
 * Takes the directory for this process until the scope closes; `owner.json` in it names the owner meanwhile.
 * The lock is the operating system's: it ends when its process ends, however that comes about, a process that got a
 * dead owner's id does not hold it, and two containers that mount one directory see each other's.
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

// SQLite is the one way to the file locks of every operating system that Node has; nothing is ever written to this file,
// and it stays, since a lock on a removed file keeps nobody out. No other code may open it: closing it would unlock it.
const lock = Effect.fnUntraced(function* (directory: string, ownerFile: string) {
  const file = path.join(directory, "owner.lock")
  const database = yield* attemptSync("unreachable-directory", `open ${file}`, () => new DatabaseSync(file))
  return yield* attemptSync("unreachable-directory", `lock ${file}`, () => {
    try {
      database.exec("PRAGMA journal_mode = MEMORY; BEGIN EXCLUSIVE")
      return database
    } catch (cause) {
      database.close()
      if (isBusy(cause)) return undefined
      throw cause
    }
  }).pipe(
    Effect.flatMap((held) =>
      held === undefined ? Effect.flatMap(describeOwner(directory, ownerFile), Effect.fail) : Effect.succeed(held)
    )
  )
})

const isBusy = (cause: unknown) => cause instanceof Error && "errcode" in cause && cause.errcode === 5

const Owner = Schema.fromJsonString(Schema.Struct({ pid: Schema.Int }))

const describeOwner = (directory: string, file: string) =>
  Effect.tryPromise(() => fs.readFile(file, "utf8")).pipe(
    Effect.flatMap(Schema.decodeEffect(Owner)),
    Effect.filterOrFail(({ pid }) => isTaken(pid)),
    // The owner writes its name only after it has the lock.
    Effect.retry({ times: 50, schedule: Schedule.spaced("10 millis") }),
    Effect.match({
      onSuccess: ({ pid }) => `The database in ${directory} is in use by the process ${pid}`,
      onFailure: () => `The database in ${directory} is in use by a process that is not visible from here`
    }),
    Effect.map((message) => new EmbeddedPostgresError({ reason: "directory-in-use", message }))
  )
