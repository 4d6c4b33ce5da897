import { Schema } from "effect"
import { type HttpServerRequest } from "effect/http"
import { HttpApiSchema } from "effect/http-api"
import { type Place } from "./listing.ts"
import { listAt, partsOfUrl, type Slice } from "./page.ts"

/** The 201 response of a POST that created a resource, with its path. */
export const Created = <S extends Schema.Top>(schema: S) =>
  HttpApiSchema.WithHeaders(schema.pipe(HttpApiSchema.status(201)), {
    location: Schema.String.annotate({ description: "Path of the new resource", examples: ["/api/things/42"] })
  })

/** The response with a new resource and its path below `collection`. */
export const created =
  (collection: string) =>
  <A extends { readonly id: string | number }>(body: A) =>
    HttpApiSchema.withHeaders({ body, headers: { location: `${collection}/${body.id}` } })

/** The 200 response of a list that is a bare array: `Link` with rel="next" when there are more (RFC 8288). */
export const LinkedArray = <S extends Schema.Top>(schema: S) =>
  HttpApiSchema.WithHeaders(Schema.Array(schema), {
    link: Schema.optionalKey(Schema.String.annotate({ description: 'The next page, as `<path>; rel="next"`' }))
  })

/** The response with a page as a bare array, and the link to the next one: the same request with another cursor. */
export const linkedPage =
  (request: HttpServerRequest.HttpServerRequest) =>
  <Row>(page: Slice<Row, Place<number | string>>) =>
    HttpApiSchema.withHeaders({
      body: page.items,
      headers: page.nextCursor === null ? {} : { link: nextLink(request.url, page.nextCursor) }
    })

const encode = Schema.encodeSync(Schema.StringFromBase64Url)

const nextLink = (url: string, key: Place<number | string>): string => {
  const [path, parameters] = partsOfUrl(url)
  parameters.set("cursor", encode(JSON.stringify([listAt(url), key])))
  return `<${path}?${parameters}>; rel="next"`
}
