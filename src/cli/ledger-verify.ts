import * as NodeRuntime from "@effect/platform-node/NodeRuntime"
import { Effect, Layer } from "effect"
import { LedgerStore } from "../budgets/ledger/repository.ts"
import { ReadingDatabaseLayer } from "../platform/database/connection.ts"
import * as Logging from "../platform/observability/logging.ts"
import { Settings } from "../platform/settings/settings.ts"
import { explained } from "./start-failure.ts"

const ended = { well: 0, drifted: 1, unusable: 2 } as const
const maxShown = 50

const say = (text: string) => Effect.sync(() => void process.stdout.write(`${text}\n`))

/** `npm run ledger:verify`: whether every counter is the fold of the entries and of the open reservations. */
const verify = Effect.gen(function* () {
  const { drift } = yield* LedgerStore
  const found = yield* drift
  if (found.length === 0) {
    yield* say("Every counter is the sum of its entries and of its open reservations.")
    return ended.well
  }
  yield* say(`${found.length} ${found.length === 1 ? "counter is" : "counters are"} NOT what was written:`)
  for (const { capId, counterKey, reserved, reservedFold, spent, spentFold } of found.slice(0, maxShown)) {
    const key = counterKey === "" ? "" : ` ${counterKey}`
    yield* say(`  cap ${capId}${key}: spent ${spent}, entries ${spentFold}; reserved ${reserved}, open ${reservedFold}`)
  }
  return ended.drifted
})

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
