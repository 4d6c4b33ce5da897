import "../platform/runtime/json-parse.ts"
import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Effect, Layer } from "effect"
import { DatabaseConnection, migrateLayer, OwnerLayer } from "../platform/database/connection.ts"
import * as Logging from "../platform/observability/logging.ts"
import { Unusable } from "../platform/runtime/unusable.ts"
import { Settings } from "../platform/settings/settings.ts"
import { Generation } from "../sandbox/generation/generation.ts"
import { explained } from "./start-failure.ts"

const usage = `npm run insights:generate -- --rows N --days D

Writes N calls over the D days before today (1 to 400), of four tenants and their agents, with their roll-ups, into an
empty Development installation. Prints the anomalies among them, one JSON object a line.`

const maxRows = 100_000_000
const maxDays = 400

const say = (text: string) => Effect.sync(() => void process.stdout.write(`${text}\n`))

interface Words {
  readonly rows: number
  readonly days: number
  readonly settings: ReadonlyArray<string>
}

const readWords = (given: ReadonlyArray<string>): Words | undefined => {
  const words = [...given]
  const take = (flag: string): number => {
    const at = words.indexOf(flag)
    const [, value = ""] = at < 0 ? [] : words.splice(at, 2)
    return /^\d{1,9}$/.test(value) ? Number(value) : 0
  }
  const rows = take("--rows")
  const days = take("--days")
  return rows < 1 || rows > maxRows || days < 1 || days > maxDays ? undefined : { rows, days, settings: words }
}

const generate = Effect.fnUntraced(function* ({ days, rows }: Words) {
  const { environment } = yield* Settings
  if (environment !== "Development") {
    return yield* new Unusable({ message: "Usage is generated in a Development installation only (APP_ENVIRONMENT)." })
  }
  const generation = yield* Generation
  if (yield* generation.isUsed) {
    return yield* new Unusable({ message: "There are agents or usage already: usage is generated where none is." })
  }
  for (const label of yield* generation.run(rows, days)) yield* say(JSON.stringify(label))
})

const Log = Layer.unwrap(
  Effect.map(Settings, ({ logging }) => Logging.layer({ level: "Warn", format: logging.format }))
)

/** `npm run insights:generate`: usage to look at and to measure with. */
const main = Effect.suspend((): Effect.Effect<void, unknown> => {
  const given = process.argv.slice(2)
  if (given.includes("--help")) return say(usage)
  const words = readWords(given)
  if (words === undefined) return explained([])(Effect.fail(new Unusable({ message: usage })))
  return generate(words).pipe(
    Effect.provide(
      Generation.layer.pipe(
        Layer.provide(OwnerLayer.pipe(Layer.provide(migrateLayer), Layer.provide(DatabaseConnection.layerJoining))),
        Layer.provide(Log),
        Layer.provideMerge(Settings.layerWith(words.settings))
      )
    ),
    explained(words.settings)
  )
})

NodeRuntime.runMain(main)
