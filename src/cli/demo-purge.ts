import "../platform/runtime/json-parse.ts"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Effect, Layer } from "effect"
import { DatabaseConnection, migrateLayer, OwnerLayer } from "../platform/database/connection.ts"
import * as Logging from "../platform/observability/logging.ts"
import { Unusable } from "../platform/runtime/unusable.ts"
import { Settings } from "../platform/settings/settings.ts"
import { Generation } from "../sandbox/generation/generation.ts"
import { runOrHelp } from "./help.ts"
import { explained } from "./start-failure.ts"

const refuse = (message: string) => Effect.fail(new Unusable({ message }))

/** `npm run demo:purge`: empties an installation that was filled with demo data, while the service is stopped. */
const purge = Effect.gen(function* () {
  const { environment } = yield* Settings
  const generation = yield* Generation
  if (environment !== "Development" || !(yield* generation.isDemo)) {
    return yield* refuse("This installation was not filled with demo data, so nothing is removed.")
  }
  if (yield* generation.isServed) {
    return yield* refuse("The service is running on this database: stop it first.")
  }
  yield* generation.purge
  yield* Effect.sync(
    () => void process.stdout.write("The demo and everything made beside it is gone; the next start makes another.\n")
  )
})

const Log = Layer.unwrap(
  Effect.map(Settings, ({ logging }) => Logging.layer({ level: "Warn", format: logging.format }))
)

runOrHelp((words) =>
  NodeRuntime.runMain(
    purge.pipe(
      Effect.provide(
        Generation.layer.pipe(
          Layer.provide(OwnerLayer.pipe(Layer.provide(migrateLayer), Layer.provide(DatabaseConnection.layerJoining))),
          Layer.provide(Log),
          Layer.provideMerge(Settings.layerWith(words))
        )
      ),
      explained(words)
    )
  )
)
