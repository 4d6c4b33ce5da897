import { Effect } from "effect"
import { spawn } from "node:child_process"
import * as fs from "node:fs/promises"
import * as os from "node:os"
import * as path from "node:path"
import { project } from "./embedded-postgres.ts"

/** What `npm run audit:verify` says to these words, and its exit code. */
export const auditVerify = (words: ReadonlyArray<string>) =>
  Effect.callback<{ readonly code: number | null; readonly output: string }>((resume) => {
    const child = spawn(process.execPath, [path.join(project, "src/audit-verify.ts"), ...words], {
      stdio: ["ignore", "pipe", "pipe"]
    })
    let output = ""
    const read = (chunk: Buffer) => void (output += chunk.toString())
    child.stdout.on("data", read)
    child.stderr.on("data", read)
    child.once("close", (code) => resume(Effect.succeed({ code, output })))
  })

/** The same of an export, in a file of its own; `keys` and `kept` are the contents of the files beside it. */
export const verifyExport = (text: string, keys?: string, words: ReadonlyArray<string> = [], kept?: string) =>
  Effect.gen(function* () {
    const directory = yield* Effect.acquireRelease(
      Effect.promise(() => fs.mkdtemp(path.join(os.tmpdir(), "audit-verify-"))),
      (directory) => Effect.promise(() => fs.rm(directory, { recursive: true, force: true }))
    )
    const write = (name: string, content: string) =>
      Effect.promise(async () => {
        await fs.writeFile(path.join(directory, name), content)
        return path.join(directory, name)
      })
    return yield* auditVerify([
      yield* write("log.jsonl", text),
      ...(keys === undefined ? [] : ["--keys", yield* write("keys.json", keys)]),
      ...(kept === undefined ? [] : ["--checkpoints", yield* write("checkpoints.json", kept)]),
      ...words
    ])
  }).pipe(Effect.scoped)
