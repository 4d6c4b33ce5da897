import { Context, Effect, Layer, type Scope } from "effect"
import { Attempts } from "../routing/router.ts"
import { chatBound } from "../metering/token-upper-bound.ts"
import { passedBack } from "./call-answers.ts"
import { type Call } from "./call-pipeline.ts"
import { GatewayConfiguration } from "../configuration/service.ts"
import { modelFor } from "../routing/model-choice.ts"
import { checkIncoming, outgoing } from "./provider-request.ts"
import { refusalOf } from "./provider-refusals.ts"
import { type CallRefused } from "../errors/gateway-error.ts"

/** How many tokens a request is, in Anthropic's words. */
export interface Counted {
  readonly headers: Readonly<Record<string, string>>
  readonly bytes: Uint8Array
}

/** Asks providers how many tokens a request is, which costs nothing. */
export class MessageCounts extends Context.Service<
  MessageCounts,
  { count(call: Call): Effect.Effect<Counted, CallRefused, Scope.Scope> }
>()("app/llm/MessageCounts") {
  static readonly layer = Layer.effect(
    MessageCounts,
    Effect.gen(function* () {
      const attempts = yield* Attempts
      const configuration = yield* GatewayConfiguration

      const count = Effect.fn("MessageCounts.count")(function* (incoming: Call) {
        yield* checkIncoming(incoming)
        const model = yield* modelFor(configuration.running(), incoming.body.model, incoming.operation)
        const { routing } = configuration.running()
        const counting = model.targets.find(({ provider }) => provider.dialect === "anthropic")
        if (counting === undefined) {
          // Nobody else counts; the bound that calls are let in by is never too small.
          const { inputTokens } = chatBound("anthropic", incoming.body, incoming.bytes.length)
          return { headers: {}, bytes: counted(Math.ceil(inputTokens / 3)) }
        }
        const body = yield* outgoing(incoming, counting, undefined, 1)
        const answer = yield* Effect.mapError(
          attempts.make(counting, { operation: "count-tokens", body, headers: incoming.headers }, routing),
          refusalOf
        )
        return {
          headers: passedBack(answer.headers),
          bytes: answer.body instanceof Uint8Array ? answer.body : new Uint8Array()
        }
      })

      return MessageCounts.of({ count })
    })
  )
}

const counted = (inputTokens: number) => new TextEncoder().encode(JSON.stringify({ input_tokens: inputTokens }))
