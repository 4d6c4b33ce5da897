import { Context, Effect, Layer } from "effect"
import { Audit, type Refusal } from "../audit/log/service.ts"
import { type RateLimited } from "../kernel/authority/principal.ts"
import { RateLimits } from "./rate-limits.ts"

/**
 * The one way to refuse a credential, on every route: it counts against the caller's network first, and only what is within
 * the limit is recorded, so that a flood costs no writes; an alarm is recorded first. The caller answers in its own format.
 */
export class Rejections extends Context.Service<
  Rejections,
  {
    /** Fails when the network has no attempts left. A request without any credential has nothing to record. */
    reject(refusal: Refusal | undefined): Effect.Effect<void, RateLimited>
  }
>()("app/access/Rejections") {
  static readonly layer = Layer.effect(
    Rejections,
    Effect.gen(function* () {
      const audit = yield* Audit
      const limits = yield* RateLimits
      return Rejections.of({
        reject: (refusal) => {
          if (refusal === undefined) return limits.anonymous
          return refusal.isAlarm === true
            ? Effect.andThen(audit.refused(refusal), limits.anonymous)
            : Effect.andThen(limits.anonymous, audit.refused(refusal))
        }
      })
    })
  )
}
