import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Exit, Fiber } from "effect"
import { TestClock } from "effect/testing"
import { makeBatcher } from "../../../src/platform/database/batcher.ts"

const doubling = (maximum: number) =>
  Effect.gen(function* () {
    const runs: Array<ReadonlyArray<number>> = []
    const begun = yield* Deferred.make<void>()
    const gate = yield* Deferred.make<void>()
    const { submit } = yield* makeBatcher({
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
    return { submit, runs, started: Deferred.await(begun), open: Deferred.succeed(gate, undefined) }
  })

it.effect("runs the items of one turn together, and collects later ones during the run", () =>
  Effect.gen(function* () {
    const { submit, open, runs, started } = yield* doubling(100)
    const first = yield* Effect.forEach([1, 2], (item) => Effect.forkChild(submit(item), { startImmediately: true }))
    yield* started
    const others = yield* Effect.forEach([3, 4], (item) => Effect.forkChild(submit(item), { startImmediately: true }))
    yield* open
    assert.deepStrictEqual(yield* Effect.forEach([...first, ...others], Fiber.join), [2, 4, 6, 8])
    assert.deepStrictEqual(runs, [
      [1, 2],
      [3, 4]
    ])
    assert.strictEqual(yield* submit(5), 10)
  })
)

it.effect("runs at most the maximum of items at once", () =>
  Effect.gen(function* () {
    const { submit, open, runs } = yield* doubling(2)
    const fibers = yield* Effect.forEach([1, 2, 3, 4, 5, 6], (item) =>
      Effect.forkChild(submit(item), { startImmediately: true })
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

it.effect("fails the callers of a failed run and no others", () =>
  Effect.gen(function* () {
    const { submit, open } = yield* doubling(2)
    const fibers = yield* Effect.forEach([1, 11, 12, 13, 14, 15], (item) =>
      Effect.forkChild(submit(item), { startImmediately: true })
    )
    yield* open
    const exits = yield* Effect.forEach(fibers, Fiber.await)
    assert.deepStrictEqual(exits.map(Exit.isSuccess), [true, true, false, false, true, true])
  })
)

it.effect("completes the others when a caller is interrupted", () =>
  Effect.gen(function* () {
    const { submit, open } = yield* doubling(100)
    const [first, gone, stays] = yield* Effect.forEach([1, 2, 3], (item) =>
      Effect.forkChild(submit(item), { startImmediately: true })
    )
    yield* Fiber.interrupt(gone!)
    yield* open
    assert.strictEqual(yield* Fiber.join(first!), 2)
    assert.strictEqual(yield* Fiber.join(stays!), 6)
  })
)

it.effect("keeps lanes apart: none waits for another or shares its run", () =>
  Effect.gen(function* () {
    const runs: Array<ReadonlyArray<string>> = []
    const gate = yield* Deferred.make<void>()
    const { submit } = yield* makeBatcher({
      maximum: 100,
      lane: (item: string) => item.slice(0, 1),
      run: (items: ReadonlyArray<string>) => {
        runs.push(items)
        return Effect.as(items.includes("a1") ? Deferred.await(gate) : Effect.void, items)
      }
    })
    const [slow, other] = yield* Effect.forEach(["a1", "b1"], (item) =>
      Effect.forkChild(submit(item), { startImmediately: true })
    )
    assert.strictEqual(yield* Fiber.join(other!), "b1")
    const next = yield* Effect.forkChild(submit("a2"), { startImmediately: true })
    assert.deepStrictEqual(yield* Effect.all([submit("b2"), submit("b3")], { concurrency: 2 }), ["b2", "b3"])
    yield* Deferred.succeed(gate, undefined)
    assert.deepStrictEqual([yield* Fiber.join(slow!), yield* Fiber.join(next)], ["a1", "a2"])
    assert.deepStrictEqual(runs, [["a1"], ["b1"], ["b2", "b3"], ["a2"]])
  })
)

describe("items that no caller waits for", () => {
  const recorded = Effect.gen(function* () {
    const runs: Array<ReadonlyArray<number>> = []
    const results: Array<number> = []
    const batcher = yield* makeBatcher({
      maximum: 3,
      pauseMillis: 100,
      run: (items: ReadonlyArray<number>) => {
        runs.push(items)
        return Effect.succeed(items.map((item) => item * 2))
      }
    })
    const enqueue = (item: number) => {
      batcher.enqueue(item, (exit) => {
        if (Exit.isSuccess(exit)) results.push(exit.value)
      })
    }
    return { ...batcher, enqueue, results, runs }
  })
  const turn = TestClock.adjust(0)

  it.effect("run at once, and then collect for the pause", () =>
    Effect.gen(function* () {
      const { runs, enqueue, results } = yield* recorded
      enqueue(1)
      yield* turn
      enqueue(2)
      enqueue(3)
      yield* TestClock.adjust(99)
      assert.deepStrictEqual(runs, [[1]])
      yield* TestClock.adjust(1)
      assert.deepStrictEqual(runs, [[1], [2, 3]])
      assert.deepStrictEqual(results, [2, 4, 6])
    })
  )

  it.effect("run as soon as the maximum is reached", () =>
    Effect.gen(function* () {
      const { runs, enqueue } = yield* recorded
      enqueue(1)
      yield* turn
      for (const item of [2, 3, 4]) enqueue(item)
      yield* turn
      assert.deepStrictEqual(runs, [[1], [2, 3, 4]])
    })
  )

  it.effect("run together with an item that a caller waits for", () =>
    Effect.gen(function* () {
      const { submit, runs, enqueue } = yield* recorded
      enqueue(1)
      yield* turn
      enqueue(2)
      assert.strictEqual(yield* submit(3), 6)
      assert.deepStrictEqual(runs, [[1], [2, 3]])
    })
  )

  it.effect("run when a caller drains the lane, which is busy until then", () =>
    Effect.gen(function* () {
      const { isBusy, drain, runs, enqueue } = yield* recorded
      yield* drain()
      assert.isFalse(isBusy())
      enqueue(1)
      yield* turn
      assert.isFalse(isBusy())
      enqueue(2)
      assert.isTrue(isBusy())
      yield* drain("")
      assert.isFalse(isBusy(""))
      assert.deepStrictEqual(runs, [[1], [2]])
    })
  )
})
