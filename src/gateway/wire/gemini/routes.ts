import { Effect, Layer, type Scope, Stream } from "effect"
import { type HttpServerRequest, HttpServerResponse } from "effect/http"
import { isJson } from "../../../kernel/json/parsed-json.ts"
import { MethodNotAllowed, RouteNotFound } from "../../../kernel/problems/problems.ts"
import { GatewayAuthentication } from "../../authentication/gateway-authentication.ts"
import { type GatewaySnapshot } from "../../configuration/gateway-snapshot.ts"
import { GatewayConfiguration } from "../../configuration/service.ts"
import { gatewayError, type GatewayError, type GatewayProblem, invalidMember } from "../../errors/gateway-error.ts"
import { type WireFormat } from "../../formats/format.ts"
import { geminiBatchEmbed, geminiEmbed } from "../../formats/gemini-embeddings/format.ts"
import { geminiCount, geminiDialect, geminiGenerate } from "../../formats/gemini/format.ts"
import { type ModelMethod, readPath, servedMethods } from "../../formats/gemini/paths.ts"
import { AnswerReader, AnswerWriter, type Framing, framingOf, framingTypes } from "../../formats/gemini/stream.ts"
import { dialectOf } from "../../formats/registry/formats.ts"
import { CallPipeline } from "../../pipeline/call-pipeline.ts"
import { MessageCounts } from "../../pipeline/message-counts.ts"
import { type CallAnswer } from "../../pipeline/response-relay.ts"
import { modelNotFound } from "../../routing/resolve-model.ts"
import { makeCallReader, responseOf, vendorRoute } from "../http/serve.ts"

type Failure = GatewayError<GatewayProblem>
type Request = HttpServerRequest.HttpServerRequest

/** What each method is answered in. */
const formats: Readonly<Record<ModelMethod, WireFormat>> = {
  generateContent: geminiGenerate,
  streamGenerateContent: geminiGenerate,
  countTokens: geminiCount,
  embedContent: geminiEmbed,
  batchEmbedContents: geminiBatchEmbed
}

const notServed = gatewayError(new RouteNotFound({ detail: `The gateway serves no such method. ${servedMethods}.` }))

const anyUse = ["llm:read", "llm:complete", "llm:embed", "llm:admin", "llm:write"] as const

const queryOf = ({ url }: Request): URLSearchParams => new URL(url, "http://localhost").searchParams
const pathOf = ({ url }: Request): string => url.split("?", 1)[0] ?? ""

/** A stream in the frames that its caller asked for; within, it is one of events. */
const framed = (body: CallAnswer["body"], framing: Framing): CallAnswer["body"] => {
  if (body instanceof Uint8Array || framing === "sse") return body
  const reader = new AnswerReader()
  const writer = new AnswerWriter(framing)
  const utf8 = new TextEncoder()
  let isFailed = false
  const write = (values: ReadonlyArray<unknown>): string =>
    values
      .filter(isJson)
      .map((value) => {
        if (!value.error) return writer.write([value])
        isFailed = true
        return writer.fail(JSON.stringify(value))
      })
      .join("")
  const written = Stream.map(body, (bytes) => utf8.encode(write(reader.push(bytes))))
  const end = Stream.suspend(() => {
    const rest = write(reader.end())
    return Stream.make(utf8.encode(isFailed ? rest : rest + writer.end()))
  })
  return Stream.concat(written, end)
}

/** The HTTP methods of a path of models; undefined for any other path. */
export const modelsAllow = (path: string): string | undefined => {
  const named = readPath("POST", path)
  return named && (named.kind === "method" ? "POST, OPTIONS" : "GET, HEAD, OPTIONS")
}

const notAllowed = ({ method }: Request, allow: string): Failure =>
  gatewayError(new MethodNotAllowed({ detail: `The gateway does not serve ${method} at this path.` }), {
    headers: { allow }
  })

/** What a GET of a model that does not exist is answered; the path may be that of one of its methods. */
export const missingModel = (request: Request, gateway: GatewaySnapshot, name: string): Failure => {
  const allow = modelsAllow(pathOf(request))
  return allow?.startsWith("POST") === true ? notAllowed(request, allow) : modelNotFound(gateway, name)
}

/** What is no method of a model, and no list of models. */
const others = (request: Request): Effect.Effect<HttpServerResponse.HttpServerResponse, Failure> => {
  const allow = modelsAllow(pathOf(request))
  if (allow === undefined) return Effect.fail(notServed)
  return request.method === "OPTIONS"
    ? Effect.succeed(HttpServerResponse.empty({ status: 204, headers: { allow } }))
    : Effect.fail(notAllowed(request, allow))
}

/** Google's Gemini API, as its SDKs call it: the model and the method stand in the path. */
export const GeminiLayer = Layer.unwrap(
  Effect.gen(function* () {
    const { authenticated } = yield* GatewayAuthentication
    const configuration = yield* GatewayConfiguration
    const counts = yield* MessageCounts
    const pipeline = yield* CallPipeline
    const readCall = yield* makeCallReader
    const { errors } = geminiDialect

    const call = (
      request: Request,
      requestId: string
    ): Effect.Effect<HttpServerResponse.HttpServerResponse, Failure, Scope.Scope> => {
      const path = readPath("POST", pathOf(request))
      if (path?.kind === "unknown" && path.method === "") return others(request)
      if (path?.kind !== "method") return Effect.fail(notServed)
      const format = formats[path.method]
      const streams = path.method === "streamGenerateContent"
      const framing = framingOf(queryOf(request).get("alt"))
      const route = { path: `/v1beta/models/${path.model}:${path.method}`, model: path.model, streams }
      const made = Effect.flatMap(readCall(format, route, request, requestId, errors), (asked) =>
        format.isCount
          ? Effect.map(counts.count(asked), ({ bytes, headers }) =>
              responseOf({ status: 200, headers, body: bytes }, requestId)
            )
          : Effect.map(pipeline.call(asked), ({ body, headers, status }) => {
              const isArray = streams && framing === "array"
              const type = isArray ? { ...headers, "content-type": framingTypes.array } : headers
              return responseOf({ status, headers: type, body: streams ? framed(body, framing) : body }, requestId)
            })
      )
      return authenticated(
        request,
        {
          capabilities: [format.hasOutput ? "llm:complete" : "llm:embed"],
          limitedBy: format.isCount ? "rate" : "caps"
        },
        made
      )
    }

    const read = (
      request: Request,
      requestId: string
    ): Effect.Effect<HttpServerResponse.HttpServerResponse, Failure, Scope.Scope> => {
      const shown = Effect.gen(function* () {
        const gateway = configuration.snapshot()
        const path = readPath("GET", pathOf(request))
        if (path?.kind === "model") {
          const model = gateway.modelNamed(path.model)
          return model === undefined ? yield* missingModel(request, gateway, path.model) : geminiDialect.model(model)
        }
        return yield* Effect.mapError(
          Effect.fromResult(geminiDialect.models(gateway.models, request.url)),
          ({ message, path: at }) => invalidMember(at.join("."), `${at.join(".")}: ${message}`)
        )
      })
      return authenticated(
        request,
        { capabilities: anyUse, limitedBy: "rate" },
        Effect.map(shown, (body) => HttpServerResponse.jsonUnsafe(body, { headers: { "request-id": requestId } }))
      )
    }

    const writer = () => errors
    // Without a method it is a path of every vendor.
    const writerOf = (request: Request) => (/:|%3a/i.test(pathOf(request)) ? errors : dialectOf(request).errors)
    return Layer.mergeAll(
      vendorRoute("POST", "/v1beta/models/*", writer, call),
      vendorRoute("POST", "/v1/models/*", writerOf, call),
      vendorRoute("GET", "/v1beta/models/*", writer, read),
      vendorRoute("*", "/v1beta/*", writer, others)
    )
  })
)
