import { Effect, type Scope } from "effect"
import * as fs from "node:fs"
import * as path from "node:path"
import { attemptSync, type EmbeddedPostgresError } from "./error.ts"

const limitBytes = 4 * 1024 * 1024

/** The server's log file. */
export interface ServerLog {
  readonly file: string
  readonly append: (text: Buffer) => void
}

/** Opens `postgres.log` until the scope closes; at 4 MiB it becomes `postgres.previous.log` and a new one begins. */
export const openServerLog = (directory: string): Effect.Effect<ServerLog, EmbeddedPostgresError, Scope.Scope> => {
  const file = path.join(directory, "postgres.log")
  return Effect.acquireRelease(
    attemptSync("unreachable-directory", `write ${file}`, () => {
      const log = { descriptor: open(file), sizeBytes: fs.statSync(file).size, isOpen: true }
      const append = (text: Buffer) => {
        if (!log.isOpen) return
        try {
          if (log.sizeBytes > 0 && log.sizeBytes + text.length > limitBytes) {
            fs.renameSync(file, path.join(directory, "postgres.previous.log"))
            const full = log.descriptor
            log.descriptor = open(file)
            log.sizeBytes = 0
            fs.closeSync(full)
          }
          log.sizeBytes += fs.writeSync(log.descriptor, text)
        } catch {
          // A full disk costs lines of the log, not the service.
          return
        }
      }
      const close = () => {
        log.isOpen = false
        fs.closeSync(log.descriptor)
      }
      return { file, append, close }
    }),
    (log) => Effect.sync(log.close)
  )
}

const open = (file: string): number => {
  try {
    return fs.openSync(file, "a", 0o600)
  } catch {
    // Another account may have served here before; the file is replaced, which only needs its directory.
    fs.rmSync(file, { force: true })
    return fs.openSync(file, "a", 0o600)
  }
}
