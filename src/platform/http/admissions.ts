import { Context, type Effect } from "effect"
import { type HttpServerRequest } from "effect/http"

/** For streamed responses: whether their caller would still be admitted. */
export class Admissions extends Context.Service<
  Admissions,
  {
    /**
     * Returns an effect that waits until the response must end: the credential no longer grants the same rights (revoked,
     * expired, its scopes changed, its tenant suspended), or the process shuts down.
     */
    lapse(request: HttpServerRequest.HttpServerRequest): Effect.Effect<Effect.Effect<void>>
  }
>()("app/platform/Admissions") {}
