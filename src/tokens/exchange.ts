import { Context, DateTime, Effect, Layer, Option } from "effect"
import { type AgentId } from "../agents/domain.ts"
import { type Delegation, type SubjectType } from "../delegations/domain.ts"
import { Delegations } from "../delegations/service.ts"
import { type Capability, intersection, missing } from "../kernel/capability.ts"
import { type TenantId } from "../kernel/identifier.ts"
import { Settings } from "../platform/settings.ts"
import { AccessTokens } from "./access-tokens.ts"
import {
  badSubject,
  type CredentialId,
  type InvalidRequest,
  invalidRequest,
  type InvalidScope,
  invalidScope
} from "./domain.ts"
import { type MintDelegation, wholeSecond } from "./mint.ts"
import { type Client } from "./repository.ts"
import { namedScopes } from "./scopes.ts"
import { type PresentedAccount, SubjectTokens } from "./subject-tokens.ts"

/** Whoever an agent wants to act for, as its token shows: its authority, and who acts for it already. */
interface Subject {
  readonly name: string
  readonly type: SubjectType
  readonly id: string
  readonly tenantId: TenantId | undefined
  readonly scopes: ReadonlyArray<Capability>
  readonly expiresAt: DateTime.Utc
  readonly actors: ReadonlyArray<AgentId>
  readonly ancestorIds: ReadonlyArray<CredentialId>
  readonly agentIds: ReadonlyArray<AgentId>
  readonly maxDepth: number
}

/** All that an exchange has decided before it is minted. */
export interface PreparedExchange {
  readonly scopes: ReadonlyArray<Capability>
  readonly now: DateTime.Utc
  readonly expiresAt: DateTime.Utc
  readonly delegation: MintDelegation
}

/** The rules of acting on behalf (RFC 8693): nothing ever grows, and no chain bites its tail. */
export class Exchanges extends Context.Service<
  Exchanges,
  {
    prepare(
      client: Client,
      request: { readonly subjectToken: string; readonly requestedScopes?: ReadonlyArray<string> }
    ): Effect.Effect<PreparedExchange, InvalidRequest | InvalidScope>
  }
>()("app/tokens/Exchanges") {
  static readonly layer = Layer.effect(
    Exchanges,
    Effect.gen(function* () {
      const accounts = yield* SubjectTokens
      const delegations = yield* Delegations
      const tokens = yield* AccessTokens
      const { maxDelegationDepth } = (yield* Settings).agents

      const subjectOf = Effect.fnUntraced(function* (
        token: string,
        client: Client
      ): Effect.fn.Return<Subject, InvalidRequest> {
        const presented = Option.getOrUndefined(yield* accounts.identify(token, client.id))
        if (presented !== undefined) return accountSubject(presented)
        const { scopes, state } = yield* Effect.mapError(tokens.inspect(token), () => invalidRequest(badSubject))
        const [kind = "", ...rest] = state.subject.split(":")
        const id = rest.join(":")
        const type: SubjectType = kind === "agent" ? "agent" : kind === "account" ? "user" : "external"
        return {
          name: state.subject,
          type,
          id: type === "external" ? state.subject : id,
          tenantId: state.tenantId,
          scopes,
          expiresAt: state.expiresAt,
          actors: state.actors,
          ancestorIds: [...state.ancestorIds, state.id],
          agentIds: [state.agentId, ...state.actors, ...(type === "agent" ? [id as AgentId] : [])],
          maxDepth: state.maxDepth
        }
      })

      const prepare = Effect.fn("Exchanges.prepare")(function* (
        client: Client,
        { requestedScopes, subjectToken }: Parameters<Exchanges["Service"]["prepare"]>[1]
      ) {
        const named = yield* namedScopes(requestedScopes)
        const subject = yield* subjectOf(subjectToken, client)
        if (subject.tenantId !== undefined && subject.tenantId !== client.tenantId)
          return yield* invalidRequest(badSubject)
        if (subject.agentIds.includes(client.id)) {
          return yield* invalidRequest("The agent is in the chain already, and would act for itself.")
        }
        const pair = { agentId: client.id, subjectType: subject.type, subject: subject.id }
        const grants = yield* delegations.between(pair)
        if (grants.length === 0) return yield* invalidRequest(badSubject)
        const depth = subject.actors.length + 1
        const deepEnough = grants.filter(
          (grant) => depth <= Math.min(grant.maxDepth, subject.maxDepth, maxDelegationDepth)
        )
        if (deepEnough.length === 0) return yield* invalidRequest("The chain of agents is as long as it may be.")
        const asked = intersection(intersection(named ?? client.scopeCeiling, client.scopeCeiling), subject.scopes)
        const chosen = mostScopes(deepEnough, asked)
        if (chosen.scopes.length === 0) {
          return yield* invalidScope("Request, subject, grant and ceiling have no scope in common.")
        }
        const now = yield* DateTime.now
        const { grant } = chosen
        const ends = DateTime.min(
          DateTime.add(now, { seconds: client.maxCredentialTtlSeconds }),
          grant.expiresAt === null ? subject.expiresAt : DateTime.min(subject.expiresAt, grant.expiresAt)
        )
        // A token counts whole seconds, and one that is over when it is made is none.
        if (DateTime.isLessThanOrEqualTo(wholeSecond(ends), now)) return yield* invalidRequest(badSubject)
        return {
          scopes: chosen.scopes,
          now,
          expiresAt: ends,
          delegation: {
            grantId: grant.id,
            subject: subject.name,
            actors: [client.id, ...subject.actors],
            ancestorIds: subject.ancestorIds,
            agentIds: subject.agentIds,
            maxDepth: Math.min(grant.maxDepth, subject.maxDepth)
          }
        }
      })

      return Exchanges.of({ prepare })
    })
  )
}

/** An account at the beginning of a chain. */
const accountSubject = ({ account, expiresAt }: PresentedAccount): Subject => ({
  name: `account:${account.id}`,
  type: "user",
  id: account.id,
  tenantId: account.tenantId ?? undefined,
  scopes: account.capabilities,
  expiresAt,
  actors: [],
  ancestorIds: [],
  agentIds: [],
  maxDepth: deepest
})
const deepest = 32

/** The grant that leaves most of what was asked for. */
const mostScopes = (grants: ReadonlyArray<Delegation>, asked: ReadonlyArray<Capability>) => {
  const choices = grants.map((grant) => ({ grant, scopes: intersection(asked, grant.scopes) }))
  return choices.reduce((best, choice) => (missing(choice.scopes, best.scopes).length === 0 ? choice : best))
}
