import "../platform/runtime/json-parse.ts"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Effect } from "effect"
import { ended, verifyExport } from "../audit/export/export-verification.ts"

const end = (stream: NodeJS.WriteStream, text: string, code: number) =>
  Effect.sync(() => {
    stream.write(`${text}\n`)
    process.exitCode = code
  })

/** `npm run audit:verify`: whether an exported log is what the service wrote. */
const main = Effect.suspend(() => verifyExport(process.argv.slice(2))).pipe(
  Effect.matchEffect({
    onSuccess: ({ code, text }) => end(process.stdout, text, code),
    onFailure: ({ message }) => end(process.stderr, message, ended.unusable)
  }),
  Effect.provide(NodeServices.layer)
)

NodeRuntime.runMain(main)
