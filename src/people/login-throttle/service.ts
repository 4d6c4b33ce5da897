import { Context, DateTime, Effect, Layer } from "effect"
import { Digest } from "effect/crypto"
import { type Change } from "../../audit/log/domain.ts"
import { RateLimited } from "../../kernel/authority/principal.ts"
import { emailKey } from "../../kernel/email.ts"
import { Database } from "../../platform/database/database.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { type Failures, LoginThrottleRepository } from "./repository.ts"

/** A try to sign in, as it is counted. */
export interface LoginAttempt {
  /** Seconds to wait before the password is looked at, since the account has failed often from elsewhere. */
  readonly pauseSeconds: number
  /** Takes the count back, in the change of the sign-in that succeeded. */
  readonly succeeded: Effect.Effect<void, never, Change>
}

/**
 * Slows guessing: by account and address together, by address alone, and a little by account alone; whether the account
 * exists makes no difference. Each attempt counts as failed before it is judged, so that many at once are no way around.
 */
export class LoginThrottle extends Context.Service<LoginThrottle>()("app/people/LoginThrottle", {
  make: Effect.gen(function* () {
    const database = yield* Database
    const digest = yield* Digest.Digest
    const repository = yield* LoginThrottleRepository

    yield* DateTime.now.pipe(
      Effect.flatMap((now) =>
        repository.purge(DateTime.subtract(now, { seconds: maxSeconds + forgottenAfterSeconds }))
      ),
      (purge) => repeatJob("forget failed sign-ins", "10 minutes", purge)
    )

    const keyOf = (kind: string, ...parts: ReadonlyArray<string>) =>
      Effect.map(
        Effect.orDie(digest.digestHex(Digest.sha256, new TextEncoder().encode(parts.join("\n")))),
        (hex) => `${kind}:${hex}`
      )

    const begin = Effect.fn("LoginThrottle.begin")(function* (email: string, address: string) {
      const now = yield* DateTime.now
      const name = emailKey(email)
      const account = yield* keyOf("account", name)
      const pair = yield* keyOf("account-address", name, address)
      const from = yield* keyOf("address", address)

      const counted = Effect.gen(function* () {
        const rows = yield* repository.lock([account, pair, from], now)
        const blocked = rows.filter((row) => row.key !== account && DateTime.isGreaterThan(row.blockedUntil, now))
        if (blocked.length > 0) {
          const until = Math.max(...blocked.map((row) => row.blockedUntil.epochMilliseconds))
          const retryAfterSeconds = Math.ceil((until - now.epochMilliseconds) / 1000)
          return yield* new RateLimited({
            retryAfterSeconds,
            detail: "Too many sign-ins have failed; try again after the seconds in Retry-After."
          })
        }
        yield* repository.store(
          rows.map((row) => failedOnce(row, now, row.key === account ? maxSecondsOfAccount : maxSeconds))
        )
        const before = rows.find((row) => row.key === account)
        return before === undefined ? 0 : delaySeconds(remembered(before, now), maxSecondsOfAccount)
      })
      const pauseSeconds = yield* database.transaction("all", counted)
      return {
        pauseSeconds,
        succeeded: Effect.flatMap(DateTime.now, (at) =>
          Effect.andThen(repository.forget([account, pair]), repository.forgive(from, at))
        )
      }
    })

    return { begin }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(LoginThrottleRepository.layer))
}

/** Waits as long as a try has to before its password is looked at. */
export const pause = ({ pauseSeconds }: LoginAttempt): Effect.Effect<void> =>
  pauseSeconds > 0 ? Effect.sleep(pauseSeconds * 1000) : Effect.void

/** The failures that still count. */
const remembered = (row: Failures, now: DateTime.Utc): number => {
  const quietSince = DateTime.max(row.lastFailedAt, row.blockedUntil)
  const forgotten = DateTime.add(quietSince, { seconds: forgottenAfterSeconds })
  return DateTime.isLessThan(forgotten, now) ? 0 : row.failures
}

const failedOnce = (row: Failures, now: DateTime.Utc, most: number): Failures => {
  const failures = remembered(row, now) + 1
  return {
    key: row.key,
    failures,
    lastFailedAt: now,
    blockedUntil: DateTime.add(now, { seconds: delaySeconds(failures, most) })
  }
}

/** Failures that cost nothing, since people mistype. */
const free = 5
/** The longest wait of an address, alone or with an account. */
export const maxSeconds = 900
/** The longest wait per account alone, so that a stranger cannot lock an account out. */
export const maxSecondsOfAccount = 5
/** What has been quiet for so long is forgotten. */
export const forgottenAfterSeconds = 900

/** Seconds to wait after so many failures: nothing before the fifth, then 1, doubling up to `most`. */
export const delaySeconds = (failures: number, most: number): number =>
  failures < free ? 0 : Math.min(most, 2 ** Math.min(failures - free, 30))
