import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Exit, Layer, DateTime } from "effect"
import { TestClock } from "effect/testing"
import { Audit } from "../../../src/audit/log/service.ts"
import { delaySeconds } from "../../../src/people/login-throttle/service.ts"
import { LoginThrottle } from "../../../src/people/login-throttle/service.ts"
import { DigestLayer } from "../../../src/platform/crypto/node-crypto.ts"
import { poolOnOwnDatabase, realClock } from "../../support/clock.ts"

describe("the delay after failures", () => {
  it.each([
    [0, 0],
    [4, 0],
    [5, 1],
    [6, 2],
    [7, 4],
    [10, 32],
    [14, 512],
    [15, 900],
    [1000, 900]
  ])("%i failures: %i seconds", (failures, seconds) => {
    assert.strictEqual(delaySeconds(failures, 900), seconds)
  })

  it("of an account alone ends at five seconds", () => {
    assert.deepStrictEqual(
      [4, 5, 6, 7, 8, 50].map((failures) => delaySeconds(failures, 5)),
      [0, 1, 2, 4, 5, 5]
    )
  })
})

const services = LoginThrottle.layer.pipe(
  Layer.provide(DigestLayer),
  Layer.provideMerge(Audit.layer),
  Layer.provideMerge(Layer.fresh(poolOnOwnDatabase)),
  Layer.provide(realClock)
)

let made = 0
const newEmail = () => `guessed${(made += 1)}@example.org`
const newAddress = () => `203.0.113.${(made += 1)}`

/** The seconds that a try has to wait, 0 when it is counted. */
const attempt = Effect.fnUntraced(function* (email: string, address: string) {
  const delays = yield* LoginThrottle
  const exit = yield* Effect.exit(delays.begin(email, address))
  if (Exit.isSuccess(exit)) return 0
  const [reason] = exit.cause.reasons
  return reason?._tag === "Fail" ? reason.error.retryAfterSeconds : assert.fail("a defect")
})

const fail = (times: number, email: string, address: string) =>
  Effect.forEach(Array.from({ length: times }), () => attempt(email, address))

layer(services, { timeout: "60 seconds" })("delays of sign-ins", (it) => {
  it.effect("five failures are free, then 1 s doubling to 15 min; a blocked try does not count", () =>
    Effect.gen(function* () {
      yield* TestClock.setTime(DateTime.makeUnsafe("2026-03-01T00:00:00Z").epochMilliseconds)
      const [email, address] = [newEmail(), newAddress()]
      assert.deepStrictEqual(yield* fail(5, email, address), [0, 0, 0, 0, 0])
      const waited: Array<number> = []
      for (let round = 0; round < 12; round++) {
        const seconds = yield* attempt(email, address)
        assert.strictEqual(yield* attempt(email, address), seconds, "asking again makes it no longer")
        waited.push(seconds)
        yield* TestClock.adjust(`${seconds} seconds`)
        assert.strictEqual(yield* attempt(email, address), 0)
      }
      assert.deepStrictEqual(waited, [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900])
    })
  )

  it.effect("what was quiet for 15 minutes after its block is forgotten", () =>
    Effect.gen(function* () {
      const [email, address] = [newEmail(), newAddress()]
      yield* fail(6, email, address)
      yield* TestClock.adjust("15 minutes")
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual(yield* fail(5, email, address), [0, 0, 0, 0, 0])
    })
  )

  it.effect("an address that tries many accounts is slowed alike; other addresses are not", () =>
    Effect.gen(function* () {
      const address = newAddress()
      for (let round = 0; round < 5; round++) assert.strictEqual(yield* attempt(newEmail(), address), 0)
      assert.strictEqual(yield* attempt(newEmail(), address), 1)
      assert.strictEqual(yield* attempt(newEmail(), newAddress()), 0)
    })
  )

  it.effect("an account that is tried from everywhere is slowed by 5 s at most, and lets its owner try", () =>
    Effect.gen(function* () {
      const delays = yield* LoginThrottle
      const email = newEmail()
      const pauses: Array<number> = []
      for (let round = 0; round < 12; round++) pauses.push((yield* delays.begin(email, newAddress())).pauseSeconds)
      assert.deepStrictEqual(pauses, [0, 0, 0, 0, 0, 1, 2, 4, 5, 5, 5, 5])
    })
  )

  it.effect("tries at the same time are no way around", () =>
    Effect.gen(function* () {
      const [email, address] = [newEmail(), newAddress()]
      const waits = yield* Effect.all(
        Array.from({ length: 30 }, () => attempt(email, address)),
        { concurrency: "unbounded" }
      )
      assert.lengthOf(
        waits.filter((seconds) => seconds === 0),
        5
      )
    })
  )

  it.effect("no spelling of the address makes another account of it", () =>
    Effect.gen(function* () {
      const [email, address] = [`jörg.${newEmail().replace("@", "@exämple.")}`, newAddress()]
      yield* fail(2, email, address)
      yield* fail(1, email.toUpperCase(), address)
      yield* fail(1, email.normalize("NFD"), address)
      yield* fail(1, email.replace("exämple", "xn--exmple-cua"), address)
      assert.strictEqual(yield* attempt(email, address), 1)
    })
  )

  it.effect("a sign-in that succeeds clears its account, and takes back no failure of its address but its own", () =>
    Effect.gen(function* () {
      const audit = yield* Audit
      const delays = yield* LoginThrottle
      const [email, address] = [newEmail(), newAddress()]
      yield* fail(3, email, address)
      const { succeeded } = yield* delays.begin(email, address)
      yield* audit.change(Effect.as(succeeded, { value: undefined, entries: [] }))
      assert.deepStrictEqual(yield* fail(2, newEmail(), address), [0, 0])
      assert.strictEqual(yield* attempt(newEmail(), address), 1)
      assert.deepStrictEqual(yield* fail(5, email, newAddress()), [0, 0, 0, 0, 0])
    })
  )
})
