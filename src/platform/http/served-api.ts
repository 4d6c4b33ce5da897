import { Context, Effect, Layer, type Scope } from "effect"
import { type HttpApi, HttpApiBuilder, type HttpApiGroup } from "effect/http-api"
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

// The compiler cannot follow a group that is only known by its type.
const anyGroup = HttpApiBuilder.group as unknown as (
  api: AnyApi,
  name: string,
  build: unknown
) => Layer.Layer<never, unknown, unknown>

/** `HttpApiBuilder.group` for a group of the served API, which its handlers need not import. */
export const groupHandlers = (({ identifier }: HttpApiGroup.Top, build: unknown) =>
  Layer.unwrap(Effect.map(ServedApi, (api) => anyGroup(api, identifier, build)))) as unknown as GroupHandlers
