import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Effect, Layer } from "effect"
import { LedgerStore } from "../budgets/ledger/repository.ts"
import { ended, verifyCounters } from "../budgets/ledger/verification.ts"
import { ReadingDatabaseLayer } from "../platform/database/connection.ts"
import * as Logging from "../platform/observability/logging.ts"
import { Settings } from "../platform/settings/settings.ts"
import { explained } from "./start-failure.ts"

/** `npm run ledger:verify`: whether the counters are what was written. */
const verify = Effect.flatMap(verifyCounters, ({ code, text }) =>
  Effect.sync(() => {
    process.stdout.write(`${text}\n`)
    return code
  })
)

const Log = Layer.unwrap(
  Effect.map(Settings, ({ logging }) => Logging.layer({ level: "Warn", format: logging.format }))
)

const main = verify.pipe(
  Effect.provide(
    LedgerStore.layer.pipe(
      Layer.provide(ReadingDatabaseLayer),
      Layer.provide(Log),
      Layer.provide(Settings.layerWith(process.argv.slice(2)))
    )
  ),
  explained(),
  Effect.catch(() => Effect.succeed(ended.unusable)),
  Effect.andThen((code) =>
    Effect.sync(() => {
      process.exitCode = code
    })
  )
)

NodeRuntime.runMain(main)
