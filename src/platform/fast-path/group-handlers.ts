import { Context, Effect, Layer, Record } from "effect"
import {
  HttpApi,
  HttpApiBuilder,
  type HttpApiEndpoint,
  type HttpApiGroup,
  type HttpApiMiddleware
} from "effect/http-api"
import { type groupHandlers, ServedApi } from "../http/served-api.ts"
import { responseWriter } from "./response-writer.ts"
import { installReader } from "./schema-reader.ts"

type Handle = (request: unknown) => Effect.Effect<unknown, unknown, unknown>
interface Handlers {
  readonly handlers: Map<string, { readonly endpoint: HttpApiEndpoint.Top; readonly handler: Handle }>
}
type Build = (handlers: unknown) => Effect.Effect<Handlers, unknown, unknown>
type Api = HttpApi.HttpApi<string, HttpApiGroup.Top>
type Buildable = { readonly build: Parameters<typeof Layer.fromBuild<never, unknown, unknown>>[0] }
type GroupLayer = (api: Api, name: string, build: Build) => Layer.Layer<never, unknown, unknown>

// The compiler cannot follow a function that is as generic as the one it wraps; both have the same signature outside.
const group = HttpApiBuilder.group as unknown as GroupLayer

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

/** Handlers with readers for their payloads and writers for their responses, where their schemas allow it. */
const withReadersAndWriters = (api: Api, built: Handlers): Handlers => {
  const options = Context.getOrUndefined(api.annotations, HttpApi.SuccessParseOptions)
  for (const [name, entry] of built.handlers) {
    for (const { schemas } of entry.endpoint.payload.values()) schemas.forEach(installReader)
    const toResponse = responseWriter(entry.endpoint, options)
    built.handlers.set(name, { ...entry, handler: (request) => Effect.map(entry.handler(request), toResponse) })
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
        Effect.map(Effect.provideContext(handle(handlers), services), (built) => withReadersAndWriters(api, built))
      )
      // Layer.buildWithMemoMap would put its own service into the context.
      const build = (layer as unknown as Buildable).build(memoMap, scope)
      return Effect.updateContext(build, () => Context.empty() as Context.Context<unknown>)
    })
  )

/**
 * {@link groupHandlers} for the hot groups: their handlers take their services while they are built, so that HttpApi has
 * no context to merge into that of each request, which took a twelfth of the time of a small answer.
 */
export const fastGroupHandlers = (({ identifier }: HttpApiGroup.Top, build: Build) =>
  Layer.unwrap(
    Effect.map(ServedApi, (api) => withoutContext(api, identifier, build))
  )) as unknown as typeof groupHandlers
