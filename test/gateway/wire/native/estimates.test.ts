import { assert, describe, it } from "@effect/vitest"
import { Effect } from "effect"
import { gatewaySnapshot } from "../../../../src/gateway/configuration/gateway-snapshot.ts"
import { estimateOf, fitting, type EstimateTerms } from "../../../../src/gateway/metering/estimates.ts"
import { runningLoopback } from "../../../support/loopback.ts"

const [model] = gatewaySnapshot({}, null, runningLoopback, [], []).models
if (model === undefined) throw new Error("no loopback model")
const bound = {
  inputTokens: 1000,
  mediaTokens: 0,
  extraOutputTokens: 0,
  choices: 1,
  askedOutputTokens: undefined,
  unbounded: []
}
const terms: EstimateTerms = {
  model: { ...model, maxOutputTokens: 500 },
  targets: model.targets,
  bound,
  constraints: { byMoney: true, byHard: true, byHardMoney: true },
  contextTokens: null,
  defaultOutputTokens: 16_384,
  defaultToolUses: 5,
  hasOutput: true,
  timeoutSeconds: 600
}

const room = (nanoUsd: bigint | null, tokens: bigint | null = null) => ({ nanoUsd, tokens })

describe("what a call is let in with", () => {
  it.effect("is its input and its output limit, whichever is asked for or known", () =>
    Effect.gen(function* () {
      const free = yield* estimateOf(terms)
      assert.deepStrictEqual([free.outputTokens, free.limit, free.tokens], [500, 500, 1500])
      const asked = yield* estimateOf({ ...terms, bound: { ...bound, askedOutputTokens: 70, choices: 3 } })
      assert.deepStrictEqual([asked.outputTokens, asked.limit, asked.tokens], [70, undefined, 1210])
      const soft = yield* estimateOf({ ...terms, constraints: { byMoney: true, byHard: false, byHardMoney: false } })
      assert.isUndefined(soft.limit)
      const short = yield* estimateOf({ ...terms, contextTokens: 400 })
      assert.strictEqual(short.inputTokens, 400)
      const embedding = yield* estimateOf({ ...terms, hasOutput: false })
      assert.strictEqual(embedding.tokens, 1000)
    })
  )

  it.effect("is cut to the room that there is, to the last token that fits, and not below one", () =>
    Effect.gen(function* () {
      const estimate = yield* estimateOf(terms)
      for (const room of [estimate.amountNanoUsd - 1n, 1_500_000n, 1_010_000n]) {
        const cut = fitting(terms, estimate, { nanoUsd: room, tokens: null })
        if (cut === undefined) return assert.fail("nothing fits")
        assert.isTrue(cut.amountNanoUsd <= room)
        const more = yield* estimateOf({ ...terms, bound: { ...bound, askedOutputTokens: cut.outputTokens + 1 } })
        assert.isTrue(more.amountNanoUsd > room)
      }
      assert.strictEqual(fitting(terms, estimate, room(null, 1200n))?.outputTokens, 200)
      assert.strictEqual(fitting(terms, estimate, room(1_500_000n, 1001n))?.outputTokens, 1)
      assert.isUndefined(fitting(terms, estimate, room(1_000_000n)))
      assert.isUndefined(fitting(terms, estimate, room(null, 1000n)))
      assert.isUndefined(fitting(terms, estimate, room(null)))
      assert.isUndefined(fitting(terms, { ...estimate, limit: undefined }, room(1_500_000n)))
    })
  )
})
