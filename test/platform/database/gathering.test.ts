import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { makeGathering } from "../../../src/platform/database/gathering.ts"

const doubling = (maximum: number) =>
  Effect.gen(function* () {
    const runs: Array<ReadonlyArray<number>> = []
    const begun = yield* Deferred.make<void>()
    const gate = yield* Deferred.make<void>()
    const { ask } = yield* makeGathering({
      maximum,
      run: (items: ReadonlyArray<number>) =>
        Effect.gen(function* () {
          runs.push(items)
          yield* Deferred.succeed(begun, undefined)
          if (runs.length === 1) yield* Deferred.await(gate)
          if (items.includes(13)) return yield* Effect.die("unlucky")
          return items.map((item) => item * 2)
        })
    })
    return { ask, runs, started: Deferred.await(begun), open: Deferred.succeed(gate, undefined) }
  })

it.effect("takes what comes in one turn together, and lets the others gather while it is under way", () =>
  Effect.gen(function* () {
    const { ask, open, runs, started } = yield* doubling(100)
    const first = yield* Effect.forEach([1, 2], (item) => Effect.forkChild(ask(item), { startImmediately: true }))
    yield* started
    const others = yield* Effect.forEach([3, 4], (item) => Effect.forkChild(ask(item), { startImmediately: true }))
    yield* open
    assert.deepStrictEqual(yield* Effect.forEach([...first, ...others], Fiber.join), [2, 4, 6, 8])
    assert.deepStrictEqual(runs, [
      [1, 2],
      [3, 4]
    ])
    assert.strictEqual(yield* ask(5), 10)
  })
)

it.effect("runs no more items at once than it may", () =>
  Effect.gen(function* () {
    const { ask, open, runs } = yield* doubling(2)
    const fibers = yield* Effect.forEach([1, 2, 3, 4, 5, 6], (item) =>
      Effect.forkChild(ask(item), { startImmediately: true })
    )
    yield* open
    yield* Effect.forEach(fibers, Fiber.join)
    assert.deepStrictEqual(runs, [
      [1, 2],
      [3, 4],
      [5, 6]
    ])
  })
)

it.effect("fails the callers of a failed run, and no other", () =>
  Effect.gen(function* () {
    const { ask, open } = yield* doubling(2)
    const fibers = yield* Effect.forEach([1, 11, 12, 13, 14, 15], (item) =>
      Effect.forkChild(ask(item), { startImmediately: true })
    )
    yield* open
    const exits = yield* Effect.forEach(fibers, Fiber.await)
    assert.deepStrictEqual(exits.map(Exit.isSuccess), [true, true, false, false, true, true])
  })
)

it.effect("serves the others when a caller goes away", () =>
  Effect.gen(function* () {
    const { ask, open } = yield* doubling(100)
    const [first, gone, stays] = yield* Effect.forEach([1, 2, 3], (item) =>
      Effect.forkChild(ask(item), { startImmediately: true })
    )
    yield* Fiber.interrupt(gone!)
    yield* open
    assert.strictEqual(yield* Fiber.join(first!), 2)
    assert.strictEqual(yield* Fiber.join(stays!), 6)
  })
)

it.effect("lets no lane wait for another, and takes none together with another", () =>
  Effect.gen(function* () {
    const runs: Array<ReadonlyArray<string>> = []
    const gate = yield* Deferred.make<void>()
    const { ask } = yield* makeGathering({
      maximum: 100,
      lane: (item: string) => item.slice(0, 1),
      run: (items: ReadonlyArray<string>) => {
        runs.push(items)
        return Effect.as(items.includes("a1") ? Deferred.await(gate) : Effect.void, items)
      }
    })
    const [slow, other] = yield* Effect.forEach(["a1", "b1"], (item) =>
      Effect.forkChild(ask(item), { startImmediately: true })
    )
    assert.strictEqual(yield* Fiber.join(other!), "b1")
    const next = yield* Effect.forkChild(ask("a2"), { startImmediately: true })
    assert.deepStrictEqual(yield* Effect.all([ask("b2"), ask("b3")], { concurrency: 2 }), ["b2", "b3"])
    yield* Deferred.succeed(gate, undefined)
    assert.deepStrictEqual([yield* Fiber.join(slow!), yield* Fiber.join(next)], ["a1", "a2"])
    assert.deepStrictEqual(runs, [["a1"], ["b1"], ["b2", "b3"], ["a2"]])
  })
)

describe("what nobody waits for", () => {
  const gathered = Effect.gen(function* () {
    const runs: Array<ReadonlyArray<number>> = []
    const told: Array<number> = []
    const gathering = yield* makeGathering({
      maximum: 3,
      pauseMillis: 100,
      run: (items: ReadonlyArray<number>) => {
        runs.push(items)
        return Effect.succeed(items.map((item) => item * 2))
      }
    })
    const tell = (item: number) => {
      gathering.tell(item, (exit) => {
        if (Exit.isSuccess(exit)) told.push(exit.value)
      })
    }
    return { ...gathering, tell, told, runs }
  })
  const turn = TestClock.adjust(0)

  it.effect("goes at once, and then gathers for a while", () =>
    Effect.gen(function* () {
      const { runs, tell, told } = yield* gathered
      tell(1)
      yield* turn
      tell(2)
      tell(3)
      yield* TestClock.adjust(99)
      assert.deepStrictEqual(runs, [[1]])
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(runs, [[1], [2, 3]])
      assert.deepStrictEqual(told, [2, 4, 6])
    })
  )

  it.effect("goes as soon as it is as much as may go together", () =>
    Effect.gen(function* () {
      const { runs, tell } = yield* gathered
      tell(1)
      yield* turn
      for (const item of [2, 3, 4]) tell(item)
      yield* turn
      assert.deepStrictEqual(runs, [[1], [2, 3, 4]])
    })
  )

  it.effect("goes with whatever somebody waits for", () =>
    Effect.gen(function* () {
      const { ask, runs, tell } = yield* gathered
      tell(1)
      yield* turn
      tell(2)
      assert.strictEqual(yield* ask(3), 6)
      assert.deepStrictEqual(runs, [[1], [2, 3]])
    })
  )

  it.effect("goes for whoever waits until it is served, and is busy until then", () =>
    Effect.gen(function* () {
      const { isBusy, passed, runs, tell } = yield* gathered
      yield* passed()
      assert.isFalse(isBusy())
      tell(1)
      yield* turn
      assert.isFalse(isBusy())
      tell(2)
      assert.isTrue(isBusy())
      yield* passed("")
      assert.isFalse(isBusy(""))
      assert.deepStrictEqual(runs, [[1], [2]])
    })
  )
})
