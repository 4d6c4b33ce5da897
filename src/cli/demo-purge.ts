import "../platform/runtime/json-parse.ts"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Context, Effect, Layer, Option } from "effect"
import * as fs from "node:fs"
import { DatabaseConnection, migrateLayer, OwnerLayer } from "../platform/database/connection.ts"
import * as Logging from "../platform/observability/logging.ts"
import { Unusable } from "../platform/runtime/unusable.ts"
import { Settings } from "../platform/settings/settings.ts"
import { demoSettings } from "../sandbox/demo/settings.ts"
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

/** Without it the embedded database would be made only to be found empty. */
const requireDirectory = ({ database }: Settings["Service"]) =>
  Option.isSome(database.url) || fs.existsSync(database.directory)
    ? Effect.void
    : refuse(`There is no demo in ${database.directory} (Database:Directory), so nothing is removed.`)

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
          Layer.provideMerge(
            Layer.tap(demoSettings(words), (context) => requireDirectory(Context.get(context, Settings)))
          )
        )
      ),
      explained(words)
    )
  )
)
