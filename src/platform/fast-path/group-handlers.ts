import { Context, Effect, Layer, Record, type Scope } from "effect"
import {
  HttpApi,
  HttpApiBuilder,
  type HttpApiEndpoint,
  type HttpApiGroup,
  type HttpApiMiddleware
} from "effect/http-api"
import { type Validation } from "../../kernel/validation.ts"
import { ServedApi } from "../http/served-api.ts"
import { answering } from "./answers.ts"
import { readDirectly } from "./direct-schema.ts"

type Handle = (request: unknown) => Effect.Effect<unknown, unknown, unknown>
interface Handlers {
  readonly handlers: Map<string, { readonly endpoint: HttpApiEndpoint.Top; readonly handler: Handle }>
}
type Build = (handlers: unknown) => Effect.Effect<Handlers, unknown, unknown>
type Api = HttpApi.HttpApi<string, HttpApiGroup.Top>
type Buildable = { readonly build: Parameters<typeof Layer.fromBuild<never, unknown, unknown>>[0] }
type GroupLayer = (api: Api, name: string, build: Build) => Layer.Layer<never, unknown, unknown>

// The compiler cannot follow a function that is as generic as the one it wraps; outside both have the same signature.
const group = HttpApiBuilder.group as unknown as GroupLayer

/** The endpoint with middlewares that are found without a context: each is the default value of its own reference. */
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

/** Handlers whose payloads are read, and whose answers are made, as directly as their schemas allow. */
const direct = (api: Api, built: Handlers): Handlers => {
  const options = Context.getOrUndefined(api.annotations, HttpApi.SuccessParseOptions)
  for (const [name, entry] of built.handlers) {
    for (const { schemas } of entry.endpoint.payload.values()) schemas.forEach(readDirectly)
    const answer = answering(entry.endpoint, options)
    built.handlers.set(name, { ...entry, handler: (request) => Effect.map(entry.handler(request), answer) })
  }
  return built
}

const withoutContext: GroupLayer = (api, name, handle) =>
  Layer.fromBuild((memoMap, scope) =>
    Effect.contextWith((services: Context.Context<unknown>) => {
      const given = api.groups[name]
      if (given === undefined) return Effect.die(new Error(`The API has no group ${name}`))
      const endpoints = Record.map(given.endpoints as Record<string, HttpApiEndpoint.Top>, (endpoint) =>
        withOwnMiddlewares(endpoint, services)
      )
      const own = Object.assign(given.annotateMerge(Context.empty()), { endpoints })
      const ownApi = { ...api, annotations: api.annotations, groups: { [name]: own } } as unknown as Api
      const layer = group(ownApi, name, (handlers) =>
        Effect.map(Effect.provideContext(handle(handlers), services), (built) => direct(api, built))
      )
      // Layer.buildWithMemoMap would put its own service into the context.
      const build = (layer as unknown as Buildable).build(memoMap, scope)
      return Effect.updateContext(build, () => Context.empty() as Context.Context<unknown>)
    })
  )

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

const ofServedApi = ({ identifier }: HttpApiGroup.Top, build: Build) =>
  Layer.unwrap(Effect.map(ServedApi, (api) => withoutContext(api, identifier, build)))

/**
 * `HttpApiBuilder.group` for handlers that take their services while they are built. HttpApi copies the context of a
 * request to merge that of this build into it, unless that is empty, as it is here: a twelfth of the time of a small answer.
 */
export const groupHandlers = ofServedApi as unknown as GroupHandlers
