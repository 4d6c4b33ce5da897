import { Context, type Effect } from "effect"
import { type HttpServerRequest } from "effect/http"
import { type Principal, type RateLimited, type Unauthenticated } from "../kernel/principal.ts"

/** Who calls the gateway, as its own policy says; it takes credentials that nobody else does, or refuses those others take. */
export class GatewayCredentials extends Context.Service<
  GatewayCredentials,
  {
    /** Undefined where none of the gateway's credentials came, so that a sign-in counts. */
    identify(
      request: HttpServerRequest.HttpServerRequest
    ): Effect.Effect<Principal | undefined, RateLimited | Unauthenticated>
  }
>()("app/auth/GatewayCredentials") {}
