import { Context } from "effect"
import { type HttpApi, type HttpApiGroup } from "effect/http-api"

type AnyApi = HttpApi.HttpApi<string, HttpApiGroup.Top>

/** The API that the process serves; the composition provides it, so that nothing below names every group. */
export class ServedApi extends Context.Service<ServedApi, AnyApi>()("app/platform/ServedApi") {}

/** An API without the types of its groups, which only its callers need. */
export const untyped = (api: HttpApi.Constraint): AnyApi => api as AnyApi
