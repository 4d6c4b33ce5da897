import { Context, Effect, Layer, Option, type Scope } from "effect"
import { type GatewaySnapshot, type ModelTarget, type ServedModel } from "../configuration/gateway-snapshot.ts"
import { GatewayConfiguration } from "../configuration/service.ts"
import { RequestIds } from "../conversations/request-ids.ts"
import { forwardedResponseHeaders, GatewayError, providerError } from "../errors/gateway-error.ts"
import { perImage } from "../formats/token-upper-bound.ts"
import { ProviderCounts } from "../metering/provider-counts.ts"
import { textsOf } from "../metering/request-texts.ts"
import { TokenCounts } from "../metering/token-counts.ts"
import { bytesPerToken } from "../metering/usage-meter.ts"
import { unsupportedApi } from "../providers/provider.ts"
import { resolveModel } from "../routing/resolve-model.ts"
import { Router } from "../routing/router.ts"
import { type Call, noMembers, validateRequest } from "./call-request.ts"
import { countableRequest, providerRequest } from "./provider-request.ts"

/** A request's token count, as its vendor's API returns it. */
export interface Counted {
  readonly headers: Readonly<Record<string, string>>
  readonly bytes: Uint8Array
}

/** Token counts: from providers, which is free, or of the gateway's own. */
export class MessageCounts extends Context.Service<
  MessageCounts,
  {
    /** Counts a request in the dialect of a provider that counts; otherwise, the gateway estimates. */
    count(call: Call): Effect.Effect<Counted, GatewayError, Scope.Scope>
    /** The tokens of a chat request, by its provider, or the model's tokenizer where it is known, or else estimated. */
    countOwn(call: Call): Effect.Effect<number, GatewayError>
  }
>()("app/gateway/MessageCounts") {
  static readonly layer = Layer.effect(
    MessageCounts,
    Effect.gen(function* () {
      const ids = yield* RequestIds
      const router = yield* Router
      const configuration = yield* GatewayConfiguration
      const counts = yield* TokenCounts
      const providers = yield* ProviderCounts

      const resolved = (
        call: Call
      ): Effect.Effect<{ readonly gateway: GatewaySnapshot; readonly model: ServedModel }, GatewayError> => {
        const invalid = validateRequest(call)
        if (invalid !== undefined) return Effect.fail(invalid)
        const gateway = configuration.snapshot()
        const model = resolveModel(gateway, call.model, call.format)
        return model instanceof GatewayError ? Effect.fail(model) : Effect.succeed({ gateway, model })
      }

      const count = Effect.fn("MessageCounts.count")(function* (given: Call) {
        const call = yield* ids.opened(given, given.format.idScope(noMembers))
        const { gateway, model } = yield* resolved(call)
        const counting = model.targets.find(isCounting(call))
        if (counting === undefined) {
          return { headers: {}, bytes: counted(call, estimated(call)) }
        }
        const limits = { limit: undefined, outputTokens: 1, toolLimit: undefined }
        const body = yield* providerRequest(call, counting, limits)
        return yield* router
          .send(
            counting,
            { format: call.format, model: counting.model, streams: false, body, headers: call.headers },
            gateway.routing
          )
          .pipe(
            Effect.map((answer) => ({
              headers: forwardedResponseHeaders(answer.headers),
              bytes: answer.body instanceof Uint8Array ? answer.body : new Uint8Array()
            })),
            Effect.catch((failure) =>
              failure.error.code === unsupportedApi
                ? Effect.succeed({ headers: {}, bytes: counted(call, estimated(call)) })
                : Effect.fail(providerError(failure, counting.provider.id))
            )
          )
      })

      const countOwn = Effect.fn("MessageCounts.countOwn")(function* (given: Call) {
        const call = yield* ids.opened(given, given.format.idScope(noMembers))
        const { model } = yield* resolved(call)
        const target = model.targets.find(({ provider }) => (call.onlyProvider ?? provider.id) === provider.id)
        if (target === undefined) return estimated(call)
        const countable = countableRequest(call, target)
        if (countable !== undefined) {
          const tokens = yield* providers.exact(target, yield* countable)
          if (Option.isSome(tokens)) return tokens.value
        }
        const tokens = yield* counts.countFor(call.caller.subject.tenantId, target, textsOf(call.body).texts)
        return Option.getOrElse(tokens, () => estimated(call))
      })

      return MessageCounts.of({ count, countOwn })
    })
  )
}

/** Whether a target's provider counts the tokens of a call. */
const isCounting =
  ({ format, onlyProvider }: Call) =>
  ({ apis, provider }: ModelTarget): boolean =>
    provider.speaks.dialect === format.dialect && apis.has(format.api) && (onlyProvider ?? provider.id) === provider.id

const estimated = ({ body, bytes, format }: Call): number => {
  const terms = { models: [], mcpServers: [], contextTokens: null, maxOutputTokens: null }
  const { inputTokens } = format.bound(body, { ...terms, bodyBytes: bytes.length, imageTokens: perImage })
  return Math.ceil(inputTokens / bytesPerToken)
}

const counted = ({ format }: Call, tokens: number) =>
  new TextEncoder().encode(JSON.stringify(format.counted?.(tokens) ?? { tokens }))
