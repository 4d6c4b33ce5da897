import { Context, type Effect } from "effect"
import { type HttpServerRequest } from "effect/http"

/** The continued authorization of streaming answers. */
export class LiveAuthorization extends Context.Service<
  LiveAuthorization,
  {
    /**
     * Answers an effect that completes when the current stream must end: its credential no longer has the same
     * rights (revoked, expired, its scopes changed, its tenant suspended), or the process shuts down.
     */
    revoked(request: HttpServerRequest.HttpServerRequest): Effect.Effect<Effect.Effect<void>>
  }
>()("app/platform/LiveAuthorization") {}
