import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { hasRecorded, readRecorded, type RecordedExchange, recordedFile } from "../../support/recorded.ts"
import { meantInAnswers } from "../../support/replay/differences.ts"
import { judgeOf } from "../../support/replay/judges.ts"
import { replayAnswers, setUpReplay } from "../../support/replay/replay.ts"
import { sharedServiceLayer } from "../../support/service.ts"

/** Features of answers and usages that are read in other places than usual. */
const isOdd = (feature: string): boolean => /^(?:answer|stream|usage|error): /.test(feature)

/** One exchange of each vendor and form, and of each oddity. */
const sample = (exchanges: ReadonlyArray<RecordedExchange>): ReadonlyArray<RecordedExchange> => {
  const seen = new Set<string>()
  return exchanges.filter(({ dialect, features, streamed, vendor }) => {
    const kinds = [`${vendor} ${dialect} ${streamed}`, ...features.filter(isOdd)].filter((kind) => !seen.has(kind))
    for (const kind of kinds) seen.add(kind)
    return judgeOf[dialect] !== undefined && kinds.length > 0
  })
}

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "120 seconds" })(
  "recorded answers of providers",
  (it) => {
    it.effect.skipIf(!hasRecorded)(
      `are read and charged as they are, where ${recordedFile} has them`,
      () =>
        Effect.gen(function* () {
          const exchanges = sample(readRecorded())
          const { calls, differences } = yield* replayAnswers(yield* setUpReplay(exchanges), exchanges)
          const left = differences.filter((one) => !meantInAnswers.some(({ is }) => is(one)))
          assert.deepStrictEqual(
            left.map(({ by, exchange, field }) => `${exchange.id} by ${by}: ${field}`),
            []
          )
          assert.isAbove(calls.length, 500)
        }).pipe(Effect.scoped),
      120_000
    )
  }
)
