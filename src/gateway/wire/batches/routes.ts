import { Effect, Layer, type Scope, Stream } from "effect"
import { HttpRouter, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { type TenantId } from "../../../kernel/identifier.ts"
import { type Json } from "../../../kernel/json/parsed-json.ts"
import { RouteNotFound } from "../../../kernel/problems/problems.ts"
import { withoutDeadline } from "../../../platform/http/deadline.ts"
import { headersOf } from "../../../platform/http/request.ts"
import { GatewayAuthentication, type VendorPath } from "../../authentication/gateway-authentication.ts"
import { type BatchCaller } from "../../batches/batch-input.ts"
import { OpenAiFileBatches } from "../../batches/file-batches.ts"
import { KeptFiles, type KeptPage } from "../../batches/files.ts"
import { MessageBatches } from "../../batches/message-batches.ts"
import { Batches, type MadeThing } from "../../batches/service.ts"
import { gatewayError, type GatewayError, type GatewayProblem } from "../../errors/gateway-error.ts"
import { anthropicBatches } from "../../formats/batches/anthropic-batches.ts"
import { type BatchApi } from "../../formats/batches/batches.ts"
import { openAiBatches } from "../../formats/batches/openai-batches.ts"
import { batchApis } from "../../formats/registry/batches.ts"
import { dialectOf } from "../../formats/registry/formats.ts"
import { type ProviderAnswer } from "../../providers/provider.ts"
import { declaredIn, forwardedRequestHeaders, vendorRoute } from "../http/serve.ts"

type Request = HttpServerRequest.HttpServerRequest
type Response = HttpServerResponse.HttpServerResponse
type Failure = GatewayError<GatewayProblem>

const capabilities = ["llm:complete", "llm:embed"] as const

/** The paths of files and batches, each with its methods. */
export const batchPaths: ReadonlyArray<readonly [path: RegExp, methods: string]> = [
  [/^\/v1\/(?:files|batches|messages\/batches)$/, "GET, HEAD, POST"],
  [/^\/v1\/files\/[^/]+$/, "GET, HEAD, DELETE"],
  [/^\/v1\/files\/[^/]+\/content$/, "GET, HEAD"],
  [/^\/v1\/(?:batches|messages\/batches)\/[^/]+$/, "GET, HEAD"],
  [/^\/v1\/(?:batches|messages\/batches)\/[^/]+\/cancel$/, "POST"],
  [/^\/v1\/messages\/batches\/[^/]+\/results$/, "GET, HEAD"]
]

const defaultLimit = 20

/** What a list is asked for: the newest first unless asked otherwise. */
const pageIn = (asked: URLSearchParams, after: string, most: number): KeptPage => ({
  after: asked.get(after) ?? undefined,
  limit: Math.min(most, Math.max(1, Math.trunc(Number(asked.get("limit") ?? defaultLimit)) || defaultLimit)),
  isUp: asked.get("order") === "asc"
})

const listed = ({ hasMore, items }: { readonly items: ReadonlyArray<Json>; readonly hasMore: boolean }) => ({
  data: items,
  first_id: items[0]?.id ?? null,
  last_id: items.at(-1)?.id ?? null,
  has_more: hasMore
})

const noFiles = gatewayError(
  new RouteNotFound({
    detail: "The gateway serves files of OpenAI's API alone; send Anthropic's documents within the messages."
  })
)

/** Whether a client of this vendor has files here. */
const takesFiles = (request: Request): boolean => batchApis[dialectOf(request).dialect]?.hasFiles === true

/** What a request about what is there asks for. */
interface Asked {
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

/** Lines of JSON, as a provider sends them. */
const linesOf = ({ body }: ProviderAnswer, headers: Readonly<Record<string, string>>): Response => {
  const options = { contentType: "application/octet-stream", headers }
  return body instanceof Uint8Array
    ? HttpServerResponse.uint8Array(body, options)
    : HttpServerResponse.stream(
        Stream.concat(Stream.fromIterable(body.first), Stream.fromPull(Effect.succeed(body.rest))),
        options
      )
}

const asJson = (answer: object, headers: Readonly<Record<string, string>>): Response =>
  HttpServerResponse.jsonUnsafe(answer, { headers })

/** `/v1/files`, `/v1/batches` and `/v1/messages/batches`, as the SDKs of OpenAI and Anthropic call them. */
export const BatchesLayer = Layer.unwrap(
  Effect.gen(function* () {
    const { attribute, authenticated } = yield* GatewayAuthentication
    const batches = yield* Batches
    const files = yield* KeptFiles
    const fileBatches = yield* OpenAiFileBatches
    const messageBatches = yield* MessageBatches

    /** A path whose caller is charged, by what the headers of the request declare. */
    const called = (
      api: BatchApi,
      path: `/${string}`,
      limitedBy: VendorPath["limitedBy"],
      work: (request: Request, of: BatchCaller) => Effect.Effect<MadeThing, Failure, Scope.Scope>
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
                api,
                caller,
                headers: passedOn(headers),
                idempotency
              })
              return HttpServerResponse.jsonUnsafe(answer, { headers: { ...own, "request-id": requestId } })
            })
          )
      )

    /** A path about what is there. */
    const kept = <A>(
      method: "GET" | "POST" | "DELETE",
      path: `/${string}`,
      work: (asked: Asked) => Effect.Effect<A, Failure, Scope.Scope>,
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
              if (path.startsWith("/v1/files") && !takesFiles(request)) return yield* noFiles
              const { subject } = yield* attribute({})
              const { id = "" } = yield* HttpRouter.params
              const query = new URL(request.url, "http://localhost").searchParams
              const headers = passedOn(headersOf(request))
              return write(yield* work({ tenantId: subject.tenantId, id, query, headers }), { "request-id": requestId })
            })
          )
      )

    const about = (api: BatchApi, path: `/${string}`, list: (asked: Asked) => Effect.Effect<object, Failure>) =>
      Layer.mergeAll(
        kept("GET", path, list, asJson),
        kept("GET", `${path}/:id`, ({ headers, id, tenantId }) => batches.retrieve(tenantId, api, id, headers), asJson),
        kept(
          "POST",
          `${path}/:id/cancel`,
          ({ headers, id, tenantId }) => batches.cancel(tenantId, api, id, headers),
          asJson
        )
      )

    return Layer.mergeAll(
      called(openAiBatches, "/v1/files", "rate", (request, of) =>
        takesFiles(request) ? Effect.map(files.upload(request, of), (answer) => ({ answer })) : Effect.fail(noFiles)
      ),
      kept(
        "GET",
        "/v1/files",
        ({ query, tenantId }) =>
          Effect.map(files.list(tenantId, query.get("purpose") ?? undefined, pageIn(query, "after", 1000)), (page) => ({
            object: "list",
            ...listed(page)
          })),
        asJson
      ),
      kept("GET", "/v1/files/:id", ({ id, tenantId }) => files.retrieve(tenantId, id), asJson),
      kept("DELETE", "/v1/files/:id", ({ id, tenantId }) => files.remove(tenantId, id), asJson),
      kept("GET", "/v1/files/:id/content", ({ id, tenantId }) => files.content(tenantId, id), linesOf),
      called(openAiBatches, "/v1/batches", "caps", (request, of) => withoutDeadline(fileBatches.create(request, of))),
      about(openAiBatches, "/v1/batches", ({ query, tenantId }) =>
        Effect.map(batches.list(tenantId, openAiBatches, pageIn(query, "after", 100)), (page) => ({
          object: "list",
          ...listed(page)
        }))
      ),
      called(anthropicBatches, "/v1/messages/batches", "caps", (request, of) =>
        withoutDeadline(messageBatches.create(request, of))
      ),
      about(anthropicBatches, "/v1/messages/batches", ({ query, tenantId }) => {
        const isBefore = query.has("before_id")
        const page = { ...pageIn(query, isBefore ? "before_id" : "after_id", 1000), isUp: isBefore }
        return Effect.map(batches.list(tenantId, anthropicBatches, page), ({ hasMore, items }) =>
          listed({ hasMore, items: isBefore ? items.toReversed() : items })
        )
      }),
      kept(
        "GET",
        "/v1/messages/batches/:id/results",
        ({ headers, id, tenantId }) => batches.results(tenantId, anthropicBatches, id, headers),
        linesOf
      )
    )
  })
)
