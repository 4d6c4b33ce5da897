import { Context, Effect, Layer, Record, type Scope } from "effect"
import {
  type HttpApi,
  HttpApiBuilder,
  type HttpApiEndpoint,
  type HttpApiGroup,
  type HttpApiMiddleware
} from "effect/http-api"
import { type Validation } from "../../kernel/problems/validation.ts"

type AnyApi = HttpApi.HttpApi<string, HttpApiGroup.Top>

/** The API that the process serves; the composition provides it, so that nothing below names every group. */
export class ServedApi extends Context.Service<ServedApi, AnyApi>()("app/platform/ServedApi") {}

/** An API without the types of its groups, which only its callers need. */
export const untyped = (api: HttpApi.Constraint): AnyApi => api as AnyApi

type GroupHandlers = <Group extends HttpApiGroup.Constraint, Return>(
  group: Group,
  build: (
    handlers: HttpApiBuilder.Handlers.FromGroup<HttpApiGroup.AddMiddleware<Group, Validation>>
  ) => HttpApiBuilder.Handlers.ValidateReturn<Return>
) => Layer.Layer<
  HttpApiGroup.Service<"application-manager", HttpApiGroup.Identifier<Group>>,
  HttpApiBuilder.Handlers.Error<Return>,
  Exclude<HttpApiBuilder.Handlers.Context<Return>, Scope.Scope> | ServedApi
>

/** The handlers of a group, as its `build` returns them. */
export interface BuiltHandlers {
  readonly handlers: Map<
    string,
    {
      readonly endpoint: HttpApiEndpoint.Top
      readonly handler: (request: unknown) => Effect.Effect<unknown, unknown, unknown>
    }
  >
}
type Build = (handlers: unknown) => Effect.Effect<BuiltHandlers, unknown, unknown>

// The compiler cannot follow a group that is only known by its type.
const anyGroup = HttpApiBuilder.group as unknown as (
  api: AnyApi,
  name: string,
  build: Build
) => Layer.Layer<never, unknown, unknown>
type Buildable = { readonly build: Parameters<typeof Layer.fromBuild<never, unknown, unknown>>[0] }

/** The endpoint with middlewares that need no context: each is the default value of its own reference. */
const withOwnMiddlewares = (endpoint: HttpApiEndpoint.Top, services: Context.Context<unknown>): HttpApiEndpoint.Top => {
  const middlewares = [...endpoint.middlewares].map((key) =>
    Object.assign(
      Context.Reference(key.key, {
        defaultValue: () => Context.getUnsafe(services, key as unknown as Context.Key<never, unknown>)
      }),
      { error: (key as unknown as HttpApiMiddleware.AnyService).error }
    )
  )
  return Object.assign(endpoint.annotateMerge(Context.empty()), { middlewares: new Set(middlewares) })
}

const groupWithoutContext = (
  api: AnyApi,
  name: string,
  build: Build,
  finish: (api: AnyApi, built: BuiltHandlers) => BuiltHandlers
) =>
  Layer.fromBuild((memoMap, scope) =>
    Effect.contextWith((services: Context.Context<unknown>) => {
      const given = api.groups[name]
      if (given === undefined) return Effect.die(new Error(`The API has no group ${name}`))
      const endpoints = Record.map(given.endpoints as Record<string, HttpApiEndpoint.Top>, (endpoint) =>
        withOwnMiddlewares(endpoint, services)
      )
      const group = Object.assign(given.annotateMerge(Context.empty()), { endpoints })
      const ownApi = { ...api, annotations: api.annotations, groups: { [name]: group } } as unknown as AnyApi
      const layer = anyGroup(ownApi, name, (handlers) =>
        Effect.map(Effect.provideContext(build(handlers), services), (built) => finish(api, built))
      )
      // Layer.buildWithMemoMap would put its own service into the context.
      const made = (layer as unknown as Buildable).build(memoMap, scope)
      return Effect.updateContext(made, () => Context.empty() as Context.Context<unknown>)
    })
  )

/** {@link groupHandlers}, whose handlers are finished by a function. */
export const groupHandlersWith = (finish: (api: AnyApi, built: BuiltHandlers) => BuiltHandlers) =>
  (({ identifier }: HttpApiGroup.Top, build: Build) =>
    Layer.unwrap(
      Effect.map(ServedApi, (api) => groupWithoutContext(api, identifier, build, finish))
    )) as unknown as GroupHandlers

/**
 * `HttpApiBuilder.group` for a group of the served API, which its handlers need not import. Handlers take their services
 * while they are built, so that HttpApi has no context to merge into that of each request: that copied every service of the
 * process, which took a tenth of the time of a read by id. What a handler requires of its request is in the request's context.
 */
export const groupHandlers = groupHandlersWith((_, built) => built)
