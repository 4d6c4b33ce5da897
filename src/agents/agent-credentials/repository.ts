import { Context, DateTime, Effect, Layer, Option, Schema } from "effect"
import { SqlClient, SqlSchema } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { Capability } from "../../kernel/authority/capability.ts"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { InstantFromDate } from "../../kernel/instant.ts"
import { KeyAlgorithm } from "../agent-keys/domain.ts"
import { AgentId, BoundedAgent } from "../agents/domain.ts"
import { DelegationId } from "../delegations/domain.ts"
import { CredentialId } from "./domain.ts"

const Capabilities = Schema.Array(Capability)

/** An agent with one of its keys. */
export const Client = Schema.Struct({
  ...BoundedAgent.fields,
  tenantStatus: Schema.String,
  keyId: Schema.NullOr(Uuid),
  algorithm: Schema.NullOr(KeyAlgorithm),
  publicKeyPem: Schema.NullOr(Schema.String),
  validFrom: Schema.NullOr(InstantFromDate),
  validUntil: Schema.NullOr(InstantFromDate),
  keyRevokedAt: Schema.NullOr(InstantFromDate)
})
export type Client = typeof Client.Type

/** The subject that an agent would act for: a credential with all before it, or the sign-in of an account. */
const ExchangeSubject = Schema.Struct({
  name: Schema.String,
  tenantId: Schema.NullOr(TenantId),
  credentialId: Schema.NullOr(CredentialId),
  agentId: Schema.NullOr(AgentId),
  actors: Schema.Array(AgentId),
  ancestorIds: Schema.Array(CredentialId),
  maxDepth: Schema.Int,
  scopes: Capabilities,
  ceilings: Schema.Array(Capabilities),
  expiresAt: Schema.DateTimeUtcFromMillis,
  isLive: Schema.Boolean
})
export type ExchangeSubject = typeof ExchangeSubject.Type

const ExchangeGrant = Schema.Struct({
  id: DelegationId,
  scopes: Capabilities,
  maxDepth: Schema.Int,
  expiresAt: Schema.NullOr(Schema.DateTimeUtcFromMillis)
})
export type ExchangeGrant = typeof ExchangeGrant.Type

/** A client with all that its exchange hangs on; `grants` are those of the subject that live. */
export const ExchangeClient = Schema.Struct({
  ...Client.fields,
  subject: Schema.NullOr(ExchangeSubject),
  grants: Schema.Array(ExchangeGrant),
  compromisedKeyIds: Schema.Array(Schema.String)
})
export type ExchangeClient = typeof ExchangeClient.Type

/** The parameters of an exchange: the client, and the subject by its credential, its sign-in, or the name that grants have for it. */
const ExchangeLook = Schema.Struct({
  agentId: AgentId,
  kid: Schema.String,
  credentialId: Schema.NullOr(CredentialId),
  sessionId: Schema.NullOr(Uuid),
  external: Schema.NullOr(Schema.String),
  at: InstantFromDate
})

/** A stored credential, and whether everything that it depends on is valid. The caller checks its expiry. */
export const CredentialState = Schema.Struct({
  id: CredentialId,
  tenantId: TenantId,
  agentId: AgentId,
  grantId: Schema.NullOr(Uuid),
  subject: Schema.String,
  actors: Schema.Array(AgentId),
  ancestorIds: Schema.Array(CredentialId),
  maxDepth: Schema.Int,
  scopes: Schema.Array(Capability),
  issuedAt: InstantFromDate,
  expiresAt: InstantFromDate,
  scopeCeiling: Capabilities,
  perTurnBudget: Schema.NullOr(Schema.BigInt),
  allowedTaskTypes: Schema.Array(Schema.String),
  defaultTaskType: Schema.NullOr(Schema.String),
  /** What else bounds it: the template, and those before it in the chain by their ceilings, templates and roles. */
  chainCeilings: Schema.Array(Capabilities),
  live: Schema.Boolean,
  /** The keys of the service that are in other hands: what they signed is no token. */
  compromisedKeyIds: Schema.Array(Schema.String),
  applicationId: Schema.NullOr(Schema.Int),
  synthetic: Schema.Boolean
})
export type CredentialState = typeof CredentialState.Type

const CredentialRow = Schema.Struct({
  id: CredentialId,
  agentId: AgentId,
  agentKeyId: Schema.NullOr(Uuid),
  grantId: Schema.NullOr(Uuid),
  subject: Schema.String,
  actors: Schema.Array(AgentId),
  scopes: Schema.Array(Capability),
  issuedAt: InstantFromDate,
  issuedBy: Schema.String,
  expiresAt: InstantFromDate,
  revokedAt: Schema.NullOr(InstantFromDate),
  live: Schema.Boolean
})
export type CredentialRow = typeof CredentialRow.Type

const Revoked = Schema.Struct({ id: CredentialId, agentId: AgentId, tenantId: TenantId, subject: Schema.String })
export type Revoked = typeof Revoked.Type

export class TokensRepository extends Context.Service<TokensRepository>()("app/agents/TokensRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const selectClient = SqlSchema.findOneOption({
      Request: Schema.Struct({ agentId: AgentId, kid: Schema.String }),
      Result: Client,
      execute: ({ agentId, kid }) => sql`SELECT * FROM agent_client(${agentId}, ${kid})`
    })
    const selectState = SqlSchema.findOneOption({
      Request: CredentialId,
      Result: CredentialState,
      execute: (id) => sql`SELECT * FROM agent_credential_state(${id})`
    })
    const selectExchange = SqlSchema.findOneOption({
      Request: ExchangeLook,
      Result: ExchangeClient,
      execute: ({ agentId, at, credentialId, external, kid, sessionId }) =>
        sql`SELECT * FROM exchange_client(${agentId}, ${kid}, ${credentialId}, ${sessionId}, ${external}, ${at})`
    })
    const selectSessionEnd = SqlSchema.findOneOption({
      Request: Uuid,
      Result: Schema.Struct({ expiresAt: InstantFromDate }),
      execute: (id) => sql`SELECT expires_at FROM sign_in_subject(${id})`
    })
    const callMint = SqlSchema.findOne({
      Request: Schema.String,
      Result: Schema.Struct({ refusal: Schema.NullOr(Schema.String) }),
      execute: (request) => sql`SELECT mint_agent_credential(${request}::text::jsonb) AS refusal`
    })
    const callUse = SqlSchema.findOne({
      Request: Schema.Struct({ agentId: AgentId, jti: Schema.String, expiresAt: Schema.DateTimeUtcFromDate }),
      Result: Schema.Struct({ first: Schema.Boolean }),
      execute: ({ agentId, expiresAt, jti }) =>
        sql`SELECT use_agent_assertion(${agentId}, ${jti}, ${expiresAt}) AS first`
    })
    const selectPage = SqlSchema.findAll({
      Request: Schema.Struct({ agentId: AgentId, after: Schema.UndefinedOr(CredentialId), limit: Schema.Int }),
      Result: CredentialRow,
      execute: ({ after, agentId, limit }) => sql`
          SELECT c.*, (SELECT live FROM agent_credential_state(c.id)) AS live FROM agent_credentials c
          WHERE agent_id = ${agentId} AND ${after === undefined ? sql`true` : sql`id > ${after}`}
          ORDER BY id LIMIT ${limit}`
    })
    const updateRevoked = SqlSchema.findOneOption({
      Request: Schema.Struct({
        id: CredentialId,
        of: Schema.UndefinedOr(AgentId),
        at: Schema.DateTimeUtcFromDate
      }),
      Result: Revoked,
      execute: ({ at, id, of }) => sql`
          UPDATE agent_credentials SET revoked_at = ${at}
          WHERE id = ${id} AND revoked_at IS NULL AND ${of === undefined ? sql`true` : sql`agent_id = ${of}`}
          RETURNING id, agent_id, tenant_id, subject`
    })

    return {
      /** The client that an assertion names; read past row-level security, since the tenant is not known yet. */
      client: Effect.fn("TokensRepository.client")((agentId: AgentId, kid: string) =>
        Effect.orDie(selectClient({ agentId, kid }))
      ),
      state: Effect.fn("TokensRepository.state")((id: CredentialId) => Effect.orDie(selectState(id))),
      /** The client with its subject and the grants between them, in one question. */
      exchange: Effect.fn("TokensRepository.exchange")((look: typeof ExchangeLook.Type) =>
        Effect.orDie(selectExchange(look))
      ),
      /** Until when a sign-in lasts, if it is there. */
      sessionEnd: Effect.fn("TokensRepository.sessionEnd")((id: string) =>
        Effect.map(
          Effect.orDie(selectSessionEnd(id)),
          Option.map(({ expiresAt }) => expiresAt)
        )
      ),
      /** Mints in one statement that writes its own audit entry; answers why not, or null. */
      mint: Effect.fn("TokensRepository.mint")((request: object) =>
        Effect.orDie(Effect.map(callMint(JSON.stringify(request)), ({ refusal }) => refusal))
      ),
      /** Uses up an assertion for something other than minting; false when it was used before. */
      useAssertion: Effect.fn("TokensRepository.useAssertion")(
        (agentId: AgentId, jti: string, expiresAt: DateTime.Utc) =>
          Effect.orDie(Effect.map(callUse({ agentId, jti, expiresAt }), ({ first }) => first))
      ),
      list: Effect.fn("TokensRepository.list")((agentId: AgentId, after: CredentialId | undefined, limit: number) =>
        Effect.orDie(selectPage({ agentId, after, limit }))
      ),
      /** Ends a credential that the transaction sees and that still lives, of one agent alone when given. */
      revoke: Effect.fn("TokensRepository.revoke")((id: CredentialId, of: AgentId | undefined, at: DateTime.Utc) =>
        Change.use(() => Effect.orDie(updateRevoked({ id, of, at })))
      ),
      /** Removes what expired before a moment: assertions that are no longer accepted, and old credentials. */
      purge: Effect.fn("TokensRepository.purge")((assertions: DateTime.Utc, credentials: DateTime.Utc) =>
        sql`DELETE FROM agent_assertions WHERE expires_at < ${DateTime.toDateUtc(assertions)}`.pipe(
          Effect.andThen(sql`DELETE FROM agent_credentials WHERE expires_at < ${DateTime.toDateUtc(credentials)}`),
          Effect.asVoid,
          Effect.orDie
        )
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
