import { Effect } from "effect"
import * as fs from "node:fs/promises"
import * as os from "node:os"
import * as path from "node:path"

/** A file that a process has open; `at` is where it can be looked into while it has no name. */
export interface OpenFile {
  readonly at: string
  readonly bytes: number
  /** In octal. */
  readonly mode: string
  readonly isNamed: boolean
}

/** The files below a directory that a process has open, this one unless given (Linux alone). */
export const openFilesIn = (directory: string, pid: number | "self" = "self"): Effect.Effect<ReadonlyArray<OpenFile>> =>
  Effect.promise(async () => {
    const descriptors = `/proc/${pid}/fd`
    const found = await Promise.all(
      (await fs.readdir(descriptors)).map(async (name) => {
        const at = path.join(descriptors, name)
        try {
          const target = await fs.readlink(at)
          if (!target.startsWith(`${directory}/`)) return []
          const { mode, nlink, size } = await fs.stat(at)
          return [{ at, bytes: size, mode: (mode & 0o777).toString(8), isNamed: nlink > 0 }]
        } catch {
          // Closed since the directory was read.
          return []
        }
      })
    )
    return found.flat()
  })

/** The names in a directory. */
export const namesIn = (directory: string): Effect.Effect<ReadonlyArray<string>> =>
  Effect.promise(() => fs.readdir(directory))

/** A directory for files of requests, until a process of tests ends. */
export const uploadDirectory = async (): Promise<string> =>
  fs.realpath(await fs.mkdtemp(path.join(os.tmpdir(), "uploads-")))
