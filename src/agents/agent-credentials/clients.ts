import { Cache, Context, DateTime, Effect, Exit, Layer, Option, Result, Schema } from "effect"
import * as jose from "jose"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { RateLimits } from "../../access/rate-limits.ts"
import { Rejections } from "../../access/rejections.ts"
import { type Refusal } from "../../audit/log/service.ts"
import { type Principal, type RateLimited } from "../../kernel/authority/principal.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { AgentId, isActiveAt } from "../agents/domain.ts"
import { type AssertionHeader, checkClaims, readAssertion } from "./assertion.ts"
import { credentialActions, InvalidClient } from "./domain.ts"
import { type Client, TokensRepository } from "./repository.ts"

/** An agent that has proven who it is. */
export interface AuthenticatedClient<C extends Client = Client> {
  readonly client: C
  readonly keyId: string
  readonly kid: string
  /** When the key ends, and so what is minted for the assertion at the latest. */
  readonly keyValidUntil: DateTime.Utc
  readonly principal: Principal
  readonly jti: string
  readonly assertionExpiresAt: DateTime.Utc
}

/** How the agent and the key that an assertion names are found. */
export type FindClient<C extends Client> = (agentId: AgentId, kid: string) => Effect.Effect<Option.Option<C>>

interface KnownKey {
  readonly id: string
  readonly algorithm: AssertionHeader["algorithm"]
  readonly pem: string
  readonly validUntil: DateTime.Utc
}

/** Agents that sign for themselves: the one place that believes an assertion (RFC 7523 private_key_jwt). */
export class AgentClients extends Context.Service<
  AgentClients,
  {
    /** Authenticates by an assertion for one endpoint path. The reason of a failure is only written to the audit log. */
    authenticate<C extends Client>(
      agentId: string,
      assertion: string,
      endpoint: string,
      find: FindClient<C>
    ): Effect.Effect<AuthenticatedClient<C>, InvalidClient | RateLimited>
    /** The client as it was a second ago at most. */
    readonly find: FindClient<Client>
    /** The current client, past the cache. */
    readonly refresh: FindClient<Client>
    /** Refuses as every failure of authentication is refused: one answer, and the reason to the audit. */
    refuse(agentId: string, reason: string, client?: Client): Effect.Effect<never, InvalidClient | RateLimited>
    /** The same for a refusal that is already known. */
    reject(refusal: Refusal): Effect.Effect<never, InvalidClient | RateLimited>
  }
>()("app/agents/AgentClients") {
  static readonly layerNoDeps = Layer.effect(
    AgentClients,
    Effect.gen(function* () {
      const authCaches = yield* AuthCacheInvalidation
      const limits = yield* RateLimits
      const rejections = yield* Rejections
      const repository = yield* TokensRepository
      const { agents: rules, api } = yield* Settings

      const clients = yield* Cache.makeWith(
        (key: string) => repository.client(key.slice(0, uuidLength) as AgentId, key.slice(uuidLength)),
        { capacity: 10_000, timeToLive: (exit) => (Exit.isSuccess(exit) ? "1 second" : 0) }
      )
      yield* authCaches.onChange(Cache.invalidateAll(clients))

      // Importing a key costs as much as a verification, and a key never changes.
      const imported = yield* Cache.make({
        capacity: 10_000,
        lookup: (key: string) => {
          const space = key.indexOf(" ")
          return Effect.promise(() => jose.importSPKI(key.slice(space + 1), key.slice(0, space)))
        }
      })

      const reject = (refusal: Refusal) =>
        Effect.andThen(rejections.reject(refusal), Effect.fail(new InvalidClient({})))
      const refuse = Effect.fnUntraced(function* (agentId: string, reason: string, client?: Client) {
        return yield* reject({
          action: credentialActions.AgentTokenDenied,
          target: isId(agentId) ? agentId : "no agent",
          reason,
          tenantId: client?.tenantId
        })
      })

      const verify = ({ algorithm, id, pem }: KnownKey, assertion: string) =>
        Effect.flatMap(Cache.get(imported, `${algorithm} ${pem}`), (key) =>
          Effect.tryPromise(() =>
            jose.compactVerify(assertion, key, {
              algorithms: algorithm === "EdDSA" ? ["EdDSA", "Ed25519"] : [algorithm]
            })
          ).pipe(
            Effect.map(({ payload }) => Result.succeed(payload)),
            Effect.orElseSucceed(() => Result.fail(`bad-signature of ${id}`))
          )
        )

      const audiencesAt = (endpoint: string) =>
        rules.strictAudience ? [api.publicUrl] : [api.publicUrl, `${api.publicUrl}${endpoint}`]

      const find: FindClient<Client> = (agentId, kid) => Cache.get(clients, `${agentId}${kid}`)
      const refresh: FindClient<Client> = (agentId, kid) => Cache.refresh(clients, `${agentId}${kid}`)

      const authenticate = Effect.fn("AgentClients.authenticate")(function* <C extends Client>(
        agentId: string,
        assertion: string,
        endpoint: string,
        findClient: FindClient<C>
      ) {
        const header = readAssertion(assertion)
        if (typeof header === "string") return yield* refuse(agentId, header)
        if (!isId(agentId)) return yield* refuse(agentId, "unknown-agent")
        const now = yield* DateTime.now
        const client = Option.getOrUndefined(yield* findClient(agentId, header.kid))
        if (client === undefined) return yield* refuse(agentId, "unknown-agent")
        const key = keyOf(client, header, now)
        if (typeof key === "string") return yield* refuse(agentId, key, client)
        const verified = yield* verify(key, assertion)
        if (Result.isFailure(verified)) return yield* refuse(agentId, verified.failure, client)
        const claims = checkClaims(verified.success, {
          agentId,
          audiences: audiencesAt(endpoint),
          nowSeconds: now.epochMilliseconds / 1000
        })
        if (typeof claims === "string") return yield* refuse(agentId, claims, client)
        const principal = principalOf(client)
        yield* limits.principal(principal.name)
        return {
          client,
          keyId: key.id,
          kid: header.kid,
          keyValidUntil: key.validUntil,
          principal,
          jti: claims.jti,
          assertionExpiresAt: DateTime.makeUnsafe(claims.exp * 1000)
        }
      })

      return AgentClients.of({ authenticate, find, refresh, refuse, reject })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(TokensRepository.layer))
}

const uuidLength = 36
const isId = Schema.is(AgentId)

/** The key that an assertion names, if it may be used now; else why not. */
const keyOf = (client: Client, header: AssertionHeader, now: DateTime.Utc): KnownKey | string => {
  const { algorithm, keyId, keyRevokedAt, publicKeyPem, validFrom, validUntil } = client
  if (keyId === null || algorithm === null || publicKeyPem === null) return "unknown-key"
  if (algorithm !== header.algorithm) return "algorithm-not-of-the-key"
  if (keyRevokedAt !== null) return "key-revoked"
  if (validFrom === null || DateTime.isGreaterThan(validFrom, now)) return "key-not-yet-valid"
  if (validUntil === null || DateTime.isLessThanOrEqualTo(validUntil, now)) return "key-expired"
  if (client.tenantStatus !== "active") return "tenant-suspended"
  if (!isActiveAt(client, now)) return "agent-not-active"
  return { id: keyId, algorithm, pem: publicKeyPem, validUntil }
}

const principalOf = (client: Client): Principal => ({
  kind: "agent",
  name: `agent:${client.id}`,
  capabilities: [],
  tenantId: client.tenantId,
  applicationId: client.applicationId ?? undefined,
  ...(client.synthetic ? { synthetic: true } : {})
})
