import { assert, layer } from "@effect/vitest"
import { Effect, Exit, Layer, Redacted } from "effect"
import { Kdf, SecureRandom } from "effect/crypto"
import { Passwords } from "../../../src/people/accounts/passwords.ts"

const secret = (text: string) => Redacted.make(text)

layer(Passwords.layer)("passwords", (it) => {
  it.effect("are argon2id with 19 MiB, 2 passes, 1 lane and a salt of their own", () =>
    Effect.gen(function* () {
      const passwords = yield* Passwords
      const [one, other] = yield* Effect.all([
        passwords.hash(secret("seven grey herons at dawn"), []),
        passwords.hash(secret("seven grey herons at dawn"), [])
      ])
      assert.match(one, /^\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}$/)
      assert.notStrictEqual(one, other)
      assert.isTrue(yield* passwords.verify(secret("seven grey herons at dawn"), one))
      assert.isFalse(yield* passwords.verify(secret("seven grey herons at dusk"), one))
    })
  )

  it.effect("are the same however their letters were put together", () =>
    Effect.gen(function* () {
      const passwords = yield* Passwords
      const hash = yield* passwords.hash(secret("sieben grüne Reiher".normalize("NFC")), [])
      assert.isTrue(yield* passwords.verify(secret("sieben grüne Reiher".normalize("NFD")), hash))
    })
  )

  it.effect("an unknown account has no password that is right, not even the empty hash's", () =>
    Effect.gen(function* () {
      const passwords = yield* Passwords
      for (const text of ["", "seven grey herons at dawn", "\0".repeat(32)]) {
        assert.isFalse(yield* passwords.verify(secret(text), undefined))
      }
    })
  )

  it.effect("that are common are refused, and the answer names the member and not the password", () =>
    Effect.gen(function* () {
      const passwords = yield* Passwords
      const fault = yield* Effect.flip(passwords.hash(secret("Password1234"), [], "newPassword"))
      assert.deepInclude(fault, { _tag: "ValidationFailed" })
      assert.include(JSON.stringify(fault), "newPassword")
      assert.notInclude(JSON.stringify(fault), "Password1234")
    })
  )
})

/** What was derived, in the place of deriving; each waits until it is let go. */
const counted = Effect.gen(function* () {
  const calls: Array<string> = []
  const state = { running: 0, most: 0 }
  const layer = Passwords.layerNoDeps.pipe(
    Layer.provide(SecureRandom.layerWebCrypto),
    Layer.provide(
      Layer.succeed(Kdf.Kdf, {
        derive: (algorithm, _, { length, salt }) =>
          Effect.gen(function* () {
            calls.push(JSON.stringify({ algorithm, length, salt: salt.length }))
            state.running += 1
            state.most = Math.max(state.most, state.running)
            yield* Effect.yieldNow
            state.running -= 1
            return new Uint8Array(length)
          })
      })
    )
  )
  return { calls, layer, state }
})

layer(Layer.empty)("the work on passwords", (it) => {
  it.effect("is the same for an unknown account as for a wrong password", () =>
    Effect.gen(function* () {
      const { calls, layer } = yield* counted
      const hash = `$argon2id$v=19$m=19456,t=2,p=1$${"A".repeat(22)}$${"B".repeat(43)}`
      yield* Effect.gen(function* () {
        const passwords = yield* Passwords
        yield* passwords.verify(secret("wrong"), hash)
        yield* passwords.verify(secret("wrong"), undefined)
      }).pipe(Effect.provide(layer))
      assert.lengthOf(calls, 2)
      assert.strictEqual(calls[0], calls[1])
    })
  )

  it.effect("is done two at a time, and a crowd beyond a hundred is turned away", () =>
    Effect.gen(function* () {
      const { layer, state } = yield* counted
      const outcomes = yield* Effect.gen(function* () {
        const passwords = yield* Passwords
        return yield* Effect.all(
          Array.from({ length: 150 }, () => Effect.exit(passwords.verify(secret("wrong"), undefined))),
          { concurrency: "unbounded" }
        )
      }).pipe(Effect.provide(layer))
      assert.strictEqual(state.most, 2)
      assert.lengthOf(outcomes.filter(Exit.isFailure), 50)
    })
  )
})
