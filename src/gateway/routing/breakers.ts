import { Clock, Context, Duration, Effect, Exit, Layer, Option, type Scope } from "effect"
import { CircuitBreaker, Redis } from "effect/persistence"
import { SharedRedis } from "../../platform/redis/shared-redis.ts"
import { redisPrefix, Settings } from "../../platform/settings/settings.ts"
import { type BreakerState } from "../configuration/domain.ts"
import { type GatewaySnapshot } from "../configuration/gateway-snapshot.ts"
import { ProviderFailure } from "../providers/provider.ts"
import { breakerSeen } from "./routing-metrics.ts"

const longestOpen = "1 hour"
/** How long a breaker counts as closed after a successful call; another replica may have opened it meanwhile. */
const trustMillis = 1000

/** Whether a failure means that the provider is down; a rejected request or a rate limit does not. */
const speaksAgainst = ({ error, reason }: ProviderFailure): boolean =>
  reason === "connection" || reason === "timeout" || reason === "broken-off" || error.status >= 500

const classify = (exit: Exit.Exit<unknown, ProviderFailure>): CircuitBreaker.Outcome => {
  const failure = Exit.findErrorOption(exit)
  if (Option.isNone(failure)) return Exit.isSuccess(exit) ? CircuitBreaker.success : CircuitBreaker.ignored
  if (failure.value.reason === "busy" || failure.value.error.status === 429) return CircuitBreaker.ignored
  return speaksAgainst(failure.value) ? CircuitBreaker.failure() : CircuitBreaker.success
}

const cutOff = (error: CircuitBreaker.CircuitBreakerError): ProviderFailure =>
  new ProviderFailure({
    reason: "breaker-open",
    sent: false,
    error: { status: 503, message: "The provider failed too often lately.", code: "provider-unavailable" },
    retryAfterSeconds:
      error.reason._tag === "CircuitOpen" ? Math.ceil(Duration.toSeconds(error.reason.retryAfter)) : undefined
  })

const states = { Closed: "closed", Open: "open", HalfOpen: "half-open" } as const

const build = <R>(store: Layer.Layer<CircuitBreaker.CircuitBreakerStore, never, R>) =>
  Effect.map(Layer.build(store), (context) => Context.get(context, CircuitBreaker.CircuitBreakerStore))

const isAway = ({ reason }: CircuitBreaker.CircuitBreakerError) => reason._tag === "CircuitBreakerStoreError"

/** The generation of a call that this process admitted: those of Redis are never negative. Its own inverse. */
const ofOwn = (generation: number) => -1 - generation

/** The state in Redis, and in this process while Redis is away. What was admitted by the one is recorded by the same. */
const StoreLayer = Layer.effect(
  CircuitBreaker.CircuitBreakerStore,
  Effect.gen(function* () {
    const own = yield* build(CircuitBreaker.layerStoreMemory())
    const { redis } = yield* SharedRedis
    if (Option.isNone(redis)) return own
    const shared = yield* Effect.provideService(
      build(CircuitBreaker.layerStoreRedis({ prefix: redisPrefix(yield* Settings, "breaker") })),
      Redis.Redis,
      redis.value
    )
    const admitAlone = (key: string) =>
      Effect.map(own.admit(key), (admission) => ({ ...admission, generation: ofOwn(admission.generation) }))
    return CircuitBreaker.CircuitBreakerStore.of({
      admit: (key) => Effect.catchIf(shared.admit(key), isAway, () => admitAlone(key)),
      record: (outcome) =>
        outcome.generation < 0
          ? own.record({ ...outcome, generation: ofOwn(outcome.generation) })
          : Effect.catchIf(shared.record(outcome), isAway, () => Effect.undefined),
      state: (key) => Effect.catchIf(shared.state(key), isAway, () => own.state(key))
    })
  })
)

/** Keeps calls from providers that are down, per provider and model; replicas with Redis share the breakers' state. */
export class Breakers extends Context.Service<
  Breakers,
  {
    guard<A, R>(
      provider: string,
      model: string,
      routing: GatewaySnapshot["routing"],
      call: Effect.Effect<A, ProviderFailure, R>
    ): Effect.Effect<A, ProviderFailure, R>
    state(provider: string, model: string): Effect.Effect<BreakerState>
  }
>()("app/gateway/Breakers") {
  static readonly layerNoDeps = Layer.effect(
    Breakers,
    Effect.gen(function* () {
      const context = yield* Effect.context<CircuitBreaker.CircuitBreakerStore | Scope.Scope>()
      const store = yield* CircuitBreaker.CircuitBreakerStore
      const clock = yield* Clock.Clock
      const made = new Map<string, CircuitBreaker.CircuitBreaker>()
      /** The breakers that this replica last saw open or half open. */
      const troubled = new Set<string>()
      /** Until when breakers count as closed, without failures that a success would have to reset. */
      const trusted = new Map<string, number>()

      // A breaker holds only its policy, and the store holds its state; so a new configuration keeps the state.
      const breakerFor = Effect.fnUntraced(function* (failures: number, openSeconds: number) {
        const key = `${failures} ${openSeconds}`
        const known = made.get(key)
        if (known !== undefined) return known
        const breaker = yield* CircuitBreaker.make({
          tripPolicy: CircuitBreaker.consecutive(failures),
          openDuration: Duration.seconds(openSeconds),
          maxOpenDuration: longestOpen
        }).pipe(Effect.provideContext(context))
        made.set(key, breaker)
        return breaker
      })

      const state = (provider: string, model: string) =>
        store.state(`${provider}/${model}`).pipe(
          Effect.map(({ _tag }): BreakerState => states[_tag]),
          Effect.orElseSucceed((): BreakerState => "closed")
        )

      const look = (provider: string, model: string) =>
        Effect.map(state(provider, model), (seen) => {
          breakerSeen(provider, model, seen)
          if (seen === "closed") troubled.delete(`${provider}/${model}`)
          else troubled.add(`${provider}/${model}`)
        })

      const throughBreaker = <A, R>(
        provider: string,
        model: string,
        { breakerFailures, breakerOpenSeconds }: GatewaySnapshot["routing"],
        call: Effect.Effect<A, ProviderFailure, R>
      ): Effect.Effect<A, ProviderFailure, R> => {
        const key = `${provider}/${model}`
        return Effect.flatMap(breakerFor(breakerFailures, breakerOpenSeconds), (breaker) =>
          breaker.execute(call, { key, classify })
        ).pipe(
          Effect.catchTag("CircuitBreakerError", (error) => Effect.fail(cutOff(error))),
          // A breaker's state changes on a failure, or on the first success after it.
          Effect.onExit((exit) => {
            if (Exit.isFailure(exit)) return look(provider, model)
            trusted.set(key, clock.currentTimeMillisUnsafe() + trustMillis)
            return troubled.has(key) ? look(provider, model) : Effect.void
          })
        )
      }

      return Breakers.of({
        guard: (provider, model, routing, call) => {
          const key = `${provider}/${model}`
          if ((trusted.get(key) ?? 0) <= clock.currentTimeMillisUnsafe()) {
            return throughBreaker(provider, model, routing, call)
          }
          // A success after a success changes no state, so only a failure goes through the breaker.
          return Effect.catchCause(call, (cause) => {
            trusted.delete(key)
            return throughBreaker(provider, model, routing, Effect.failCause(cause))
          })
        },
        state
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(StoreLayer))
}
