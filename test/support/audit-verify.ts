import * as NodeServices from "@effect/platform-node/NodeServices"
import { Effect } from "effect"
import * as fs from "node:fs/promises"
import * as os from "node:os"
import * as path from "node:path"
import * as ExportVerification from "../../src/audit/export/export-verification.ts"
import { runCommand } from "./command.ts"

/** What `npm run audit:verify` says to these words, and its exit code. */
export const auditVerify = (words: ReadonlyArray<string>) => runCommand("src/cli/audit-verify.ts", {}, words)

/** The same without the command around it, which takes a process of its own to start. */
export const verifyWords = (words: ReadonlyArray<string>) =>
  ExportVerification.verifyExport(words).pipe(
    Effect.match({
      onSuccess: ({ code, text }) => ({ code, output: text }),
      onFailure: ({ message }) => ({ code: ExportVerification.ended.unusable, output: message })
    }),
    Effect.provide(NodeServices.layer)
  )

/** Gives an export a file of its own; `keys` and `kept` are the contents of the files beside it. */
const inFiles =
  <A>(verify: (words: ReadonlyArray<string>) => Effect.Effect<A>) =>
  (text: string, keys?: string, words: ReadonlyArray<string> = [], kept?: string) =>
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
      return yield* verify([
        yield* write("log.jsonl", text),
        ...(keys === undefined ? [] : ["--keys", yield* write("keys.json", keys)]),
        ...(kept === undefined ? [] : ["--checkpoints", yield* write("checkpoints.json", kept)]),
        ...words
      ])
    }).pipe(Effect.scoped)

export const verifyExport = inFiles(verifyWords)
export const verifyExportByCommand = inFiles(auditVerify)
