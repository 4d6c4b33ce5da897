import { Clock, Data, Deferred, Effect, Exit, type Redacted, type Scope } from "effect"
import { type CredentialState } from "../providers/credential.ts"

/** A credential that ends, as it was obtained. */
export interface Obtained<A> {
  readonly value: A
  /** For how long it is valid from now on, by the clock of its issuer. */
  readonly lifetimeMillis: number
}

export type Token = Obtained<Redacted.Redacted>

/** Why there is no credential, in words for operators; they have nothing secret. */
export class CredentialUnavailable extends Data.TaggedError("CredentialUnavailable")<{ readonly detail: string }> {
  override get message() {
    return this.detail
  }
}

/** Credentials of one configured identity, obtained as they are needed. */
export interface TokenSource<A> {
  /** One that is valid now. */
  readonly get: Effect.Effect<A, CredentialUnavailable>
  /** Gives one up that was refused; answers whether another may be had, which a new one's refusal does not help. */
  giveUp(isIt: (value: A) => boolean): Effect.Effect<boolean>
  /** The one that is held now. */
  readonly held: () => A | undefined
  readonly state: () => CredentialState
}

const longestMarginMillis = 300_000
/** One that was refused so soon after it was issued is refused for another reason than its age. */
const youngMillis = 5000
const firstPauseMillis = 1000
const longestPauseMillis = 30_000

/**
 * Obtains credentials with `obtain` and reports each outcome to `changed`: once for all who wait, again in the background
 * from a fifth of the lifetime, and five minutes at most, before the end. The last one serves until its own end whatever happens to the next. After a failure
 * callers fail at once until the next attempt, 1 to 30 s later, so that a service that is down is not flooded.
 */
export const makeTokenSource = Effect.fnUntraced(function* <A>(
  obtain: Effect.Effect<Obtained<A>, CredentialUnavailable>,
  changed: (state: CredentialState) => void = () => {}
): Effect.fn.Return<TokenSource<A>, never, Scope.Scope> {
  const clock = yield* Clock.Clock
  const scope = yield* Effect.scope
  type Held = { readonly value: A; readonly obtainedAt: number; readonly renewAt: number; readonly expiresAt: number }
  let held: Held | undefined
  let obtainedAt: number | undefined
  let flight: Deferred.Deferred<A, CredentialUnavailable> | undefined
  let failures = 0
  let failed: { readonly why: CredentialUnavailable; readonly until: number } | undefined

  const state = (): CredentialState => ({
    obtainedAt,
    expiresAt: held?.expiresAt,
    failures,
    lastError: failed?.why.detail
  })

  const settle = (exit: Exit.Exit<Obtained<A>, CredentialUnavailable>) => {
    const now = clock.currentTimeMillisUnsafe()
    flight = undefined
    if (Exit.isSuccess(exit)) {
      const { lifetimeMillis, value } = exit.value
      const margin = Math.min(lifetimeMillis / 5, longestMarginMillis)
      held = { value, obtainedAt: now, renewAt: now + lifetimeMillis - margin, expiresAt: now + lifetimeMillis }
      obtainedAt = now
      failures = 0
      failed = undefined
      return Exit.succeed(value)
    }
    const why = Exit.findErrorOption(exit)
    const known = why._tag === "Some" ? why.value : new CredentialUnavailable({ detail: "It could not be obtained" })
    failures += 1
    failed = { why: known, until: now + Math.min(longestPauseMillis, firstPauseMillis * 2 ** (failures - 1)) }
    return Exit.fail(known)
  }

  const fly = Effect.suspend(() => {
    if (flight !== undefined) return Effect.succeed(flight)
    const made = Deferred.makeUnsafe<A, CredentialUnavailable>()
    flight = made
    return obtain.pipe(
      // Also where it is interrupted, so that no caller waits for what does not come.
      Effect.onExit((exit) => {
        const settled = settle(exit)
        changed(state())
        return Deferred.done(made, settled)
      }),
      Effect.exit,
      Effect.forkIn(scope),
      Effect.as(made)
    )
  })

  const get = Effect.suspend(() => {
    const now = clock.currentTimeMillisUnsafe()
    const mayTry = flight !== undefined || failed === undefined || now >= failed.until
    if (held !== undefined && now < held.expiresAt) {
      const { renewAt, value } = held
      return now >= renewAt && flight === undefined && mayTry ? Effect.as(fly, value) : Effect.succeed(value)
    }
    return mayTry || failed === undefined ? Effect.flatMap(fly, Deferred.await) : Effect.fail(failed.why)
  })

  return {
    get,
    giveUp: (isIt) =>
      Effect.sync(() => {
        // Another caller may have been first, and have a new one already.
        if (held === undefined || !isIt(held.value)) return true
        if (clock.currentTimeMillisUnsafe() - held.obtainedAt < youngMillis) return false
        held = undefined
        return true
      }),
    held: () => held?.value,
    state
  }
})
