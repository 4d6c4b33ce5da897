import { Context, DateTime, Effect, Layer, Option, Redacted, Result, Schema } from "effect"
import { SecureRandom } from "effect/crypto"
import { AgentId, type AgentNotFound } from "../agents/domain.ts"
import { Agents } from "../agents/service.ts"
import { AttestationKeys } from "../attestation/service.ts"
import { Audit } from "../audit/service.ts"
import { CurrentPrincipal } from "../auth/domain.ts"
import { Uuid } from "../kernel/identifier.ts"
import { Settings } from "../platform/settings.ts"
import { type AccountSubject, TokensRepository } from "./repository.ts"
import {
  type SubjectToken,
  subjectTokenActions,
  type SubjectTokenRequest,
  subjectTokenSeconds,
  subjectTokenType
} from "./subject-domain.ts"

const Claims = Schema.Struct({ iss: Schema.String, sub: Schema.String, aud: AgentId, exp: Schema.Int })

/** An account as it stands, and how long its token lets somebody act for it. */
export interface PresentedAccount {
  readonly account: AccountSubject
  readonly expiresAt: DateTime.Utc
}

/** Tokens by which accounts let agents act for them: signed, short, and good for one agent's exchanges alone. */
export class SubjectTokens extends Context.Service<
  SubjectTokens,
  {
    /** For the account that calls, and an agent that it may see. */
    issue(request: SubjectTokenRequest): Effect.Effect<SubjectToken, AgentNotFound>
    /** The live account that a token is of, if it is for this agent; none for any other text. */
    identify(token: string, agentId: AgentId): Effect.Effect<Option.Option<PresentedAccount>>
  }
>()("app/tokens/SubjectTokens") {
  static readonly layerNoDeps = Layer.effect(
    SubjectTokens,
    Effect.gen(function* () {
      const agents = yield* Agents
      const audit = yield* Audit
      const keys = yield* AttestationKeys
      const random = yield* SecureRandom.SecureRandom
      const repository = yield* TokensRepository
      const { publicUrl } = (yield* Settings).api

      const issue = Effect.fn("SubjectTokens.issue")(function* ({ agentId }: SubjectTokenRequest) {
        const agent = yield* agents.get(agentId)
        const principal = yield* CurrentPrincipal
        const nowSeconds = Math.floor((yield* DateTime.now).epochMilliseconds / 1000)
        const exp = nowSeconds + subjectTokenSeconds
        const jti = yield* random.uuidV7()
        const claims = { iss: publicUrl, sub: principal.name, aud: agentId, iat: nowSeconds, exp, jti }
        const signer = yield* Effect.orDie(keys.signer("sign-tokens"))
        const text = yield* signer.sign(subjectTokenType, claims)
        const entry = { action: subjectTokenActions.SubjectTokenIssued, entityId: jti, tenantId: agent.tenantId }
        return {
          value: {
            subjectToken: Redacted.make(text, { label: "subject-token" }),
            expiresIn: subjectTokenSeconds,
            expiresAt: DateTime.makeUnsafe(exp * 1000)
          },
          entries: [{ ...entry, after: { agentId, subject: principal.name } }]
        }
      }, audit.change)

      const identify = Effect.fn("SubjectTokens.identify")(function* (token: string, agentId: AgentId) {
        const verified = yield* keys.verify("sign-tokens", subjectTokenType, token)
        const claims = Result.isSuccess(verified) ? decodeClaims(verified.success) : Option.none()
        if (Option.isNone(claims)) return Option.none()
        const { aud, exp, iss, sub } = claims.value
        const expiresAt = DateTime.makeUnsafe(exp * 1000)
        const isOver = DateTime.isLessThanOrEqualTo(expiresAt, yield* DateTime.now)
        const id = decodeAccount(sub)
        if (iss !== publicUrl || aud !== agentId || isOver || Option.isNone(id)) return Option.none()
        const account = yield* repository.account(id.value)
        return Option.map(
          Option.filter(account, ({ live }) => live),
          (found) => ({ account: found, expiresAt })
        )
      })

      return SubjectTokens.of({ issue, identify })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(TokensRepository.layer))
}

const decodeClaims = Schema.decodeUnknownOption(Claims)
const accountPrefix = "account:"
const decodeId = Schema.decodeOption(Uuid)
const decodeAccount = (sub: string) =>
  sub.startsWith(accountPrefix) ? decodeId(sub.slice(accountPrefix.length)) : Option.none()
