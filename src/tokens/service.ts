import { Context, DateTime, Effect, Layer } from "effect"
import { CurrentPrincipal, type RateLimited } from "../auth/domain.ts"
import { AgentClients, type AuthenticatedClient } from "./clients.ts"
import {
  accessTokenUrn,
  type AgentTokenResponse,
  badSubject,
  credentialActions,
  type InvalidClient,
  type InvalidRequest,
  invalidRequest,
  type InvalidScope,
  type TokenExchangeRequest,
  type TokenRequest
} from "./domain.ts"
import { Exchanges, type PreparedExchange } from "./exchange.ts"
import { CredentialMint, type MintFault, MintRefused, type MintRequest } from "./mint.ts"
import { type Client } from "./repository.ts"
import { scopesWithin } from "./scopes.ts"

type TokenFailure = InvalidClient | InvalidScope | RateLimited

/** The grants by which an agent gets a token for its assertion: its own, and on somebody's behalf. */
export class AgentGrants extends Context.Service<
  AgentGrants,
  {
    /** RFC 7523 §2.2; `endpoint` is the path that was called, which the assertion may be for. */
    token(request: TokenRequest, endpoint: string): Effect.Effect<AgentTokenResponse, TokenFailure>
    /** RFC 8693. */
    exchange(
      request: TokenExchangeRequest,
      endpoint: string
    ): Effect.Effect<AgentTokenResponse, TokenFailure | InvalidRequest>
  }
>()("app/tokens/AgentGrants") {
  static readonly layerNoDeps = Layer.effect(
    AgentGrants,
    Effect.gen(function* () {
      const clients = yield* AgentClients
      const exchanges = yield* Exchanges
      const minting = yield* CredentialMint

      /** Mints for the client as it was seen, and once more as it is when it has changed meanwhile. */
      const mintFor = (
        known: AuthenticatedClient,
        prepare: (client: Client) => Effect.Effect<MintRequest, InvalidScope | InvalidRequest>
      ) => {
        const attempt = (client: Client) => Effect.flatMap(prepare(client), minting.mint)
        const answer = ({ fault }: MintRefused): Effect.Effect<never, InvalidClient | InvalidRequest | RateLimited> =>
          faultsOfSubject.has(fault)
            ? Effect.fail(invalidRequest(badSubject))
            : clients.refuse(known.client.id, fault, known.client)
        return attempt(known.client).pipe(
          Effect.catchIf(isStale, () => Effect.flatMap(clients.again(known), attempt)),
          Effect.catchTag("MintRefused", answer)
        )
      }

      const token = Effect.fn("AgentGrants.token")(function* (request: TokenRequest, endpoint: string) {
        const known = yield* clients.authenticate(request.agentId, request.clientAssertion, endpoint)
        return yield* mintFor(
          known,
          Effect.fnUntraced(function* (client: Client) {
            const scopes = yield* scopesWithin(request.requestedScopes, client.scopeCeiling)
            const now = yield* DateTime.now
            return {
              action: credentialActions.AgentCredentialIssued,
              agent: client,
              scopes,
              now,
              expiresAt: DateTime.add(now, { seconds: client.maxCredentialTtlSeconds }),
              assertion: known
            }
          })
        ).pipe(Effect.catchTag("InvalidRequest", Effect.die), Effect.provideService(CurrentPrincipal, known.principal))
      })

      const exchange = Effect.fn("AgentGrants.exchange")(function* (request: TokenExchangeRequest, endpoint: string) {
        const known = yield* clients.authenticate(request.agentId, request.clientAssertion, endpoint)
        const minted = yield* mintFor(
          known,
          Effect.fnUntraced(function* (client: Client) {
            const prepared: PreparedExchange = yield* exchanges.prepare(client, request)
            return { action: credentialActions.AgentCredentialExchanged, agent: client, assertion: known, ...prepared }
          })
        ).pipe(Effect.provideService(CurrentPrincipal, known.principal))
        return { ...minted, issuedTokenType: accessTokenUrn } as const
      })

      return AgentGrants.of({ token, exchange })
    })
  )

  static readonly layer = this.layerNoDeps
}

const isStale = (error: { readonly _tag: string }): error is MintRefused =>
  error instanceof MintRefused && error.fault === "stale"

const faultsOfSubject: ReadonlySet<MintFault> = new Set(["ancestor-not-active", "ancestor-revoked", "grant-not-live"])
