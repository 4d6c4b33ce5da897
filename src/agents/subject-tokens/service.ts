import { Context, DateTime, Effect, Layer, Option, Redacted, Result, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { Audit } from "../../audit/log/service.ts"
import { AttestationKeys } from "../../audit/signing-keys/service.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { Uuid } from "../../kernel/identifier.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { TokensRepository } from "../agent-credentials/repository.ts"
import { AgentId } from "../agents/domain.ts"
import { Agents } from "../agents/service.ts"
import { subjectTokenActions, type SubjectTokenRequest, subjectTokenSeconds, subjectTokenType } from "./domain.ts"

// Claims are exact (RFC 7519 §2): an id in another case is another one.
const Claims = Schema.toType(
  Schema.Struct({ iss: Schema.String, sub: Schema.String, aud: AgentId, exp: Schema.Int, sid: Uuid })
)

/** The claims of a subject token. Its current rights are those of the sign-in that it was issued from. */
export interface SaidSubject {
  readonly name: string
  readonly sessionId: string
  readonly expiresAt: DateTime.Utc
}

/** Tokens by which accounts let agents act for them: signed, short, and good for one agent's exchanges alone. */
export class SubjectTokens extends Context.Service<SubjectTokens>()("app/agents/SubjectTokens", {
  make: Effect.gen(function* () {
    const agents = yield* Agents
    const audit = yield* Audit
    const keys = yield* AttestationKeys
    const random = yield* SecureRandom.SecureRandom
    const repository = yield* TokensRepository
    const { api, auth } = yield* Settings

    const issue = Effect.fn("SubjectTokens.issue")(function* ({ agentId }: SubjectTokenRequest) {
      const agent = yield* agents.get(agentId)
      const { name: subject, sessionId = "" } = yield* CurrentPrincipal
      const now = yield* DateTime.now
      // A sign-in that is in use now lasts its idle time at least, so the token outlives it only if it is ended.
      const seconds = Math.min(subjectTokenSeconds, auth.sessionIdleSeconds)
      const ends = Option.getOrElse(yield* repository.sessionEnd(sessionId), () => now)
      const nowSeconds = Math.floor(now.epochMilliseconds / 1000)
      const exp = Math.min(nowSeconds + seconds, Math.floor(ends.epochMilliseconds / 1000))
      const jti = yield* random.uuidV7()
      const claims = { iss: api.publicUrl, sub: subject, aud: agentId, iat: nowSeconds, exp, jti, sid: sessionId }
      const signer = yield* Effect.orDie(keys.signer("sign-tokens"))
      const text = yield* signer.sign(subjectTokenType, claims)
      const entry = { action: subjectTokenActions.SubjectTokenIssued, entityId: jti, tenantId: agent.tenantId }
      return {
        value: {
          subjectToken: Redacted.make(text, { label: "subject-token" }),
          expiresIn: exp - nowSeconds,
          expiresAt: DateTime.makeUnsafe(exp * 1000)
        },
        entries: [{ ...entry, after: { agentId, subject } }]
      }
    }, audit.change)

    const read = Effect.fn("SubjectTokens.read")(function* (token: string, agentId: string) {
      const verified = yield* keys.verify("sign-tokens", subjectTokenType, token)
      const claims = Result.isSuccess(verified) ? decodeClaims(verified.success) : Option.none()
      if (Option.isNone(claims)) return Option.none()
      const { aud, exp, iss, sid, sub } = claims.value
      const expiresAt = DateTime.makeUnsafe(exp * 1000)
      const isOver = DateTime.isLessThanOrEqualTo(expiresAt, yield* DateTime.now)
      return iss !== api.publicUrl || aud !== agentId || isOver
        ? Option.none()
        : Option.some({ name: sub, sessionId: sid, expiresAt })
    })

    return {
      /** For the account that calls, and an agent that it may see. */
      issue,
      /** What a token for this agent says that is not over; none for any other text. */
      read
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(TokensRepository.layer))
}

const decodeClaims = Schema.decodeUnknownOption(Claims)
