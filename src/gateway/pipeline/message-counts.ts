import { Context, Effect, Layer, type Scope } from "effect"
import { Router } from "../routing/router.ts"
import { chatBound } from "../metering/token-upper-bound.ts"
import { GatewayConfiguration } from "../configuration/service.ts"
import { resolveModel } from "../routing/resolve-model.ts"
import { providerRequest } from "./provider-request.ts"
import { type Call, validateRequest } from "./call-request.ts"
import { forwardedResponseHeaders, GatewayError, providerError } from "../errors/gateway-error.ts"

/** A request's token count, as Anthropic's API returns it. */
export interface Counted {
  readonly headers: Readonly<Record<string, string>>
  readonly bytes: Uint8Array
}

/** Requests token counts from providers, which is free. */
export class MessageCounts extends Context.Service<
  MessageCounts,
  { count(call: Call): Effect.Effect<Counted, GatewayError, Scope.Scope> }
>()("app/gateway/MessageCounts") {
  static readonly layer = Layer.effect(
    MessageCounts,
    Effect.gen(function* () {
      const router = yield* Router
      const configuration = yield* GatewayConfiguration

      const count = Effect.fn("MessageCounts.count")(function* (call: Call) {
        const invalid = validateRequest(call)
        if (invalid !== undefined) return yield* invalid
        const gateway = configuration.snapshot()
        const model = resolveModel(gateway, call.body.model, call.operation)
        if (model instanceof GatewayError) return yield* model
        const counting = model.targets.find(({ provider }) => provider.dialect === "anthropic")
        if (counting === undefined) {
          // Other providers do not count tokens; the upper bound that admission uses is never too small.
          const { inputTokens } = chatBound("anthropic", call.body, call.bytes.length)
          return { headers: {}, bytes: counted(Math.ceil(inputTokens / 3)) }
        }
        const body = yield* providerRequest(call, counting, { limit: undefined, outputTokens: 1, toolLimit: undefined })
        const answer = yield* Effect.mapError(
          router.send(counting, { operation: "count-tokens", body, headers: call.headers }, gateway.routing),
          (failure) => providerError(failure, counting.provider.id)
        )
        return {
          headers: forwardedResponseHeaders(answer.headers),
          bytes: answer.body instanceof Uint8Array ? answer.body : new Uint8Array()
        }
      })

      return MessageCounts.of({ count })
    })
  )
}

const counted = (inputTokens: number) => new TextEncoder().encode(JSON.stringify({ input_tokens: inputTokens }))
