import { Context, Data, DateTime, Effect, Layer, Redacted, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { rowsOf } from "../../audit/log/service.ts"
import { AttestationKeys } from "../../audit/signing-keys/service.ts"
import { type AuditAction } from "../../kernel/authority/audit-action.ts"
import { untilCallerEnds } from "../../kernel/authority/authority.ts"
import { type Capability } from "../../kernel/authority/capability.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { Usd } from "../../kernel/usd.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { type AgentId } from "../agents/domain.ts"
import { Agents } from "../agents/service.ts"
import { type DelegationId } from "../delegations/domain.ts"
import { Delegations } from "../delegations/service.ts"
import { accessTokenType, type Act, CredentialId } from "./domain.ts"
import { TokensRepository } from "./repository.ts"

/** The agent that a credential is for, as the caller has read it. */
export interface MintFor {
  readonly id: AgentId
  readonly tenantId: TenantId
  readonly perTurnBudget: bigint | null
  readonly allowedTaskTypes: ReadonlyArray<string>
  readonly defaultTaskType: string | null
  readonly version: string
  readonly expiresAt: DateTime.Utc | null
  readonly synthetic: boolean
}

/** An assertion that the credential uses up, and the key that signed it. */
export interface UsedAssertion {
  readonly keyId: string
  readonly keyValidUntil: DateTime.Utc
  readonly jti: string
  readonly assertionExpiresAt: DateTime.Utc
}

/** On whose behalf, by which grant, and what came before. */
export interface MintDelegation {
  readonly grantId: DelegationId
  readonly subject: string
  /** The sign-in that it ends with, where the chain begins with an account. */
  readonly sessionId: string | null
  readonly actors: ReadonlyArray<AgentId>
  readonly ancestorIds: ReadonlyArray<CredentialId>
  readonly agentIds: ReadonlyArray<AgentId>
  readonly maxDepth: number
}

export interface MintRequest {
  readonly action: AuditAction
  readonly agent: MintFor
  readonly scopes: ReadonlyArray<Capability>
  readonly now: DateTime.Utc
  readonly expiresAt: DateTime.Utc
  readonly assertion?: UsedAssertion
  readonly delegation?: MintDelegation
}

/** What the database answers instead of minting. */
export type MintFault =
  | "tenant-suspended"
  | "agent-not-active"
  | "stale"
  | "key-not-live"
  | "ancestor-not-active"
  | "ancestor-revoked"
  | "grant-not-live"
  | "replayed"

/** A credential that was not minted; nothing was written then. */
export class MintRefused extends Data.TaggedError("MintRefused")<{ readonly fault: MintFault }> {}

/** Mints credentials: one statement stores a credential with its audit entry, then its token is signed. */
export class CredentialMint extends Context.Service<CredentialMint>()("app/agents/CredentialMint", {
  make: Effect.gen(function* () {
    const agents = yield* Agents
    const delegations = yield* Delegations
    const random = yield* SecureRandom.SecureRandom
    const repository = yield* TokensRepository
    const { api } = yield* Settings
    const keys = yield* AttestationKeys

    const mint = Effect.fn("CredentialMint.mint")(function* (request: MintRequest) {
      const { action, agent, assertion, delegation, now, scopes } = request
      const ends = [agent.expiresAt, assertion?.keyValidUntil].filter((end) => end != null)
      const expiresAt = wholeSecond(
        ends.reduce((one, other) => DateTime.min(one, other), yield* untilCallerEnds(request.expiresAt))
      )
      const credentialId = CredentialId.make(yield* random.uuidV7())
      const subject = delegation?.subject ?? `agent:${agent.id}`
      const actors = delegation?.actors ?? []
      const after = {
        agentId: agent.id,
        subject,
        actors,
        scopes,
        expiresAt: DateTime.formatIso(expiresAt),
        keyId: assertion?.keyId ?? null,
        delegationId: delegation?.grantId ?? null
      }
      const [entry] = yield* rowsOf([{ action, entityId: credentialId, tenantId: agent.tenantId, after }])
      const refusal = yield* repository.mint({
        credentialId,
        tenantId: agent.tenantId,
        agentId: agent.id,
        version: agent.version,
        now: DateTime.formatIso(now),
        expiresAt: DateTime.formatIso(expiresAt),
        scopes,
        subject,
        actors,
        ancestorIds: delegation?.ancestorIds ?? [],
        agentIds: delegation?.agentIds ?? [],
        grantId: delegation?.grantId ?? null,
        sessionId: delegation?.sessionId ?? null,
        maxDepth: delegation?.maxDepth ?? unbounded,
        keyId: assertion?.keyId ?? null,
        jti: assertion?.jti ?? null,
        assertionExpiresAt: assertion === undefined ? null : DateTime.formatIso(assertion.assertionExpiresAt),
        issuedBy: (yield* CurrentPrincipal).name,
        entry
      })
      if (refusal !== null) return yield* new MintRefused({ fault: refusal as MintFault })
      yield* agents.seen(agent.id)
      if (delegation !== undefined) yield* delegations.used(delegation.grantId)
      const issuedSeconds = Math.floor(now.epochMilliseconds / 1000)
      const expirySeconds = expiresAt.epochMilliseconds / 1000
      const act = actOf(actors)
      const signer = yield* Effect.orDie(keys.signer("sign-tokens"))
      const accessToken = yield* signer.sign(accessTokenType, {
        iss: api.publicUrl,
        sub: subject,
        aud: api.publicUrl,
        exp: expirySeconds,
        iat: issuedSeconds,
        nbf: issuedSeconds,
        jti: credentialId,
        client_id: agent.id,
        scope: scopes.join(" "),
        tenant_id: agent.tenantId,
        agent_id: agent.id,
        ...(act === undefined ? {} : { act }),
        ...(agent.synthetic ? { synthetic: true } : {}),
        allowed_task_types: agent.allowedTaskTypes,
        default_task_type: agent.defaultTaskType,
        per_turn_budget: agent.perTurnBudget === null ? null : usd(agent.perTurnBudget)
      })
      return {
        accessToken: Redacted.make(accessToken, { label: "access-token" }),
        tokenType: "Bearer" as const,
        expiresIn: expirySeconds - issuedSeconds,
        expiresAt,
        scopes,
        credentialId
      }
    })

    return { mint }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(TokensRepository.layer))
}

const unbounded = 32

export const usd = Schema.encodeSync(Usd)

/** The chain of actors as a claim, the latest outermost (RFC 8693 §4.1). */
export const actOf = (actors: ReadonlyArray<AgentId>): Act | undefined =>
  actors.reduceRight<Act | undefined>(
    (inner, id) => (inner === undefined ? { sub: `agent:${id}` } : { sub: `agent:${id}`, act: inner }),
    undefined
  )

/** Whole seconds, as tokens count them. */
export const wholeSecond = (moment: DateTime.Utc): DateTime.Utc =>
  DateTime.makeUnsafe(Math.floor(moment.epochMilliseconds / 1000) * 1000)
