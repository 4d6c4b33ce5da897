import { Context, DateTime, Effect, Layer, Option, Schema } from "effect"
import { AttestationKeys } from "../../audit/signing-keys/service.ts"
import { type Capability, intersection, missing } from "../../kernel/authority/capability.ts"
import { Uuid } from "../../kernel/identifier.ts"
import { text } from "../../kernel/text.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { AccessTokens, within } from "../agent-credentials/access-tokens.ts"
import { claimsIn } from "../agent-credentials/assertion.ts"
import { type FindClient } from "../agent-credentials/clients.ts"
import {
  badSubject,
  CredentialId,
  type InvalidRequest,
  invalidRequest,
  type InvalidScope,
  invalidScope,
  type TokenExchangeRequest
} from "../agent-credentials/domain.ts"
import { type MintDelegation, wholeSecond } from "../agent-credentials/mint.ts"
import {
  type ExchangeClient,
  type ExchangeGrant,
  type ExchangeSubject,
  TokensRepository
} from "../agent-credentials/repository.ts"
import { namedScopes } from "../agent-credentials/scopes.ts"
import { type AgentId, ceilingOf } from "../agents/domain.ts"
import { SubjectTokens } from "../subject-tokens/service.ts"
import { WorkloadTokens } from "./workload-tokens.ts"

/** All that an exchange has decided before it is minted. */
export interface PreparedExchange {
  readonly scopes: ReadonlyArray<Capability>
  readonly now: DateTime.Utc
  readonly expiresAt: DateTime.Utc
  readonly delegation: MintDelegation
}

/** An exchange before the client is authenticated. */
export interface BegunExchange {
  /** The client, together with all that the token names: one question to the database. */
  readonly find: FindClient<ExchangeClient>
  prepare(client: ExchangeClient): Effect.Effect<PreparedExchange, InvalidRequest | InvalidScope>
}

/** The rules of acting on behalf (RFC 8693): nothing ever grows, and no chain bites its tail. */
export class Exchanges extends Context.Service<Exchanges>()("app/agents/Exchanges", {
  make: Effect.gen(function* () {
    const accounts = yield* SubjectTokens
    const keys = yield* AttestationKeys
    const repository = yield* TokensRepository
    const tokens = yield* AccessTokens
    const workloads = yield* WorkloadTokens
    const { agents, api } = yield* Settings
    const { maxDelegationDepth } = agents

    /** The subject that a token names, if the service signed the token and it is still valid. */
    const subjectOf = Effect.fnUntraced(function* (
      client: ExchangeClient,
      token: string,
      named: Named,
      now: DateTime.Utc
    ) {
      if (named.external !== null) {
        return yield* Effect.mapError(workloads.subjectOf(token, client.tenantId), () => invalidRequest(badSubject))
      }
      const { compromisedKeyIds, subject } = client
      const said = Option.getOrUndefined(yield* accounts.read(token, client.id))
      const credentialId = said === undefined ? yield* tokens.credentialOf(token) : Option.none()
      const isNamed =
        said === undefined
          ? Option.isSome(credentialId) && subject?.credentialId === credentialId.value
          : named.sessionId === said.sessionId && subject?.name === said.name
      if (subject === null || !isNamed || !subject.isLive) return yield* invalidRequest(badSubject)
      const expiresAt = said === undefined ? subject.expiresAt : DateTime.min(subject.expiresAt, said.expiresAt)
      const counts = yield* keys.counts("sign-tokens", token, compromisedKeyIds)
      return counts && DateTime.isGreaterThan(expiresAt, now)
        ? { ...subject, expiresAt }
        : yield* invalidRequest(badSubject)
    })

    const begin = (request: TokenExchangeRequest): BegunExchange => {
      const { requestedScopes, subjectToken } = request
      // Looked up before the client is known and believed only after: then its signature is checked.
      const names = namedIn(subjectToken, api.publicUrl)

      const prepare = Effect.fn("Exchanges.prepare")(function* (client: ExchangeClient) {
        const named = yield* namedScopes(requestedScopes)
        const now = yield* DateTime.now
        const subject = yield* subjectOf(client, subjectToken, names, now)
        if (subject.tenantId !== null && subject.tenantId !== client.tenantId) return yield* invalidRequest(badSubject)
        const agentIds = agentsOf(subject)
        if (agentIds.includes(client.id)) {
          return yield* invalidRequest("The agent is in the chain already, and would act for itself.")
        }
        const { grants } = client
        if (grants.length === 0) return yield* invalidRequest(badSubject)
        const depth = subject.actors.length + 1
        const deepEnough = grants.filter(
          (grant) => depth <= Math.min(grant.maxDepth, subject.maxDepth, maxDelegationDepth)
        )
        if (deepEnough.length === 0) return yield* invalidRequest("The chain of agents is as long as it may be.")
        const ceiling = ceilingOf(client)
        const held = within(subject.scopes, subject.ceilings)
        const { grant, scopes } = maxScopes(deepEnough, intersection(intersection(named ?? ceiling, ceiling), held))
        if (scopes.length === 0) {
          return yield* invalidScope("Request, subject, grant and ceiling have no scope in common.")
        }
        const ends = DateTime.min(
          DateTime.add(now, { seconds: client.maxCredentialTtlSeconds }),
          grant.expiresAt === null ? subject.expiresAt : DateTime.min(subject.expiresAt, grant.expiresAt)
        )
        // A token counts whole seconds, and one that is over when it is made is none.
        if (DateTime.isLessThanOrEqualTo(wholeSecond(ends), now)) return yield* invalidRequest(badSubject)
        return {
          scopes,
          now,
          expiresAt: ends,
          delegation: {
            grantId: grant.id,
            subject: subject.name,
            sessionId: names.sessionId,
            actors: [client.id, ...subject.actors],
            ancestorIds: subject.credentialId === null ? [] : [...subject.ancestorIds, subject.credentialId],
            agentIds,
            maxDepth: Math.min(grant.maxDepth, subject.maxDepth)
          }
        }
      })

      return {
        find: (agentId, kid) =>
          Effect.flatMap(DateTime.now, (at) => repository.exchange({ agentId, kid, ...names, at })),
        prepare
      }
    }

    return { begin }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(TokensRepository.layer))
}

interface Named {
  readonly credentialId: CredentialId | null
  readonly sessionId: string | null
  /** A user of another issuer, as grants name it. */
  readonly external: string | null
}
const decodeNames = Schema.decodeUnknownOption(
  Schema.toType(Schema.Struct({ jti: CredentialId, sid: Schema.optionalKey(Uuid) }))
)
const decodeExternal = Schema.decodeUnknownOption(Schema.Struct({ iss: text(1, 512), sub: text(1, 255) }))
const noCredential: Named = { credentialId: null, sessionId: null, external: null }

/** The credential, the sign-in or the user of another issuer that a token names, without verification. */
const namedIn = (token: string, ownIssuer: string): Named => {
  const claims = claimsIn(token)
  const external = Option.getOrUndefined(decodeExternal(claims))
  if (external !== undefined && external.iss !== ownIssuer) {
    return { ...noCredential, external: `${external.iss}|${external.sub}` }
  }
  return Option.match(decodeNames(claims), {
    onNone: () => noCredential,
    onSome: ({ jti, sid }) =>
      sid === undefined ? { ...noCredential, credentialId: jti } : { ...noCredential, sessionId: sid }
  })
}

const ofAgent = "agent:"

/** Every agent of the subject's chain: who acts, who acted before, and the one at its beginning. */
const agentsOf = ({ actors, agentId, name }: ExchangeSubject): ReadonlyArray<AgentId> => [
  ...(agentId === null ? [] : [agentId]),
  ...actors,
  ...(name.startsWith(ofAgent) ? [name.slice(ofAgent.length) as AgentId] : [])
]

/** The grant that leaves most of what was asked for. */
const maxScopes = (grants: ReadonlyArray<ExchangeGrant>, asked: ReadonlyArray<Capability>) => {
  const choices = grants.map((grant) => ({ grant, scopes: intersection(asked, grant.scopes) }))
  return choices.reduce((best, choice) => (missing(choice.scopes, best.scopes).length === 0 ? choice : best))
}
