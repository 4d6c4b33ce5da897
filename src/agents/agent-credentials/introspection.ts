import { Context, Effect, Layer } from "effect"
import { CurrentPrincipal, type Principal } from "../../kernel/authority/principal.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { AccessTokens, type LiveToken } from "./access-tokens.ts"
import { type Introspection } from "./domain.ts"
import { actOf, usd } from "./mint.ts"

/** Answers what a token may do now (RFC 7662); a token that is not live, or not the caller's to see, is not active. */
export class TokenIntrospection extends Context.Service<TokenIntrospection>()("app/agents/TokenIntrospection", {
  make: Effect.gen(function* () {
    const tokens = yield* AccessTokens
    const { publicUrl } = (yield* Settings).api

    const introspect = Effect.fn("TokenIntrospection.introspect")(function* (token: string) {
      const principal = yield* CurrentPrincipal
      return yield* Effect.match(tokens.inspect(token), {
        onFailure: (): Introspection => inactive,
        onSuccess: (live) => (mayKnow(principal, live) ? described(live, publicUrl) : inactive)
      })
    })

    return { introspect }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}

const inactive: Introspection = { active: false }

const mayKnow = ({ kind, name, tenantId }: Principal, { state }: LiveToken): boolean =>
  (tenantId === undefined || tenantId === state.tenantId) && (kind !== "agent" || name === `agent:${state.agentId}`)

const described = ({ scopes, state }: LiveToken, issuer: string): Introspection => {
  const act = actOf(state.actors)
  const issuedSeconds = Math.floor(state.issuedAt.epochMilliseconds / 1000)
  return {
    active: true,
    scope: scopes.join(" "),
    client_id: state.agentId,
    sub: state.subject,
    aud: issuer,
    iss: issuer,
    exp: Math.floor(state.expiresAt.epochMilliseconds / 1000),
    iat: issuedSeconds,
    nbf: issuedSeconds,
    jti: state.id,
    token_type: "Bearer",
    ...(act === undefined ? {} : { act }),
    ...(state.synthetic ? { synthetic: true as const } : {}),
    tenant_id: state.tenantId,
    agent_id: state.agentId,
    credential_id: state.id,
    delegation_id: state.grantId,
    allowed_task_types: state.allowedTaskTypes,
    default_task_type: state.defaultTaskType,
    per_turn_budget: state.perTurnBudget === null ? null : usd(state.perTurnBudget)
  }
}
