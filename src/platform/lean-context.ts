import { Context, Effect, Layer } from "effect"

/**
 * Builds handlers in a context of this application's services alone, without drivers, loggers and the like. HttpApi keeps
 * the context that a group was built in and merges it into every request's, at a cost in proportion to its size: for the
 * whole process' context as much as all the rest of a short request.
 */
export const lean = <A, E, R>(layer: Layer.Layer<A, E, R>): Layer.Layer<A, E, R> =>
  Layer.fromBuild((memoMap, scope) =>
    Effect.updateContext(Layer.buildWithMemoMap(layer, memoMap, scope), (context: Context.Context<R>) =>
      Context.makeUnsafe<R>(new Map([...context.mapUnsafe].filter(([key]) => key.startsWith("app/"))))
    )
  )
