import { assert, layer } from "@effect/vitest"
import { Context, Deferred, Effect, Fiber, Layer } from "effect"
import { HttpServerRequest } from "effect/http"
import { TestClock } from "effect/testing"
import { databaseDeadline, withoutDeadline } from "../../../src/platform/http/deadline.ts"
import { InFlight } from "../../../src/platform/http/in-flight.ts"
import { CurrentRequest, RequestInfo, tookTooLong } from "../../../src/platform/http/request.ts"
import { Settings } from "../../../src/platform/settings/settings.ts"

const requestSeconds = 60
const databaseSeconds = 10
const ledgerLate = "The ledger is late."
const cacheLate = "The cache is late."

const environment = {
  Api__RequestTimeoutSeconds: `${requestSeconds}`,
  Database__AcquireTimeoutSeconds: `${databaseSeconds}`
}
const services = Layer.fresh(InFlight.layer).pipe(Layer.provideMerge(Settings.layerMemory({ environment })))

/** A request that does a work from now on. */
const serve = Effect.fnUntraced(function* (work: Effect.Effect<unknown, unknown>) {
  const inFlight = yield* InFlight
  const request = HttpServerRequest.fromWeb(new Request("http://localhost/"))
  const info = RequestInfo.make(Context.empty(), request, "1")
  const served = Effect.withFiber((fiber) => {
    info.deadline = inFlight.enter(fiber)
    return work
  })
  const fiber = yield* Effect.forkChild(Effect.provideService(served, CurrentRequest, info), { startImmediately: true })
  return { info, fiber }
})

/** How many seconds the work of a request runs until it is stopped, and what is late. */
const stopped = Effect.fnUntraced(function* (work: Effect.Effect<unknown, unknown>, most = 1000) {
  const { fiber, info } = yield* serve(Effect.andThen(work, Effect.never))
  for (let seconds = 1; seconds <= most; seconds++) {
    yield* TestClock.adjust("1 second")
    if (fiber.pollUnsafe() !== undefined) return { seconds, late: info.late }
  }
  yield* Fiber.interrupt(fiber)
  return { seconds: Infinity, late: info.late }
})

/** A time after what was not bounded for 500 seconds. */
const own = (seconds: number, late = tookTooLong) => ({ seconds: 500 + seconds, late })

const for5 = Effect.sleep("5 seconds")
const byRequest = { seconds: requestSeconds, late: tookTooLong }

layer(services)("the time limit of a request", (it) => {
  it.effect("is the request's own outside of brackets", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* stopped(Effect.void), byRequest)
      assert.deepStrictEqual(yield* stopped(Effect.sleep("59 seconds")), byRequest)
    })
  )

  it.effect("is the bracket's within it, from its begin on, and names what was late", () =>
    Effect.gen(function* () {
      const ledger = yield* databaseDeadline(ledgerLate)
      const late = { seconds: databaseSeconds, late: ledgerLate }
      assert.deepStrictEqual(yield* stopped(ledger(Effect.never)), late)
      assert.deepStrictEqual(yield* stopped(Effect.andThen(for5, ledger(Effect.never))), { ...late, seconds: 15 })
      assert.deepStrictEqual(yield* stopped(Effect.uninterruptible(Effect.interruptible(ledger(Effect.never)))), late)
    })
  )

  it.effect("is never longer within a bracket than around it", () =>
    Effect.gen(function* () {
      const ledger = yield* databaseDeadline(ledgerLate)
      const cache = yield* databaseDeadline(cacheLate)
      assert.deepStrictEqual(
        yield* stopped(Effect.andThen(Effect.sleep("55 seconds"), ledger(Effect.never))),
        byRequest
      )
      assert.deepStrictEqual(yield* stopped(ledger(Effect.andThen(for5, cache(Effect.never)))), {
        seconds: databaseSeconds,
        late: ledgerLate
      })
    })
  )

  it.effect("is the outer one again after a bracket, however it ended", () =>
    Effect.gen(function* () {
      const ledger = yield* databaseDeadline(ledgerLate)
      const cache = yield* databaseDeadline(cacheLate)
      const within = yield* databaseDeadline("The outer part is late.")
      const endings: Readonly<Record<string, Effect.Effect<unknown, unknown>>> = {
        "done at once": ledger(Effect.void),
        "failed at once": ledger(Effect.fail("no")),
        success: ledger(for5),
        failure: ledger(Effect.andThen(for5, Effect.fail("no"))),
        defect: ledger(Effect.andThen(for5, Effect.die("no"))),
        "interruption of itself": ledger(Effect.andThen(for5, Effect.interrupt)),
        "interruption by a time limit": Effect.timeout(ledger(Effect.never), "5 seconds"),
        "interruption by what was faster": Effect.race(ledger(Effect.never), for5),
        "interruption of a child": Effect.gen(function* () {
          const child = yield* Effect.forkChild(ledger(Effect.never), { startImmediately: true })
          yield* for5
          yield* Fiber.interrupt(child)
        }),
        "an effect that throws": ledger(
          Effect.suspend(() => {
            throw new Error("no")
          })
        ),
        "nested, the inner one failed": ledger(Effect.ignore(cache(Effect.andThen(for5, Effect.fail("no"))))),
        "nested, both failed": ledger(cache(Effect.andThen(for5, Effect.fail("no")))),
        "nested, both interrupted": Effect.timeout(ledger(cache(Effect.never)), "5 seconds"),
        "one after the other": Effect.all([ledger(for5), cache(for5), ledger(for5), cache(for5)])
      }
      for (const [name, work] of Object.entries(endings)) {
        assert.deepStrictEqual(yield* stopped(Effect.exit(work)), byRequest, name)
        // The same within another bracket.
        if (name === "one after the other") continue
        assert.deepStrictEqual(
          yield* stopped(within(Effect.andThen(Effect.exit(work), Effect.never))),
          { seconds: databaseSeconds, late: "The outer part is late." },
          `within another: ${name}`
        )
      }
    })
  )

  it.effect("holds for what runs at the same time, whichever ends first", () =>
    Effect.gen(function* () {
      const ledger = yield* databaseDeadline(ledgerLate)
      const cache = yield* databaseDeadline(cacheLate)
      for (const [one, other] of [
        [1, 5],
        [5, 1],
        [5, 5]
      ] as const) {
        const both = [ledger(Effect.sleep(`${one} seconds`)), cache(Effect.sleep(`${other} seconds`))]
        const together = Effect.all(both, { concurrency: "unbounded" })
        assert.deepStrictEqual(yield* stopped(together), byRequest)
      }
      const oneEnds = Effect.all([ledger(Effect.never), cache(for5)], { concurrency: "unbounded" })
      assert.deepStrictEqual(yield* stopped(oneEnds), { seconds: databaseSeconds, late: ledgerLate })
    })
  )

  it.effect("is lifted for what takes as long as others need, and goes on after it as if it had taken no time", () =>
    Effect.gen(function* () {
      const ledger = yield* databaseDeadline(ledgerLate)
      const long = Effect.sleep("500 seconds")
      assert.deepStrictEqual((yield* stopped(withoutDeadline(Effect.never))).seconds, Infinity)
      assert.deepStrictEqual(yield* stopped(withoutDeadline(long)), own(requestSeconds))
      assert.deepStrictEqual(yield* stopped(Effect.andThen(for5, withoutDeadline(long))), own(requestSeconds))
      for (const end of [Effect.fail("no"), Effect.die("no"), Effect.interrupt]) {
        const ended = Effect.exit(withoutDeadline(Effect.andThen(long, end)))
        assert.deepStrictEqual(yield* stopped(ended), own(requestSeconds))
      }
      const lifted = withoutDeadline(long)
      const within = (work: Effect.Effect<void>) => ledger(Effect.andThen(work, Effect.never))
      assert.deepStrictEqual(yield* stopped(within(lifted)), own(databaseSeconds, ledgerLate))
      assert.deepStrictEqual(yield* stopped(within(withoutDeadline(lifted))), own(databaseSeconds, ledgerLate))
      const bracketed = withoutDeadline(ledger(lifted))
      assert.deepStrictEqual(yield* stopped(bracketed), own(requestSeconds))
      assert.deepStrictEqual(yield* stopped(within(bracketed)), own(databaseSeconds, ledgerLate))
      assert.deepStrictEqual(yield* stopped(withoutDeadline(ledger(Effect.andThen(lifted, Effect.never)))), {
        seconds: 500 + databaseSeconds,
        late: ledgerLate
      })
    })
  )

  it.effect("bounds nothing where there is no request", () =>
    Effect.gen(function* () {
      const ledger = yield* databaseDeadline(ledgerLate)
      const done = yield* Deferred.make<string>()
      const job = yield* Effect.forkChild(ledger(withoutDeadline(Deferred.await(done))), { startImmediately: true })
      yield* TestClock.adjust("1 hour")
      yield* Deferred.succeed(done, "done")
      assert.strictEqual(yield* Fiber.join(job), "done")
    })
  )
})
