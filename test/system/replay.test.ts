import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { hasRecorded, readRecorded, recordedFile } from "../support/recorded.ts"
import {
  type Difference,
  meantInAnswers,
  meantInRequests,
  type RequestDifference
} from "../support/replay/differences.ts"
import { judgeOf, translated } from "../support/replay/judges.ts"
import { replayExchanges, replayRequests } from "../support/replay/replay-requests.ts"
import { replayAnswers, setUpReplay } from "../support/replay/replay.ts"
import { sharedServiceLayer } from "../support/service.ts"

const exchanges = hasRecorded ? readRecorded().filter(({ dialect }) => judgeOf[dialect] !== undefined) : []
/** Those whose requests were recorded, too. */
const asked = exchanges.filter(
  ({ dialect, request, requestIsOurs }) =>
    (judgeOf[dialect] ?? "") in translated && request !== undefined && !requestIsOurs
)

const told = ({ actual, exchange, expected, field }: Difference | RequestDifference, by: string): string =>
  `${exchange.id} by ${by}: ${field} was ${JSON.stringify(expected)?.slice(0, 300)}, and is ${JSON.stringify(actual)?.slice(0, 300)}`

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "600 seconds" })(
  `recorded exchanges with providers, where ${recordedFile} has them`,
  (it) => {
    it.effect.skipIf(!hasRecorded)("are read by each format's SDK as by the provider's own, and charged exactly", () =>
      Effect.gen(function* () {
        const { differences } = yield* replayAnswers(yield* setUpReplay(exchanges), exchanges)
        const left = differences.filter((one) => !meantInAnswers.some(({ is }) => is(one)))
        assert.deepStrictEqual(
          left.map((one) => told(one, one.by)),
          []
        )
        for (const { is, why } of meantInAnswers) assert.isTrue(differences.some(is), why)
      }).pipe(Effect.scoped)
    )

    it.effect.skipIf(!hasRecorded)("reach a provider of each format with what was asked", () =>
      Effect.gen(function* () {
        const translations = yield* replayRequests(asked)
        const { differences, overspent } = yield* replayExchanges(asked)
        const all = [...translations, ...differences]
        const left = all.filter((one) => !meantInRequests.some(({ is }) => is(one)))
        assert.deepStrictEqual(
          left.map((one) => told(one, `${one.from} to ${one.to}`)),
          []
        )
        for (const { is, why } of meantInRequests) assert.isTrue(all.some(is), why)
        assert.deepStrictEqual(overspent, [])
      }).pipe(Effect.scoped)
    )
  }
)
