import { Context, DateTime, Effect, Layer, Option } from "effect"
import { CurrentPrincipal, type RateLimited } from "../../kernel/authority/principal.ts"
import { AgentClients, type AuthenticatedClient, type FindClient } from "../agent-credentials/clients.ts"
import {
  accessTokenUrn,
  badSubject,
  credentialActions,
  type InvalidClient,
  type InvalidRequest,
  invalidRequest,
  type InvalidScope,
  type TokenExchangeRequest,
  type TokenRequest
} from "../agent-credentials/domain.ts"
import { CredentialMint, type MintFault, MintRefused, type MintRequest } from "../agent-credentials/mint.ts"
import { type Client, type ExchangeClient } from "../agent-credentials/repository.ts"
import { scopesWithin } from "../agent-credentials/scopes.ts"
import { ceilingOf } from "../agents/domain.ts"
import { Exchanges, type PreparedExchange } from "./exchange.ts"

/** The grants by which an agent gets a token for its assertion: its own, and on behalf of a subject. */
export class AgentGrants extends Context.Service<AgentGrants>()("app/agents/AgentGrants", {
  make: Effect.gen(function* () {
    const clients = yield* AgentClients
    const exchanges = yield* Exchanges
    const minting = yield* CredentialMint

    /** Mints for the client as it was seen, and once more as it is when it has changed meanwhile. */
    const mintFor = <C extends Client>(
      known: AuthenticatedClient<C>,
      refresh: FindClient<C>,
      prepare: (client: C) => Effect.Effect<MintRequest, InvalidScope | InvalidRequest>
    ) => {
      const attempt = (client: C) => Effect.flatMap(prepare(client), minting.mint)
      const again = Effect.gen(function* () {
        const client = Option.getOrUndefined(yield* refresh(known.client.id, known.kid))
        return client === undefined ? yield* clients.refuse(known.client.id, "unknown-agent") : yield* attempt(client)
      })
      const answer = ({ fault }: MintRefused): Effect.Effect<never, InvalidClient | InvalidRequest | RateLimited> =>
        faultsOfSubject.has(fault)
          ? Effect.fail(invalidRequest(badSubject))
          : clients.refuse(known.client.id, fault, known.client)
      return attempt(known.client).pipe(
        Effect.catchIf(isStale, () => again),
        Effect.catchTag("MintRefused", answer)
      )
    }

    const token = Effect.fn("AgentGrants.token")(function* (request: TokenRequest, endpoint: string) {
      const known = yield* clients.authenticate(request.agentId, request.clientAssertion, endpoint, clients.find)
      return yield* mintFor(
        known,
        clients.refresh,
        Effect.fnUntraced(function* (client: Client) {
          const scopes = yield* scopesWithin(request.requestedScopes, ceilingOf(client))
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
      const { find, prepare } = exchanges.begin(request)
      const known = yield* clients.authenticate(request.agentId, request.clientAssertion, endpoint, find)
      const minted = yield* mintFor(
        known,
        find,
        Effect.fnUntraced(function* (client: ExchangeClient) {
          const prepared: PreparedExchange = yield* prepare(client)
          return { action: credentialActions.AgentCredentialExchanged, agent: client, assertion: known, ...prepared }
        })
      ).pipe(Effect.provideService(CurrentPrincipal, known.principal))
      return { ...minted, issuedTokenType: accessTokenUrn } as const
    })

    return {
      /** RFC 7523 §2.2; `endpoint` is the path that was called, which the assertion may be for. */
      token,
      /** RFC 8693. */
      exchange
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps
}

const isStale = (error: { readonly _tag: string }): error is MintRefused =>
  error instanceof MintRefused && error.fault === "stale"

const faultsOfSubject: ReadonlySet<MintFault> = new Set(["ancestor-not-active", "ancestor-revoked", "grant-not-live"])
