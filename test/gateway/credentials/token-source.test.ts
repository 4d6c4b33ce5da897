import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { CredentialUnavailable, makeTokenSource, type Obtained } from "../../../src/gateway/credentials/token-source.ts"

const lifetimeMillis = 3_600_000

/** A source whose tokens are numbered, and what decides how the next one is obtained. */
const numbered = Effect.gen(function* () {
  const state = {
    asked: 0,
    next: (number: number): Effect.Effect<Obtained<string>, CredentialUnavailable> =>
      Effect.succeed({ value: `token-${number}`, lifetimeMillis })
  }
  const source = yield* makeTokenSource(Effect.suspend(() => state.next(++state.asked)))
  return { source, state }
})

const down = Effect.fail(new CredentialUnavailable({ detail: "it is down" }))

describe("a source of tokens", () => {
  it.effect("asks once for all who wait, and keeps what it got", () =>
    Effect.gen(function* () {
      const { source, state } = yield* numbered
      const gate = yield* Deferred.make<void>()
      state.next = (number) => Effect.as(Deferred.await(gate), { value: `token-${number}`, lifetimeMillis })
      const waiting = yield* Effect.forkChild(
        Effect.all(
          Array.from({ length: 100 }, () => source.get),
          { concurrency: "unbounded" }
        )
      )
      const leaving = yield* Effect.forkChild(source.get)
      yield* Effect.yieldNow
      yield* Fiber.interrupt(leaving)
      yield* Deferred.succeed(gate, undefined)
      assert.deepStrictEqual(new Set(yield* Fiber.join(waiting)), new Set(["token-1"]))
      assert.strictEqual(yield* source.get, "token-1")
      assert.strictEqual(state.asked, 1)
    }).pipe(Effect.scoped)
  )

  it.effect("renews in the background five minutes before the end, or at four fifths of a short life", () =>
    Effect.gen(function* () {
      const { source, state } = yield* numbered
      yield* source.get
      yield* TestClock.adjust("54 minutes")
      assert.strictEqual(yield* source.get, "token-1")
      assert.strictEqual(state.asked, 1)
      yield* TestClock.adjust("1 minute")
      assert.strictEqual(yield* source.get, "token-1")
      yield* Effect.yieldNow
      assert.strictEqual(yield* source.get, "token-2")
      state.next = (number) => Effect.succeed({ value: `token-${number}`, lifetimeMillis: 100_000 })
      yield* TestClock.adjust("1 hour")
      assert.strictEqual(yield* source.get, "token-3")
      yield* TestClock.adjust("81 seconds")
      assert.strictEqual(yield* source.get, "token-3")
      yield* Effect.yieldNow
      assert.strictEqual(yield* source.get, "token-4")
    }).pipe(Effect.scoped)
  )

  it.effect("serves the last token to its end while no other is to be had, and says so", () =>
    Effect.gen(function* () {
      const { source, state } = yield* numbered
      yield* source.get
      state.next = () => down
      yield* TestClock.adjust("59 minutes")
      assert.strictEqual(yield* source.get, "token-1")
      yield* Effect.yieldNow
      assert.strictEqual(yield* source.get, "token-1")
      assert.deepInclude(source.state(), { failures: 1, lastError: "it is down", expiresAt: lifetimeMillis })
      yield* TestClock.adjust("1 minute")
      assert.strictEqual((yield* Effect.flip(source.get)).detail, "it is down")
      state.next = (number) => Effect.succeed({ value: `token-${number}`, lifetimeMillis })
      yield* TestClock.adjust("30 seconds")
      yield* source.get
      assert.deepInclude(source.state(), { failures: 0, lastError: undefined })
    }).pipe(Effect.scoped)
  )

  it.effect("lets all fail at once after a failure, and tries again later and later", () =>
    Effect.gen(function* () {
      const { source, state } = yield* numbered
      state.next = () => down
      const asked: Array<number> = []
      for (let second = 0; second < 100; second++) {
        yield* Effect.flip(source.get)
        asked.push(state.asked)
        yield* TestClock.adjust("1 second")
      }
      // At 0, 1, 3, 7, 15, 31, 61 and 91 s.
      assert.strictEqual(asked.at(-1), 8)
    }).pipe(Effect.scoped)
  )

  it.effect("gives a refused token up once, and not one that was just issued", () =>
    Effect.gen(function* () {
      const { source, state } = yield* numbered
      yield* source.get
      assert.isFalse(yield* source.giveUp((value) => value === "token-1"))
      yield* TestClock.adjust("10 seconds")
      assert.isTrue(yield* source.giveUp((value) => value === "token-1"))
      assert.isUndefined(source.held())
      assert.strictEqual(yield* source.get, "token-2")
      // Another call that was sent with the first one has the second tried.
      assert.isTrue(yield* source.giveUp((value) => value === "token-1"))
      assert.strictEqual(yield* source.get, "token-2")
      assert.strictEqual(state.asked, 2)
    }).pipe(Effect.scoped)
  )
})
