import { Context, type Effect } from "effect"
import { type HttpServerRequest } from "effect/http"

/** For answers that last: whether their caller would still be admitted. */
export class Admissions extends Context.Service<
  Admissions,
  {
    /**
     * Answers what waits until the answer of the request in hand must end: its credential no longer stands for the same
     * rights (revoked, expired, its scopes changed, its tenant suspended), or the process is on its way out.
     */
    lapse(request: HttpServerRequest.HttpServerRequest): Effect.Effect<Effect.Effect<void>>
  }
>()("app/platform/Admissions") {}
