import { Context, Effect, Layer, type Scope } from "effect"
import { Router } from "../routing/router.ts"
import { chatBound } from "../metering/token-upper-bound.ts"
import { forwardedResponseHeaders } from "./call-answers.ts"
import { type Call } from "./call-pipeline.ts"
import { GatewayConfiguration } from "../configuration/service.ts"
import { modelFor } from "../routing/model-choice.ts"
import { validateRequest, providerRequest } from "./provider-request.ts"
import { refusalOf } from "./provider-refusals.ts"
import { type GatewayError } from "../errors/gateway-error.ts"

/** How many tokens a request is, in Anthropic's words. */
export interface Counted {
  readonly headers: Readonly<Record<string, string>>
  readonly bytes: Uint8Array
}

/** Asks providers how many tokens a request is, which costs nothing. */
export class MessageCounts extends Context.Service<
  MessageCounts,
  { count(call: Call): Effect.Effect<Counted, GatewayError, Scope.Scope> }
>()("app/gateway/MessageCounts") {
  static readonly layer = Layer.effect(
    MessageCounts,
    Effect.gen(function* () {
      const attempts = yield* Router
      const configuration = yield* GatewayConfiguration

      const count = Effect.fn("MessageCounts.count")(function* (incoming: Call) {
        yield* validateRequest(incoming)
        const model = yield* modelFor(configuration.snapshot(), incoming.body.model, incoming.operation)
        const { routing } = configuration.snapshot()
        const counting = model.targets.find(({ provider }) => provider.dialect === "anthropic")
        if (counting === undefined) {
          // Nobody else counts; the bound that calls are let in by is never too small.
          const { inputTokens } = chatBound("anthropic", incoming.body, incoming.bytes.length)
          return { headers: {}, bytes: counted(Math.ceil(inputTokens / 3)) }
        }
        const body = yield* providerRequest(incoming, counting, undefined, 1)
        const answer = yield* Effect.mapError(
          attempts.make(counting, { operation: "count-tokens", body, headers: incoming.headers }, routing),
          refusalOf
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
