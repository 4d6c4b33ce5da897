import { Context, DateTime, Effect, Layer, Redacted } from "effect"
import { Digest, SecureRandom } from "effect/crypto"
import { generate, sha256Of } from "../../platform/crypto/opaque-tokens.ts"
import { Settings } from "../../platform/settings/settings.ts"

/** The pages of the console that links lead to, by what their tokens begin with. */
const pages = { amc: "claim", amv: "invitation" } as const

/** Links that a person opens in the console, each good for one use; their tokens are stored as a SHA-256. */
export class OneTimeLinks extends Context.Service<OneTimeLinks>()("app/people/OneTimeLinks", {
  make: Effect.gen(function* () {
    const digest = yield* Digest.Digest
    const random = yield* SecureRandom.SecureRandom
    const { api } = yield* Settings
    return {
      make: Effect.fn("OneTimeLinks.make")(function* (kind: keyof typeof pages, ttlSeconds: number) {
        const token = yield* generate(random, kind)
        const page = pages[kind]
        return {
          sha256: yield* sha256Of(digest, token),
          expiresAt: DateTime.add(yield* DateTime.now, { seconds: ttlSeconds }),
          // Behind the #, which no browser sends and no proxy writes down.
          link: Redacted.make(`${api.publicUrl}/console/${page}#${Redacted.value(token)}`, { label: `${page}-link` })
        }
      })
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
