import "../platform/runtime/json-parse.ts"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { Effect } from "effect"
import { detectInFile } from "../insights/anomalies/series-file.ts"

/** `npm run insights:detect`: the anomalies of a file of measurements. */
const main = Effect.suspend(() => detectInFile(process.argv.slice(2))).pipe(
  Effect.match({
    onSuccess: (lines) => {
      for (const line of lines) process.stdout.write(`${line}\n`)
    },
    onFailure: ({ message }) => {
      process.stderr.write(`${message}\n`)
      process.exitCode = 1
    }
  }),
  Effect.provide(NodeServices.layer)
)

NodeRuntime.runMain(main)
