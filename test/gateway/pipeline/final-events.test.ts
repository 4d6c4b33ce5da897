import { assert, it } from "@effect/vitest"
import { Cause, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { type AnswerPull, readFinalEvents } from "../../../src/gateway/pipeline/final-events.ts"

const bytes = [new Uint8Array(1)] as const

it.effect("the final events of a stream are read to their end, and no longer than two seconds", () =>
  Effect.gen(function* () {
    let left = 3
    const ending: AnswerPull = Effect.suspend(() => (left-- > 0 ? Effect.succeed(bytes) : Cause.done()))
    yield* readFinalEvents(ending)
    assert.strictEqual(left, -1)

    let read = 0
    const endless: AnswerPull = Effect.andThen(
      Effect.sleep("300 millis"),
      Effect.sync(() => {
        read++
        return bytes
      })
    )
    const reading = yield* Effect.forkChild(readFinalEvents(endless))
    yield* TestClock.adjust("1999 millis")
    assert.isUndefined(reading.pollUnsafe())
    yield* TestClock.adjust("1 millis")
    yield* Fiber.join(reading)
    assert.strictEqual(read, 6)
  })
)
