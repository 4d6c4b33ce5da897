import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Effect, Layer } from "effect"
import { ReadingDatabaseLayer } from "../platform/database/connection.ts"
import * as Logging from "../platform/observability/logging.ts"
import { Settings } from "../platform/settings/settings.ts"
import { runOrHelp } from "./help.ts"
import { explained } from "./start-failure.ts"

/** What a verification found: what it prints and exits with. */
interface Found {
  readonly code: number
  readonly text: string
}

/** The exit code of a verification that could not be made. */
const unusable = 2

const Log = Layer.unwrap(
  Effect.map(Settings, ({ logging }) => Logging.layer({ level: "Warn", format: logging.format }))
)

/** Runs a command that reads the database, prints what it found and exits with the code of it. */
export const runVerification = <R, E>(
  verify: Effect.Effect<Found, unknown, R>,
  repository: Layer.Layer<R, E, Layer.Success<typeof ReadingDatabaseLayer>>
): void =>
  runOrHelp((args) =>
    verify.pipe(
      Effect.provide(
        repository.pipe(
          Layer.provide(ReadingDatabaseLayer),
          Layer.provide(Log),
          Layer.provide(Settings.layerWith(args))
        )
      ),
      Effect.tap(({ text }) => Effect.sync(() => process.stdout.write(`${text}\n`))),
      explained(),
      Effect.match({ onSuccess: ({ code }) => code, onFailure: () => unusable }),
      Effect.andThen((code) =>
        Effect.sync(() => {
          process.exitCode = code
        })
      ),
      NodeRuntime.runMain
    )
  )
