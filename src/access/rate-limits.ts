import { Cause, Clock, Context, Duration, Effect, Layer, Option } from "effect"
import { RateLimiter, Redis } from "effect/persistence"
import { RateLimited } from "../kernel/authority/principal.ts"
import { CurrentRequest } from "../platform/http/request.ts"
import { SharedRedis } from "../platform/redis/shared-redis.ts"
import { redisPrefix, Settings } from "../platform/settings/settings.ts"

/** What this replica knows of a principal's rate. */
interface Rate {
  /** Takes one request of it. */
  readonly take: Effect.Effect<void, RateLimited>
  /** When it has requests left again; in epoch milliseconds. */
  usedUpUntil: number
  /** How many requests were served since it was used up, and refused in the end. */
  refused: number
}

/** Shows a request what its limit leaves. */
const show = (limit: number, remaining: number, resetSeconds: number) =>
  Effect.map(CurrentRequest, (request) => {
    if (request === undefined) return
    request.rateLimit = { limit, remaining, resetSeconds }
    request.isCounted = true
  })

const refuse = (limit: number, millis: number) => {
  const retryAfterSeconds = Math.max(1, Math.ceil(millis / 1000))
  return Effect.andThen(show(limit, 0, retryAfterSeconds), Effect.fail(new RateLimited({ retryAfterSeconds })))
}

/** Counts in Redis, and in this process while Redis is away: a limit then holds for each replica. */
const StoreLayer = Layer.effect(
  RateLimiter.RateLimiterStore,
  Effect.gen(function* () {
    const own = Context.get(yield* Layer.build(RateLimiter.layerStoreMemory), RateLimiter.RateLimiterStore)
    const { redis } = yield* SharedRedis
    if (Option.isNone(redis)) return own
    const shared = yield* Effect.provideService(
      RateLimiter.makeStoreRedis({ prefix: redisPrefix(yield* Settings, "rate-limit") }),
      Redis.Redis,
      redis.value
    )
    return RateLimiter.RateLimiterStore.of({
      fixedWindow: (use) => Effect.catch(shared.fixedWindow(use), () => own.fixedWindow(use)),
      tokenBucket: (use) => Effect.catch(shared.tokenBucket(use), () => own.tokenBucket(use)),
      adaptiveConsume: (use) => Effect.catch(shared.adaptiveConsume(use), () => own.adaptiveConsume(use)),
      adaptiveFeedback: (use) => Effect.catch(shared.adaptiveFeedback(use), () => own.adaptiveFeedback(use))
    })
  })
)

/** How many requests a minute a principal, or a network without one, is granted. */
export class RateLimits extends Context.Service<
  RateLimits,
  {
    /** Counts the current request against a principal. */
    principal(name: string): Effect.Effect<void, RateLimited>
    /** Whether a principal has requests left, as far as this replica knows; counts nothing. */
    hasLeft(name: string): Effect.Effect<boolean>
    /** Fails where a principal has no requests left, before work that precedes a reservation; counts nothing. */
    requireLeft(name: string): Effect.Effect<void, RateLimited>
    /**
     * Serves a request that is to reserve budget, which caps limit. It counts against the principal if it ends without a
     * reservation, and is refused in the end where none is left; after a minute's number of such refusals, at once.
     */
    unlessReserved<A, E, R>(name: string, served: Effect.Effect<A, E, R>): Effect.Effect<A, E | RateLimited, R>
    /** Counts the current request against its network: an IPv4 address, or an IPv6 /64. */
    readonly anonymous: Effect.Effect<void, RateLimited>
  }
>()("app/access/RateLimits") {
  static readonly layerNoDeps = Layer.effect(
    RateLimits,
    Effect.gen(function* () {
      const clock = yield* Clock.Clock
      const limiter = yield* RateLimiter.RateLimiter
      const { rateLimit } = (yield* Settings).api
      if (!rateLimit.enabled) {
        return RateLimits.of({
          principal: () => Effect.void,
          hasLeft: () => Effect.succeed(true),
          requireLeft: () => Effect.void,
          unlessReserved: (_, served) => served,
          anonymous: Effect.void
        })
      }

      /** Takes one of `limit`; `onLast` gets the milliseconds until there are more. */
      const consume = (key: string, limit: number, onLast: (millis: number) => void = () => {}) =>
        limiter.consume({ key, limit, window: Duration.minutes(1) }).pipe(
          Effect.flatMap(({ remaining, resetAfter }) => {
            if (remaining === 0) onLast(Duration.toMillis(resetAfter))
            return show(limit, remaining, Math.ceil(Duration.toSeconds(resetAfter)))
          }),
          Effect.catchReason(
            "RateLimiterError",
            "RateLimitExceeded",
            ({ retryAfter }) => {
              onLast(Duration.toMillis(retryAfter))
              return refuse(limit, Duration.toMillis(retryAfter))
            },
            (_, error) => Effect.die(error)
          )
        )

      const rates = new Map<string, Rate>()
      const rateOf = (name: string): Rate => {
        let rate = rates.get(name)
        if (rate === undefined) {
          if (rates.size === 10_000) rates.clear()
          const made: Rate = {
            // What consumes for a principal is the same for each of its requests, so it is made once for many.
            take: consume(`principal:${name}`, rateLimit.perMinute, (millis) => {
              if (untilLeft(made) === 0) made.refused = 0
              made.usedUpUntil = clock.currentTimeMillisUnsafe() + millis
            }),
            usedUpUntil: 0,
            refused: 0
          }
          rates.set(name, (rate = made))
        }
        return rate
      }
      /** For how many milliseconds a principal has no requests left. */
      const untilLeft = ({ usedUpUntil }: Rate) => Math.max(0, usedUpUntil - clock.currentTimeMillisUnsafe())

      const unlessReserved = <A, E, R>(
        name: string,
        served: Effect.Effect<A, E, R>
      ): Effect.Effect<A, E | RateLimited, R> =>
        Effect.withFiber((fiber) => {
          const request = Context.get(fiber.context, CurrentRequest)
          const rate = rateOf(name)
          const millis = untilLeft(rate)
          if (rate.refused >= rateLimit.perMinute && millis > 0) return refuse(rateLimit.perMinute, millis)
          const settle = Effect.suspend(() =>
            request?.isCounted === true
              ? Effect.void
              : Effect.tapError(rate.take, () => Effect.sync(() => void (rate.refused += 1)))
          )
          return Effect.matchCauseEffect(served, {
            onSuccess: (value) => (request?.isCounted === true ? Effect.succeed(value) : Effect.as(settle, value)),
            onFailure: (cause) =>
              Cause.hasInterrupts(cause) ? Effect.failCause(cause) : Effect.andThen(settle, Effect.failCause(cause))
          }).pipe(Effect.onInterrupt(() => Effect.asVoid(Effect.forkDetach(Effect.ignore(settle)))))
        })

      return RateLimits.of({
        principal: (name) => rateOf(name).take,
        hasLeft: (name) => Effect.sync(() => untilLeft(rateOf(name)) === 0),
        requireLeft: (name) =>
          Effect.suspend(() => {
            const millis = untilLeft(rateOf(name))
            return millis === 0 ? Effect.void : refuse(rateLimit.perMinute, millis)
          }),
        unlessReserved,
        anonymous: Effect.flatMap(CurrentRequest, (request) =>
          consume(`network:${request?.network ?? "unknown"}`, rateLimit.anonymousPerMinute)
        )
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(RateLimiter.layer), Layer.provide(StoreLayer))
}
