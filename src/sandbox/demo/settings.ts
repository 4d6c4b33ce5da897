import { Effect, Layer, Option } from "effect"
import { Settings } from "../../platform/settings/settings.ts"

/** Where the demo is, so that it is not among one's own data. */
export const demoDirectory = ".demo"

/** The settings of a demo: those that are given, and a directory of its own where they name no database. */
export const demoSettings = (words: ReadonlyArray<string>) =>
  Layer.unwrap(
    Effect.map(Settings, (given) =>
      given.sources.get("Database:Directory") !== "default" || Option.isSome(given.database.url)
        ? Layer.succeed(Settings, given)
        : Settings.layerWith([...words, `--Database:Directory=${demoDirectory}`])
    )
  ).pipe(Layer.provide(Settings.layerWith(words)))
