import { Context, Effect, Layer, type Redacted } from "effect"
import { Digest } from "effect/crypto"
import { type HttpServerRequest } from "effect/http"
import { RateLimits } from "../../access/rate-limits.ts"
import { isFromAnotherSite } from "../../access/session-cookie.ts"
import { Forbidden } from "../../kernel/authority/principal.ts"
import { sha256Of } from "../../platform/crypto/opaque-tokens.ts"
import { SessionIssuer } from "./session-issuer.ts"

/** The tokens of one-time links, as pages send them. */
export class LinkTokens extends Context.Service<LinkTokens>()("app/people/LinkTokens", {
  make: Effect.gen(function* () {
    const digest = yield* Digest.Digest
    const { cookie } = yield* SessionIssuer
    const limits = yield* RateLimits
    return {
      /** What is stored of a token that a page of ours sent, within the limit of its network. */
      presented: Effect.fn("LinkTokens.presented")(function* (
        token: Redacted.Redacted,
        request: HttpServerRequest.HttpServerRequest
      ) {
        if (isFromAnotherSite(cookie, request.method, request.headers)) {
          return yield* new Forbidden({ missing: [], detail: "Another site's page sent this request." })
        }
        yield* limits.anonymous
        return yield* sha256Of(digest, token)
      })
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
