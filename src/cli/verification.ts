import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Effect, Layer } from "effect"
import { ReadingDatabaseLayer } from "../platform/database/connection.ts"
import * as Logging from "../platform/observability/logging.ts"
import { Settings } from "../platform/settings/settings.ts"
import { explained } from "./start-failure.ts"

/** What a comparison of stored sums found. */
interface Finding {
  readonly isWell: boolean
  readonly text: string
}

const exitCodes = { well: 0, differs: 1, unusable: 2 } as const

const Log = Layer.unwrap(
  Effect.map(Settings, ({ logging }) => Logging.layer({ level: "Warn", format: logging.format }))
)

/** Runs a command that compares what is stored: prints what it found, and says it by the exit code. */
export const runVerification = <Repository, Error>(
  verify: Effect.Effect<Finding, never, Repository>,
  repository: Layer.Layer<Repository, Error, Layer.Success<typeof ReadingDatabaseLayer>>
): void =>
  verify.pipe(
    Effect.flatMap(({ isWell, text }) =>
      Effect.sync(() => {
        process.stdout.write(`${text}\n`)
        return isWell ? exitCodes.well : exitCodes.differs
      })
    ),
    Effect.provide(
      repository.pipe(
        Layer.provide(ReadingDatabaseLayer),
        Layer.provide(Log),
        Layer.provide(Settings.layerWith(process.argv.slice(2)))
      )
    ),
    explained(),
    Effect.catch(() => Effect.succeed(exitCodes.unusable)),
    Effect.andThen((code) =>
      Effect.sync(() => {
        process.exitCode = code
      })
    ),
    NodeRuntime.runMain
  )
