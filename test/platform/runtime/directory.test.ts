import * as fs from "node:fs/promises"
import * as os from "node:os"
import * as path from "node:path"
import { afterAll, assert, beforeAll, describe, it } from "vitest"
import { makeDirectory } from "../../../src/platform/runtime/directory.ts"

const codeOf = (directory: string) =>
  makeDirectory(directory, 0o700).then(
    () => "made",
    (error: NodeJS.ErrnoException) => error.code
  )

describe("a directory that is made", () => {
  let base = ""
  beforeAll(async () => {
    base = await fs.mkdtemp(path.join(os.tmpdir(), "directory-"))
  })
  afterAll(() => fs.rm(base, { recursive: true }))

  it("may exist, or lack the directories above it", async () => {
    const directory = path.join(base, "a", "b", "c")
    assert.deepStrictEqual([await codeOf(directory), await codeOf(directory)], ["made", "made"])
    assert.strictEqual((await fs.stat(path.join(base, "a"))).mode & 0o777, 0o700)
  })

  it("is refused where a file is in its way, and below /proc, which has no place for it", async () => {
    const file = path.join(base, "file")
    await fs.writeFile(file, "")
    assert.strictEqual(await codeOf(file), "EEXIST")
    assert.strictEqual(await codeOf(path.join(file, "below")), "ENOTDIR")
    assert.strictEqual(await codeOf("/proc/no-process/data"), "ENOENT")
  })
})
