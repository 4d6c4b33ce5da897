import { Effect, type Scope, Stream } from "effect"
import { HttpRouter, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { type TenantId } from "../../../kernel/identifier.ts"
import { type Json } from "../../../kernel/json/parsed-json.ts"
import { headersOf } from "../../../platform/http/request.ts"
import {
  GatewayAuthentication,
  type GatewayCaller,
  type VendorPath
} from "../../authentication/gateway-authentication.ts"
import { type KeptPage } from "../../batches/files.ts"
import { type MadeThing } from "../../batches/service.ts"
import { type GatewayError, type GatewayProblem } from "../../errors/gateway-error.ts"
import { dialectOf } from "../../formats/registry/formats.ts"
import { type CallKey } from "../../pipeline/call-request.ts"
import { type ProviderAnswer } from "../../providers/provider.ts"
import { declaredIn, forwardedRequestHeaders, vendorRoute } from "../http/serve.ts"

type Request = HttpServerRequest.HttpServerRequest
type Response = HttpServerResponse.HttpServerResponse
type Failure = GatewayError<GatewayProblem>

const capabilities = ["llm:complete", "llm:embed"] as const
const defaultLimit = 20

/** What a list is asked for: the newest first unless asked otherwise. */
export const pageIn = (asked: URLSearchParams, after: string, most: number): KeptPage => ({
  after: asked.get(after) ?? undefined,
  limit: Math.min(most, Math.max(1, Math.trunc(Number(asked.get("limit") ?? defaultLimit)) || defaultLimit)),
  isUp: asked.get("order") === "asc"
})

/** The same of a list with a member for either direction, as Anthropic has it. */
export const eitherWay = (asked: URLSearchParams, most: number): KeptPage => {
  const isBefore = asked.has("before_id")
  return { ...pageIn(asked, isBefore ? "before_id" : "after_id", most), isUp: isBefore }
}

/** A page as it is written. */
export const listed = ({ hasMore, items }: { readonly items: ReadonlyArray<Json>; readonly hasMore: boolean }) => ({
  data: items,
  first_id: items[0]?.id ?? null,
  last_id: items.at(-1)?.id ?? null,
  has_more: hasMore
})

/** What a request to make something comes with. */
export interface Making {
  readonly caller: GatewayCaller
  /** Headers that are forwarded to the provider. */
  readonly headers: Readonly<Record<string, string>>
  readonly idempotency: CallKey | undefined
}

/** What a request about what is there asks for. */
export interface Asked {
  readonly tenantId: TenantId
  readonly id: string
  readonly query: URLSearchParams
  /** Headers that are forwarded to the provider. */
  readonly headers: Readonly<Record<string, string>>
}

/** The caller's headers that a provider gets, but for what the caller accepts: the gateway reads the answer. */
const passedOn = (headers: Readonly<Record<string, string>>): Readonly<Record<string, string>> => {
  const { accept: _, ...forwarded } = forwardedRequestHeaders(headers)
  return forwarded
}

/** Bytes of a provider. Whatever they are, a browser must not take them for a page of the gateway's. */
export const asBytes = ({ body }: ProviderAnswer, headers: Readonly<Record<string, string>>): Response => {
  const options = { contentType: "application/octet-stream", headers }
  return body instanceof Uint8Array
    ? HttpServerResponse.uint8Array(body, options)
    : HttpServerResponse.stream(
        Stream.concat(Stream.fromIterable(body.first), Stream.fromPull(Effect.succeed(body.rest))),
        options
      )
}

export const asJson = (answer: object, headers: Readonly<Record<string, string>>): Response =>
  HttpServerResponse.jsonUnsafe(answer, { headers })

/** The routes of what providers keep for callers. */
export const makeKeptRoutes = Effect.gen(function* () {
  const { attribute, authenticated } = yield* GatewayAuthentication

  return {
    /** A path whose caller is charged, by what the headers of the request declare. */
    making: (
      path: `/${string}`,
      limitedBy: VendorPath["limitedBy"],
      work: (request: Request, making: Making) => Effect.Effect<MadeThing, Failure, Scope.Scope>
    ) =>
      vendorRoute(
        "POST",
        path,
        (request) => dialectOf(request).errors,
        (request, requestId) =>
          authenticated(
            request,
            { capabilities, limitedBy },
            Effect.gen(function* () {
              const headers = headersOf(request)
              const { "idempotency-key": key } = headers
              const idempotency = key === undefined ? undefined : { route: `POST ${path}`, key }
              const caller = yield* attribute(declaredIn(headers))
              const { answer, headers: own } = yield* work(request, {
                caller,
                headers: passedOn(headers),
                idempotency
              })
              return HttpServerResponse.jsonUnsafe(answer, { headers: { ...own, "request-id": requestId } })
            })
          )
      ),
    /** A path about what is there. */
    about: <A>(
      method: "GET" | "POST" | "DELETE",
      path: `/${string}`,
      work: (asked: Asked, request: Request) => Effect.Effect<A, Failure, Scope.Scope>,
      write: (answer: A, headers: Readonly<Record<string, string>>) => Response
    ) =>
      vendorRoute(
        method,
        path,
        (request) => dialectOf(request).errors,
        (request, requestId) =>
          authenticated(
            request,
            { capabilities, limitedBy: "rate" },
            Effect.gen(function* () {
              const { subject } = yield* attribute({})
              const { id = "" } = yield* HttpRouter.params
              const query = new URL(request.url, "http://localhost").searchParams
              const headers = passedOn(headersOf(request))
              const asked = { tenantId: subject.tenantId, id, query, headers }
              return write(yield* work(asked, request), { "request-id": requestId })
            })
          )
      )
  }
})
