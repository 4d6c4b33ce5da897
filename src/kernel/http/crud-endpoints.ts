import { type Context, type Schema } from "effect"
import { type HttpApiEndpoint } from "effect/http-api"
import { type RequiredCapability } from "../authority/access.ts"
import { endpoint } from "./endpoint.ts"
import { Created } from "./location.ts"
import { type Evaluation } from "./precondition.ts"

/** What the usual endpoints of a thing share. */
interface Usual<Id, View, NotFound> {
  readonly read: Context.Context<RequiredCapability>
  readonly write: Context.Context<RequiredCapability>
  readonly id: Id
  readonly view: View
  readonly notFound: NotFound
}

/** What one of them says of itself, with a summary where the usual one does not fit. */
interface Described {
  readonly summary?: string
  readonly description: string
}

/** One that may fail; `error` is what it may fail with beside that there is no such thing. */
interface Declared<Error> extends Described {
  readonly error?: ReadonlyArray<Error>
  readonly evaluation?: typeof Evaluation.Service
}

interface WithPayload<Payload, Error> extends Declared<Error> {
  readonly payload: Payload
}

/** The usual endpoints of a thing such as `"a role"`; whatever is not as usual is declared with `endpoint`. */
export const crudEndpoints = <Id extends Schema.Top, View extends Schema.Top, NotFound extends Schema.Top>(
  thing: string,
  { id, notFound, read, view, write }: Usual<Id, View, NotFound>
) => {
  const params = { id }
  return {
    list: <
      const Query extends Schema.Top | Schema.Struct.Fields,
      const Success extends HttpApiEndpoint.SuccessConstraint
    >(
      declared: Described & { readonly query: Query; readonly success: Success }
    ) => endpoint.get("list", "/", { summary: `List ${thing.replace(/^an? /, "")}s`, ...declared, access: read }),
    get: (declared: Described) =>
      endpoint.get("get", "/:id", {
        summary: `Get ${thing}`,
        ...declared,
        access: read,
        params,
        success: view,
        error: notFound
      }),
    create: <Payload extends HttpApiEndpoint.PayloadConstraintCodecs<"POST">, Error extends Schema.Top = never>({
      error = [],
      ...declared
    }: WithPayload<Payload, Error>) =>
      endpoint.post("create", "/", {
        summary: `Create ${thing}`,
        ...declared,
        access: write,
        success: Created(view),
        error
      }),
    update: <Payload extends HttpApiEndpoint.PayloadConstraintCodecs<"PATCH">, Error extends Schema.Top = never>({
      error = [],
      ...declared
    }: WithPayload<Payload, Error>) =>
      endpoint.patch("update", "/:id", {
        summary: `Change ${thing}`,
        ...declared,
        access: write,
        params,
        success: view,
        error: [notFound, ...error]
      }),
    delete: <Error extends Schema.Top = never>({ error = [], ...declared }: Declared<Error>) =>
      endpoint.delete("delete", "/:id", {
        summary: `Delete ${thing}`,
        ...declared,
        access: write,
        params,
        error: [notFound, ...error]
      })
  }
}
