import { Effect, Layer } from "effect"
import { HttpRouter, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { GatewayAuthentication } from "../../authentication/gateway-authentication.ts"
import { GatewayConfiguration } from "../../configuration/service.ts"
import { anthropicErrors } from "../anthropic-messages/errors.ts"
import { anthropicModel, anthropicModels, pageAsked } from "../anthropic-messages/models.ts"
import { openAiErrors } from "../openai-chat/errors.ts"
import { openAiModel, openAiModels } from "../openai-chat/models.ts"
import { modelNotFound } from "../../routing/resolve-model.ts"
import { vendorRoute } from "../http/serve.ts"

const anyUse = ["llm:read", "llm:complete", "llm:embed", "llm:admin", "llm:write"] as const

/** Both vendors list models at the same path; Anthropic's clients send an API version header. */
const isAnthropic = ({ headers }: HttpServerRequest.HttpServerRequest): boolean =>
  headers["anthropic-version"] !== undefined

/** `/v1/models`: the models that can be called, as the SDKs of OpenAI and Anthropic list them. */
export const ModelsLayer = Layer.unwrap(
  Effect.gen(function* () {
    const { authenticated } = yield* GatewayAuthentication
    const configuration = yield* GatewayConfiguration

    const list = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest) {
      const { models } = configuration.snapshot()
      return isAnthropic(request) ? yield* anthropicModels(models, pageAsked(request.url)) : openAiModels(models)
    })

    const retrieve = Effect.fnUntraced(function* (request: HttpServerRequest.HttpServerRequest, name: string) {
      const gateway = configuration.snapshot()
      const model = gateway.modelNamed(name)
      if (model === undefined) return yield* modelNotFound(gateway, name)
      return isAnthropic(request) ? anthropicModel(model) : openAiModel(model)
    })

    // The list uses the same route: a model name may contain slashes, and not all SDKs escape them.
    return vendorRoute(
      "GET",
      "/v1/models/*",
      (request) => (isAnthropic(request) ? anthropicErrors : openAiErrors),
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
