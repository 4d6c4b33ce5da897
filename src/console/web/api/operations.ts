// Whole imports of types leave nothing behind in the bundle, which would otherwise load the server.
import type { HttpApi, HttpApiEndpoint, HttpApiGroup, HttpApiSchema } from "effect/http-api"
import type { Api } from "../../../api.ts"

type Groups = typeof Api extends HttpApi.HttpApi<string, infer All> ? All : never
type ByName = {
  [Group in Groups as Group["identifier"]]: {
    [Endpoint in HttpApiGroup.Endpoints<Group> as HttpApiEndpoint.Identifier<Endpoint>]: Endpoint
  }
}

/** An operation of the API, by its group and name: `apiKeys.list`. */
export type Operation = {
  [Group in keyof ByName & string]: `${Group}.${keyof ByName[Group] & string}`
}[keyof ByName & string]

type EndpointOf<Name extends Operation> = Name extends `${infer Group}.${infer Endpoint}`
  ? Group extends keyof ByName
    ? Endpoint extends keyof ByName[Group]
      ? ByName[Group][Endpoint]
      : never
    : never
  : never

type Plain<Codec> = Codec extends { readonly schema: infer Schema } ? Schema : Codec

type Encoded<Codec> = [Codec] extends [never]
  ? never
  : Codec extends HttpApiSchema.WithHeaders<infer Body, infer _Headers>
    ? Encoded<Body>
    : Plain<Codec> extends { readonly Encoded: infer Wire }
      ? Wire
      : never

/** The JSON that an operation answers with. */
export type Answer<Name extends Operation> = Encoded<HttpApiEndpoint.Success<EndpointOf<Name>>>

/** The JSON that an operation takes. */
export type Payload<Name extends Operation> = Encoded<HttpApiEndpoint.Payload<EndpointOf<Name>>>

type Text<Value> = { readonly [Key in keyof Value]: Value[Key] | string | number | boolean }

/** The members of an operation's query. */
export type Query<Name extends Operation> = Text<Encoded<HttpApiEndpoint.Query<EndpointOf<Name>>>>

/** The members that a list can be sorted by. */
export type Sort<Name extends Operation> =
  Encoded<HttpApiEndpoint.Query<EndpointOf<Name>>> extends { readonly sort?: infer Sorts extends string }
    ? Exclude<Sorts, `-${string}`>
    : never

type Params<Name extends Operation> = Text<Encoded<HttpApiEndpoint.Params<EndpointOf<Name>>>>

type Given<Key extends string, Value> = [Value] extends [never]
  ? { readonly [K in Key]?: undefined }
  : Partial<Value> extends Value
    ? { readonly [K in Key]?: Value }
    : { readonly [K in Key]: Value }

/** What a call of an operation needs. */
export type Input<Name extends Operation> = Given<"params", Params<Name>> &
  Given<"query", Query<Name>> &
  Given<"body", Payload<Name>> & { readonly headers?: Readonly<Record<string, string>> }

/** One row of an operation that lists something. */
export type Row<Name extends Operation> =
  Answer<Name> extends ReadonlyArray<infer Element>
    ? Element
    : Answer<Name> extends { readonly items: ReadonlyArray<infer Element> }
      ? Element
      : never
