import * as fs from "node:fs/promises"
import * as path from "node:path"

/** Makes a directory and those above it. Node's `recursive` never ends where a file system refuses one, as /proc does. */
export const makeDirectory = async (directory: string, mode: number): Promise<void> => {
  const make = () =>
    fs.mkdir(directory, { mode }).catch(async (error: NodeJS.ErrnoException) => {
      if (error.code !== "EEXIST" || !(await fs.stat(directory)).isDirectory()) throw error
    })
  await make().catch(async (error: NodeJS.ErrnoException) => {
    if (error.code !== "ENOENT") throw error
    await makeDirectory(path.dirname(path.resolve(directory)), mode)
    await make()
  })
}
