import "../platform/runtime/json-parse.ts"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Effect, Layer } from "effect"
import { DatabaseConnection, migrateLayer } from "../platform/database/connection.ts"
import * as Logging from "../platform/observability/logging.ts"
import { Settings } from "../platform/settings/settings.ts"
import { runOrHelp } from "./help.ts"
import { explained } from "./start-failure.ts"

/** `npm run migrate`: brings the database up to this build and ends. */
const Log = Layer.unwrap(
  Effect.map(Settings, ({ logging }) => Logging.layer({ level: logging.level, format: logging.format }))
)

const main = Layer.build(migrateLayer).pipe(
  Effect.andThen(Effect.logInfo("The database is up to date")),
  Effect.scoped,
  Effect.provide(DatabaseConnection.layerJoining.pipe(Layer.provideMerge(Log), Layer.provideMerge(Settings.layer))),
  explained()
)

runOrHelp(() => NodeRuntime.runMain(main))
