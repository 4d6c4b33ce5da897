import { Effect, Layer } from "effect"
import { HttpRouter, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { GatewayAuthentication } from "../../authentication/gateway-authentication.ts"
import { GatewayConfiguration } from "../../configuration/service.ts"
import { invalidMember } from "../../errors/gateway-error.ts"
import { dialectOf } from "../../formats/registry/formats.ts"
import { missingModel } from "../gemini/routes.ts"
import { vendorRoute } from "../http/serve.ts"

const anyUse = ["llm:read", "llm:complete", "llm:embed", "llm:admin", "llm:write"] as const

/** `/v1/models`: the models that can be called, as the SDKs of several vendors list them at the same path. */
export const ModelsLayer = Layer.unwrap(
  Effect.gen(function* () {
    const { authenticated } = yield* GatewayAuthentication
    const configuration = yield* GatewayConfiguration

    const list = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
      const { models } = configuration.snapshot()
      return yield* Effect.mapError(
        Effect.fromResult(dialectOf(request).models(models, request.url)),
        ({ message, path }) => invalidMember(path.join("."), `${path.join(".")}: ${message}`)
      )
    })

    const retrieve = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest, name: string) {
      const gateway = configuration.snapshot()
      const model = gateway.modelNamed(name)
      if (model === undefined) return yield* missingModel(request, gateway, name)
      return dialectOf(request).model(model)
    })

    // The list uses the same route: a model name may contain slashes, and not all SDKs escape them.
    return vendorRoute(
      "GET",
      "/v1/models/*",
      (request) => dialectOf(request).errors,
      (request, requestId) => {
        const listed = Effect.gen(function* () {
          const { "*": name = "" } = yield* HttpRouter.params
          const shown = name === "" ? yield* list(request) : yield* retrieve(request, name)
          return HttpServerResponse.jsonUnsafe(shown, { headers: { "request-id": requestId } })
        })
        return authenticated(request, { capabilities: anyUse, limitedBy: "rate" }, listed)
      }
    )
  })
)
