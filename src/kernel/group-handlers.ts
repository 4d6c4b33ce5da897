import { Context, Effect, Layer } from "effect"
import { type HttpApi, HttpApiBuilder, type HttpApiEndpoint, type HttpApiGroup } from "effect/http-api"

type Build = (handlers: unknown) => Effect.Effect<unknown, unknown, unknown>
type Group = (
  api: HttpApi.HttpApi<string, HttpApiGroup.Top>,
  name: string,
  build: Build
) => Layer.Layer<never, unknown, unknown>

// The compiler cannot follow a function that is as generic as the one it wraps; outside both have the same signature.
const group = HttpApiBuilder.group as unknown as Group

const withMiddlewares: Group = (api, name, build) => {
  const endpoints: Readonly<Record<string, HttpApiEndpoint.Top>> = api.groups[name]?.endpoints ?? {}
  const middlewares = new Set(
    Object.values(endpoints).flatMap((endpoint) => [...endpoint.middlewares].map(({ key }) => key))
  )
  const withoutServices = (context: Context.Context<unknown>) =>
    Context.makeUnsafe<unknown>(new Map([...context.mapUnsafe].filter(([key]) => middlewares.has(key))))

  return Layer.fromBuild((memoMap, scope) =>
    Effect.contextWith((services: Context.Context<unknown>) =>
      Layer.buildWithMemoMap(
        group(api, name, (handlers) => Effect.provideContext(build(handlers), services)),
        memoMap,
        scope
      ).pipe(Effect.updateContext(withoutServices))
    )
  )
}

/**
 * `HttpApiBuilder.group` for handlers that take their services while they are built. HttpApi merges the context of that
 * build into the context of every request, which costs in proportion to the services of the whole application; here only
 * the middlewares of the group go along.
 */
export const groupHandlers = withMiddlewares as unknown as typeof HttpApiBuilder.group
