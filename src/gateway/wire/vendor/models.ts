import { Effect, Layer } from "effect"
import { HttpRouter, type HttpServerRequest, HttpServerResponse } from "effect/http"
import { type Dialect } from "../../translation/domain.ts"
import { GatewayAuthentication } from "../../authentication/gateway-authentication.ts"
import { GatewayConfiguration } from "../../configuration/service.ts"
import { anthropicModel, anthropicModels, openAiModel, openAiModels, pageAsked } from "./model-pages.ts"
import { refused } from "../../errors/gateway-error.ts"
import { serve } from "./routes.ts"

const anyUse = ["llm:read", "llm:complete", "llm:embed", "llm:admin", "llm:write"] as const

/** Both vendors list models at one address; Anthropic's clients say which version of its API they speak. */
const dialectOf = ({ headers }: HttpServerRequest.HttpServerRequest): Dialect =>
  headers["anthropic-version"] === undefined ? "openai" : "anthropic"

/** `/v1/models`: what can be asked for, as the SDKs of OpenAI and Anthropic list it. */
export const ModelsWireLayer = Layer.unwrap(
  Effect.gen(function* () {
    const authentication = yield* GatewayAuthentication
    const configuration = yield* GatewayConfiguration

    const list = Effect.fnUntraced(function* (dialect: Dialect, url: string) {
      const { models } = configuration.snapshot()
      return dialect === "openai" ? openAiModels(models) : yield* anthropicModels(models, pageAsked(url))
    })

    const retrieve = Effect.fnUntraced(function* (dialect: Dialect, name: string) {
      const model = configuration.snapshot().modelNamed(name)
      if (model === undefined) {
        return yield* refused(404, "model_not_found", `The model \`${name}\` does not exist.`, {}, "model")
      }
      return dialect === "openai" ? openAiModel(model) : anthropicModel(model)
    })

    // The list is the same route: a name may have slashes in it, and SDKs do not escape every one.
    return HttpRouter.add(
      "GET",
      "/v1/models/*",
      serve(
        "/v1/models/*",
        dialectOf,
        Effect.fnUntraced(function* (request, requestId) {
          yield* authentication.identify(request, anyUse)
          const { "*": name = "" } = yield* HttpRouter.params
          const dialect = dialectOf(request)
          const shown = name === "" ? yield* list(dialect, request.url) : yield* retrieve(dialect, name)
          return HttpServerResponse.jsonUnsafe(shown, { headers: { "request-id": requestId } })
        })
      )
    )
  })
)
