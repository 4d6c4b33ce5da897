import { Context, Effect, References } from "effect"

/**
 * A function as it is, each call in a span of that name. `Effect.fn` also makes an `Error` at every call to show where it
 * came from, which took a tenth of the time of a read by id; a function that only passes a call on needs no such place. Where
 * nothing is traced, there is no span to make either.
 */
export const withSpan =
  <Arguments extends ReadonlyArray<unknown>, A, E, R>(
    name: string,
    call: (...values: Arguments) => Effect.Effect<A, E, R>
  ) =>
  (...values: Arguments): Effect.Effect<A, E, R> =>
    Effect.withFiber((fiber) =>
      Context.get(fiber.context, References.TracerEnabled)
        ? Effect.withSpan(call(...values), name, { captureStackTrace: false })
        : call(...values)
    )
