import { Effect, Stream } from "effect"
import { CurrentPrincipal, RateLimited } from "../../kernel/authority/principal.ts"
import { CurrentRequest } from "./request.ts"

/** How many of a kind of stream may be open on a replica: by one principal, by all of one tenant, and in all. */
export interface PlaceLimits {
  readonly principal: number
  readonly tenant: number
  readonly replica: number
}

/** A place that is taken until the stream or the work ends that it holds, or until it is released. */
export interface Place {
  hold<A, E, R>(stream: Stream.Stream<A, E, R>): Stream.Stream<A, E, R>
  use<A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E, R>
  readonly release: Effect.Effect<void>
}

const noPlace: Place = { hold: (stream) => stream, use: (work) => work, release: Effect.void }

/** An answer whose stream was never read gives its place back after this time. */
const beginWithin = "30 seconds"

/**
 * The places of one kind of stream on this replica; no principal or tenant takes those of the others. The effect takes one for
 * the current principal, or fails with the limit that is reached; `what` names the streams in that message.
 */
export const makePlaces = (what: string, limits: PlaceLimits) =>
  Effect.map(Effect.scope, (scope) => {
    const open = new Map<string, number>()
    const add = (keys: Iterable<string>, by: 1 | -1) => {
      for (const key of keys) {
        const count = (open.get(key) ?? 0) + by
        if (count === 0) open.delete(key)
        else open.set(key, count)
      }
    }

    return Effect.gen(function* (): Effect.fn.Return<Place, RateLimited> {
      const { name, tenantId } = yield* CurrentPrincipal
      const places = new Map([
        [`principal ${name}`, { most: limits.principal, whose: "The caller has" }],
        ...(tenantId === undefined
          ? []
          : [[`tenant ${tenantId}`, { most: limits.tenant, whose: "The tenant has" }] as const]),
        ["replica", { most: limits.replica, whose: "The service has" }]
      ])
      for (const [key, { most, whose }] of places) {
        if ((open.get(key) ?? 0) < most) continue
        const detail = `${whose} ${most} open ${what}, the most that it may have; close one.`
        return yield* new RateLimited({ detail, retryAfterSeconds: 30 })
      }
      if ((yield* CurrentRequest)?.isHead === true) return noPlace
      add(places.keys(), 1)
      let isHeld = true
      let hasBegun = false
      const release = Effect.sync(() => {
        if (isHeld) add(places.keys(), -1)
        isHeld = false
      })
      yield* Effect.sleep(beginWithin).pipe(
        Effect.andThen(Effect.suspend(() => (hasBegun ? Effect.void : release))),
        Effect.forkIn(scope)
      )
      return {
        hold: (stream) =>
          Stream.suspend(() => {
            hasBegun = true
            return stream
          }).pipe(Stream.ensuring(release)),
        use: (work) =>
          Effect.suspend(() => {
            hasBegun = true
            return work
          }).pipe(Effect.ensuring(release)),
        release
      }
    })
  })
