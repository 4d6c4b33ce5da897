import * as NodeCrypto from "@effect/platform-node/NodeCrypto"
import { Context, Effect, Layer, Redacted, Semaphore } from "effect"
import { Kdf, Mac, SecureRandom } from "effect/crypto"
import { ValidationFailed, Overloaded } from "../../kernel/problems/problems.ts"
import { isCommonPassword } from "./common-passwords.ts"

/** What a new hash costs; the memory is in KiB. */
export interface PasswordCost {
  readonly memory: number
  readonly passes: number
  readonly parallelism: number
}

/** The least that OWASP recommends, so that two at a time leave a small machine its memory. */
export const PasswordCost = Context.Reference<PasswordCost>("app/people/PasswordCost", {
  defaultValue: () => ({ memory: 19_456, passes: 2, parallelism: 1 })
})

const saltBytes = 16
const hashBytes = 32
/** How many are computed at once, each for some 30 ms on a thread of its own; libuv has four threads for all work. */
const atOnce = 2
const maxWaiting = 100

/** Passwords as they are stored: argon2id in the PHC string form, such as `$argon2id$v=19$m=19456,t=2,p=1$…$…`. */
export class Passwords extends Context.Service<Passwords>()("app/people/Passwords", {
  make: Effect.gen(function* () {
    const kdf = yield* Kdf.Kdf
    const random = yield* SecureRandom.SecureRandom
    const cost = yield* PasswordCost
    const permits = yield* Semaphore.make(atOnce)
    let waiting = 0

    /** Runs within the pool; a crowd that would wait for long is turned away instead. */
    const pooled = <A, E>(work: Effect.Effect<A, E>): Effect.Effect<A, E | Overloaded> =>
      Effect.suspend((): Effect.Effect<A, E | Overloaded> => {
        if (waiting >= maxWaiting) return Effect.fail(new Overloaded({ detail: "Too many sign-ins at once." }))
        waiting += 1
        return Effect.ensuring(
          permits.withPermits(1)(work),
          Effect.sync(() => void (waiting -= 1))
        )
      })

    const derive = (
      password: Redacted.Redacted,
      salt: Uint8Array,
      { memory, passes, parallelism }: PasswordCost,
      length: number
    ) =>
      kdf
        .derive(Kdf.argon2id({ memory, passes, parallelism }), utf8(password), { salt, length })
        .pipe(Effect.orDie, pooled)

    const hash = Effect.fn("Passwords.hash")(function* (
      password: Redacted.Redacted,
      about: ReadonlyArray<string>,
      member: string = "password"
    ) {
      if (isCommonPassword(normalized(password), about)) {
        return yield* new ValidationFailed({
          errors: [{ path: ["payload", member], message: "Expected a password that is not common or easily guessed" }],
          detail: "The password is common or easily guessed."
        })
      }
      const salt = yield* random.randomBytes(saltBytes)
      return written({ ...cost, salt, hash: yield* derive(password, salt, cost, hashBytes) })
    })

    const dummy: Stored = { ...cost, salt: new Uint8Array(saltBytes), hash: new Uint8Array(hashBytes) }
    const verify = Effect.fn("Passwords.verify")(function* (
      password: Redacted.Redacted,
      hash: string | null | undefined
    ) {
      const stored = hash == null ? dummy : read(hash)
      const derived = yield* derive(password, stored.salt, stored, stored.hash.length)
      return Mac.timingSafeEqual(stored.hash, derived) && hash != null
    })

    return {
      /** Hashes a new password, unless it is a common one; `about` is what is known of its owner, `member` its place in the payload. */
      hash,
      /** Whether a password is the one that was hashed; without a hash it does the same work and says no. */
      verify
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(
    Layer.provide(Layer.mergeAll(NodeCrypto.layerKdf, NodeCrypto.layerSecureRandom))
  )
}

interface Stored extends PasswordCost {
  readonly salt: Uint8Array
  readonly hash: Uint8Array
}

// One character may be typed as several code points, depending on the keyboard.
const normalized = (password: Redacted.Redacted): string => Redacted.value(password).normalize("NFKC")
const utf8 = (password: Redacted.Redacted): Uint8Array => new TextEncoder().encode(normalized(password))

const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString("base64").replaceAll("=", "")

const written = ({ hash, memory, parallelism, passes, salt }: Stored): string =>
  `$argon2id$v=19$m=${memory},t=${passes},p=${parallelism}$${base64(salt)}$${base64(hash)}`

const read = (text: string): Stored => {
  const parts = /^\$argon2id\$v=19\$m=(\d+),t=(\d+),p=(\d+)\$([A-Za-z0-9+/]+)\$([A-Za-z0-9+/]+)$/.exec(text)
  if (parts === null) throw new Error("A stored password has an unknown form")
  const [, memory, passes, parallelism, salt = "", hash = ""] = parts
  return {
    memory: Number(memory),
    passes: Number(passes),
    parallelism: Number(parallelism),
    salt: new Uint8Array(Buffer.from(salt, "base64")),
    hash: new Uint8Array(Buffer.from(hash, "base64"))
  }
}
