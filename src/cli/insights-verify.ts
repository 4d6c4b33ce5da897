import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Effect, Layer } from "effect"
import { RollupsRepository } from "../insights/rollups/repository.ts"
import { ReadingDatabaseLayer } from "../platform/database/connection.ts"
import * as Logging from "../platform/observability/logging.ts"
import { Settings } from "../platform/settings/settings.ts"
import { explained } from "./start-failure.ts"

const ended = { well: 0, differs: 1, unusable: 2 } as const
const maxShown = 50

const say = (text: string) => Effect.sync(() => void process.stdout.write(`${text}\n`))

/** `npm run insights:verify`: whether the ledger, the usage rows and the roll-ups have the same sums. */
const verify = Effect.gen(function* () {
  const repository = yield* RollupsRepository
  const found = yield* repository.differences
  if (found.length === 0) {
    yield* say("The roll-ups are the sums of the usage rows, and the usage rows those of the ledger.")
    return ended.well
  }
  yield* say(`${found.length} ${found.length === 1 ? "sum differs" : "sums differ"}:`)
  for (const { day, expected, found: other, tenantId, what } of found.slice(0, maxShown)) {
    yield* say(`  tenant ${tenantId}, ${day}, ${what}: ${expected} and ${other}`)
  }
  return ended.differs
})

const Log = Layer.unwrap(
  Effect.map(Settings, ({ logging }) => Logging.layer({ level: "Warn", format: logging.format }))
)

const main = verify.pipe(
  Effect.provide(
    RollupsRepository.layer.pipe(
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
