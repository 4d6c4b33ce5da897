import { assert, describe, it } from "@effect/vitest"
import { Deferred, Effect, Fiber } from "effect"
import { TenantId } from "#src/kernel/identifier.ts"
import { type TenantScope } from "#src/platform/database/database.ts"
import { makeTurns } from "#src/platform/runtime/turns.ts"

const [one, other, third] = ["a", "b", "c"].map((last) => TenantId.make(`0198a5b0-7c00-7000-8000-00000000000${last}`))

/** Effects that run until they are ended, and the tenants of those that run. */
const setting = Effect.gen(function* () {
  const inTurn = yield* makeTurns({ atOnce: 2, ofOne: 1 })
  const running: Array<TenantScope> = []
  const begin = Effect.fnUntraced(function* (tenant: TenantScope = "all") {
    const end = yield* Deferred.make<void>()
    const run = Effect.acquireUseRelease(
      Effect.sync(() => running.push(tenant)),
      () => Deferred.await(end),
      () => Effect.sync(() => running.splice(running.indexOf(tenant), 1))
    )
    const fiber = yield* Effect.forkChild(inTurn(tenant, run), { startImmediately: true })
    return { fiber, end: Effect.andThen(Deferred.succeed(end, undefined), Fiber.join(fiber)) }
  })
  return { begin, running }
})

describe("effects in turns of tenants", () => {
  it.effect("run beside those of another tenant that wait for their turn", () =>
    Effect.gen(function* () {
      const { begin, running } = yield* setting
      const first = yield* begin(one)
      const second = yield* begin(one)
      yield* begin(other)
      assert.deepStrictEqual(running, [one, other])
      yield* first.end
      yield* Effect.yieldNow
      assert.deepStrictEqual(running, [other, one])
      yield* second.end
    })
  )

  it.effect("are no more at once than all tenants may have", () =>
    Effect.gen(function* () {
      const { begin, running } = yield* setting
      const first = yield* begin(one)
      yield* begin(other)
      yield* begin(third)
      assert.deepStrictEqual(running, [one, other])
      yield* first.end
      yield* Effect.yieldNow
      assert.deepStrictEqual(running, [other, third])
    })
  )

  it.effect("leave their place when they are interrupted, whether they run or wait", () =>
    Effect.gen(function* () {
      const { begin, running } = yield* setting
      const first = yield* begin(one)
      const second = yield* begin(one)
      const next = yield* begin(one)
      yield* Fiber.interrupt(second.fiber)
      yield* Fiber.interrupt(first.fiber)
      yield* Effect.yieldNow
      assert.deepStrictEqual(running, [one])
      yield* next.end
      assert.deepStrictEqual(running, [])
    })
  )
})
