import {
  Cause,
  Context,
  Deferred,
  Duration,
  Effect,
  Exit,
  Layer,
  Metric,
  Option,
  Predicate,
  Redacted,
  References,
  Scope
} from "effect"
import { RateLimiter, Redis } from "effect/persistence"
import { Settings } from "../settings/settings.ts"

/** How long a request waits for Redis at most. */
const patience = "50 millis"
const pause = "2 seconds"
const probeEvery = "1 second"
const probePatience = "500 millis"
const connectTimeoutMillis = 2000

const registry = Context.empty()
const failures = Metric.counter("app.redis.failures", {
  description:
    "Times that Redis could not be used any more, from when on limits and breakers were kept by this replica alone",
  attributes: { unit: "{failure}" },
  incremental: true
})
const connectedGauge = Metric.gauge("app.redis.connected", {
  description: "Whether limits and breakers are shared over Redis: 1, or 0 while it is away"
})

/** What Redis is to the service now. */
export type RedisState = "unused" | "connected" | "away"

interface Connection {
  readonly redis: Redis.Redis["Service"]
  /** Completed with the reason once the connection cannot be used. */
  readonly lost: Deferred.Deferred<string>
}

/**
 * Redis, in which replicas share what they may also keep for themselves. Commands fail at once while it is away and after
 * {@link patience} else, and then none is sent before it has answered a probe in the background.
 */
export class SharedRedis extends Context.Service<
  SharedRedis,
  {
    readonly state: () => RedisState
    /** None without `Redis:Url`. Runs scripts only. */
    readonly redis: Option.Option<Redis.Redis["Service"]>
  }
>()("app/platform/SharedRedis") {
  static readonly layer = Layer.effect(
    SharedRedis,
    Effect.gen(function* () {
      const { url } = (yield* Settings).redis
      if (Option.isNone(url)) return SharedRedis.of({ state: () => "unused", redis: Option.none() })
      // Loaded by those who use it only.
      const NodeRedis = yield* Effect.promise(() => import("@effect/platform-node/NodeRedis"))
      const options = {
        url: Redacted.value(url.value),
        disableOfflineQueue: true,
        // An idle connection has a probe each second, so one without an answer for so long is dead.
        socket: { connectTimeout: connectTimeoutMillis, socketTimeout: connectTimeoutMillis, reconnectStrategy: false }
      } as const

      let connection: Connection | undefined
      let isAway = false
      const tried = yield* Deferred.make<void>()

      const report = (isConnected: boolean, message: string) =>
        Effect.suspend(() => {
          connectedGauge.updateUnsafe(isConnected ? 1 : 0, registry)
          const isNews = isAway === isConnected
          isAway = !isConnected
          if (!isNews) return Effect.void
          if (isConnected) return Effect.logInfo(message)
          failures.updateUnsafe(1, registry)
          return Effect.logWarning(message)
        })

      const lose = (from: Connection, reason: string) =>
        Effect.suspend(() => {
          if (connection === from) connection = undefined
          return Deferred.succeed(from.lost, reason)
        })

      const connected = Effect.gen(function* () {
        // What the client logs by itself, this service logs once.
        const context = yield* Layer.build(NodeRedis.layer(options)).pipe(
          Effect.provideService(References.MinimumLogLevel, "None"),
          Effect.timeout(connectTimeoutMillis)
        )
        const own: Connection = { redis: Context.get(context, Redis.Redis), lost: yield* Deferred.make<string>() }
        const { client } = Context.get(context, NodeRedis.NodeRedis)
        // Closing waits for the answers to what was sent.
        yield* Effect.addFinalizer(() => Effect.sync(() => client.destroy()))
        client.on("error", (error: unknown) => Effect.runSync(lose(own, reasonOf(error))))
        // It has to write, as a limit does: one that is full or a replica answers a ping.
        const { fixedWindow } = yield* RateLimiter.makeStoreRedis().pipe(Effect.provideService(Redis.Redis, own.redis))
        const write = fixedWindow({ key: "probe", tokens: 1, refillRate: Duration.seconds(1), limit: undefined })
        // The first loads the script.
        yield* Effect.timeout(write, connectTimeoutMillis)
        yield* within(write)
        connection = own
        yield* report(true, "Redis is used again; replicas share rate limits and breakers")
        yield* Deferred.succeed(tried, undefined)
        const probing = Effect.andThen(Effect.sleep(probeEvery), Effect.timeout(write, probePatience)).pipe(
          Effect.forever,
          Effect.onError((cause) => lose(own, reasonOf(Cause.squash(cause))))
        )
        return yield* Effect.raceFirst(Deferred.await(own.lost), probing)
      })

      const attempt = connected.pipe(
        Effect.catchCause((cause) => Effect.succeed(reasonOf(Cause.squash(cause)))),
        Effect.flatMap((reason) =>
          report(
            false,
            `Redis (Redis:Url) cannot be used: ${reason}. Each replica keeps rate limits and breakers for itself until it can.`
          )
        ),
        Effect.andThen(Deferred.succeed(tried, undefined))
      )
      yield* Effect.acquireUseRelease(Scope.make(), (scope) => Scope.provide(attempt, scope), closeLater).pipe(
        Effect.andThen(Effect.sleep(pause)),
        Effect.forever,
        Effect.forkScoped
      )
      // A start waits for the first attempt, so that its first requests are limited together with those of other replicas.
      yield* Deferred.await(tried)

      const run = <A>(use: (redis: Redis.Redis["Service"]) => Effect.Effect<A, Redis.RedisError>) =>
        Effect.suspend(() => {
          const own = connection
          if (own === undefined) return Effect.fail(new Redis.RedisError({ cause: new Error("Redis is away") }))
          return Effect.tapError(within(use(own.redis)), (error) => lose(own, reasonOf(error)))
        })
      const unsupported = Effect.die(new Error("Redis is used for scripts only"))
      return SharedRedis.of({
        state: () => (isAway ? "away" : "connected"),
        redis: Option.some({
          send: (command, ...words) => run((redis) => redis.send(command, ...words)),
          eval:
            (script) =>
            (...parameters) =>
              run((redis) => redis.eval(script)(...parameters)),
          subscribe: () => unsupported,
          reserve: unsupported
        })
      })
    })
  )
}

/** A server that does not answer keeps a connection from being closed in time. */
const closeLater = (scope: Scope.Closeable) => Effect.asVoid(Effect.forkDetach(Scope.close(scope, Exit.void)))

/** An effect, or its failure once requests do not wait for it any longer. */
const within = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E | Redis.RedisError, R> =>
  Effect.interruptible(
    Effect.raceFirst(
      effect,
      // An answer that arrived while this process was busy is read before the time is up.
      Effect.andThen(
        Effect.andThen(Effect.sleep(patience), nextTurn),
        Effect.fail(new Redis.RedisError({ cause: new Error(`no answer within ${patience}`) }))
      )
    )
  )

const nextTurn = Effect.callback<void>((resume) => void setImmediate(() => resume(Effect.void)))

/** The message of the innermost cause of an error. */
const reasonOf = (error: unknown): string => {
  for (const member of ["reason", "cause"] as const) {
    if (Predicate.hasProperty(error, member) && Predicate.isObject(error[member])) return reasonOf(error[member])
  }
  if (!(error instanceof Error)) return String(error)
  if (Cause.isTimeoutError(error)) return "no answer"
  return error.message === "" && Predicate.hasProperty(error, "code") ? String(error.code) : error.message
}
