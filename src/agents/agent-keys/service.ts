import { Context, DateTime, Effect, Layer, Schema } from "effect"
import { Model } from "effect/schema"
import * as jose from "jose"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { Audit } from "../../audit/log/service.ts"
import { requireBounds, untilCallerEnds } from "../../kernel/authority/authority.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { Database } from "../../platform/database/database.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { type AgentId, AgentNotActive } from "../agents/domain.ts"
import { Agents } from "../agents/service.ts"
import {
  AgentKey,
  agentKeyActions,
  type AgentKeyId,
  AgentKeyLimit,
  type AgentKeyRegistration,
  AgentKeyUnusable,
  AgentKeyView
} from "./domain.ts"
import { validateProof } from "./proof.ts"
import { readPublicKey } from "./public-key.ts"
import { AgentKeysRepository } from "./repository.ts"

const maxLive = 5

export class AgentKeys extends Context.Service<AgentKeys>()("app/agents/AgentKeys", {
  make: Effect.gen(function* () {
    const agents = yield* Agents
    const audit = yield* Audit
    const authCaches = yield* AuthCacheInvalidation
    const database = yield* Database
    const repository = yield* AgentKeysRepository
    const settings = yield* Settings

    const list = Effect.fn("AgentKeys.list")(function* (agentId: AgentId, page: ListRequest<AgentKeyId>) {
      yield* agents.get(agentId)
      const { items, nextCursor } = yield* database.asCaller(repository.list({ agentId }, page))
      return { items: items.map(toResponse(yield* DateTime.now)), nextCursor }
    })

    const prove = (agentId: AgentId, { algorithm, proof }: AgentKeyRegistration, publicKey: jose.JWK) => {
      if (proof !== undefined) {
        return validateProof(proof, { agentId, algorithm, publicKey, issuer: settings.api.publicUrl })
      }
      return settings.agents.requireKeyProof
        ? Effect.fail(new AgentKeyUnusable({ detail: "A proof of the private half is required." }))
        : Effect.void
    }

    const register = Effect.fn("AgentKeys.register")(function* (agentId: AgentId, input: AgentKeyRegistration) {
      const agent = yield* agents.take(agentId)
      yield* requireBounds({ applicationId: agent.applicationId })
      if (agent.status === "retired") return yield* new AgentNotActive({ detail: "The agent is retired." })
      const read = readPublicKey(input.publicKeyPem, input.algorithm)
      if (read.fault !== undefined) return yield* new AgentKeyUnusable({ detail: read.fault })
      const now = yield* DateTime.now
      const window = yield* windowOf(input, now)
      yield* prove(agentId, input, read.jwk)
      if ((yield* repository.live(agentId, now)) >= maxLive) return yield* new AgentKeyLimit({})
      const thumbprint = yield* Effect.promise(() => jose.calculateJwkThumbprint(read.jwk))
      const key = yield* repository.insert(
        AgentKey.insert.make({
          tenantId: agent.tenantId,
          agentId,
          kid: input.kid,
          algorithm: input.algorithm,
          publicKeyPem: read.pem,
          thumbprint,
          ...window,
          createdAt: Model.Override(now),
          createdBy: (yield* CurrentPrincipal).name
        })
      )
      yield* authCaches.announce
      const view = toResponse(now)(key)
      return {
        value: view,
        entries: [
          {
            action: agentKeyActions.AgentKeyRegistered,
            entityId: key.id,
            tenantId: agent.tenantId,
            after: snapshot(view)
          }
        ]
      }
    }, audit.change)

    const revoke = Effect.fn("AgentKeys.revoke")(function* (
      agentId: AgentId,
      id: AgentKeyId,
      withCredentials: boolean
    ) {
      const agent = yield* agents.take(agentId)
      const before = yield* repository.lock({ id, agentId })
      if (before.revokedAt !== null && (before.credentialsRevoked || !withCredentials)) {
        return { value: undefined, entries: [] }
      }
      const now = yield* DateTime.now
      const after = yield* repository.revoke(id, now, withCredentials)
      yield* authCaches.announce
      return {
        value: undefined,
        entries: [
          {
            action: agentKeyActions.AgentKeyRevoked,
            entityId: id,
            tenantId: agent.tenantId,
            before: { ...snapshot(toResponse(now)(before)), credentialsRevoked: before.credentialsRevoked },
            after: { ...snapshot(toResponse(now)(after)), credentialsRevoked: after.credentialsRevoked }
          }
        ]
      }
    }, audit.change)

    return {
      list,
      register,
      /** Ends a key, and with it what it minted if `withCredentials`; again does nothing. */
      revoke
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(AgentKeysRepository.layer))
}

const snapshot = Schema.encodeSync(AgentKeyView)

/** The validity period of a key: one year from now, unless the request gives a period within that. */
const windowOf = Effect.fnUntraced(function* (input: AgentKeyRegistration, now: DateTime.Utc) {
  const latest = DateTime.add(now, { years: 1 })
  const validFrom = input.validFrom ?? now
  const validUntil = input.validUntil ?? (yield* untilCallerEnds(latest))
  yield* requireBounds({ expiresAt: validUntil })
  if (DateTime.isGreaterThan(validUntil, latest)) {
    return yield* new AgentKeyUnusable({ detail: "validUntil is more than a year ahead." })
  }
  return DateTime.isGreaterThan(validUntil, DateTime.max(validFrom, now))
    ? { validFrom, validUntil }
    : yield* new AgentKeyUnusable({ detail: "validUntil is not after validFrom, or is over." })
})

const toResponse =
  (now: DateTime.Utc) =>
  (key: AgentKey): AgentKeyView => ({
    id: key.id,
    agentId: key.agentId,
    kid: key.kid,
    algorithm: key.algorithm,
    publicKeyPem: key.publicKeyPem,
    thumbprint: key.thumbprint,
    validFrom: key.validFrom,
    validUntil: key.validUntil,
    status: key.status(now),
    createdAt: key.createdAt,
    createdBy: key.createdBy,
    revokedAt: key.revokedAt
  })
