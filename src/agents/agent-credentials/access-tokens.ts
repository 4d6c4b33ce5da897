import { Cache, Context, DateTime, Effect, Exit, Layer, Option, Result, Schema } from "effect"
import { Digest } from "effect/crypto"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { AgentTokenCheck, agentTokenActions } from "../../access/credential-checks.ts"
import { AttestationKeys, signatureDoesNotFit } from "../../audit/signing-keys/service.ts"
import { type Capability, intersection } from "../../kernel/authority/capability.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { Agents } from "../agents/service.ts"
import { accessTokenType, CredentialId } from "./domain.ts"
import { type CredentialState, TokensRepository } from "./repository.ts"

/** A valid credential with its current scopes, within the current limits of its agent and its delegation chain. */
export interface LiveToken {
  readonly state: CredentialState
  readonly scopes: ReadonlyArray<Capability>
}

export type TokenRefusal = "no-token-of-ours" | "unknown" | "revoked" | "expired"

/** The check of access tokens: the signature, then the stored credential, a second old at most. */
export class AccessTokens extends Context.Service<AccessTokens>()("app/agents/AccessTokens", {
  make: Effect.gen(function* () {
    const authCaches = yield* AuthCacheInvalidation
    const digest = yield* Digest.Digest
    const keys = yield* AttestationKeys
    const repository = yield* TokensRepository
    const { publicUrl } = (yield* Settings).api
    const itself = Schema.Literal(publicUrl)
    const decodeClaims = Schema.decodeUnknownOption(Schema.Struct({ iss: itself, aud: itself, jti: CredentialId }))
    // With the key that signs now, since the time of a check with an ended key would differ.
    let sample = { keyId: "", jws: "" }
    const sampleNow = Effect.gen(function* () {
      const { keyId, sign } = yield* Effect.orDie(keys.signer("sign-tokens"))
      if (sample.keyId !== keyId) sample = { keyId, jws: yield* sign(accessTokenType, { jti: "" }) }
      return sample.jws
    })

    // Invalid tokens take as long as valid ones, so that timing reveals nothing: a signature is checked, and a
    // credential looked up.
    const stranger = Effect.fnUntraced(function* (token: string, isChecked: boolean) {
      if (!isChecked) yield* keys.verify("sign-tokens", accessTokenType, yield* sampleNow)
      const hex = yield* digest.digestHex(Digest.sha256, new TextEncoder().encode(token))
      return {
        ours: false,
        id: CredentialId.make(hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12}).*$/, "$1-$2-$3-$4-$5"))
      }
    })
    const identify = Effect.fnUntraced(function* (token: string) {
      if (token.length > maxCharacters || !compact.test(token)) return yield* stranger(token, false)
      const verified = yield* keys.verify("sign-tokens", accessTokenType, token)
      if (Result.isFailure(verified)) return yield* stranger(token, verified.failure === signatureDoesNotFit)
      const claims = decodeClaims(verified.success)
      return Option.isSome(claims) ? { ours: true, id: claims.value.jti } : yield* stranger(token, true)
    })
    const identities = yield* Cache.make({ capacity: 10_000, timeToLive: "1 minute", lookup: identify })

    // For an invalid token the credential of another token is read, since reading a row takes longer than finding none.
    let known: CredentialId | undefined
    const read = (key: string) => {
      if (key.startsWith(ofStranger)) return repository.state(known ?? CredentialId.make(key.slice(ofStranger.length)))
      const id = CredentialId.make(key)
      return Effect.tap(repository.state(id), (state) => Effect.sync(() => (known = Option.isSome(state) ? id : known)))
    }
    const states = yield* Cache.makeWith(read, {
      capacity: 20_000,
      timeToLive: (exit) => (Exit.isSuccess(exit) ? "1 second" : 0)
    })
    yield* authCaches.onChange(Cache.invalidateAll(states))

    const inspect = Effect.fnUntraced(function* (token: string) {
      const identity = yield* Cache.get(identities, token)
      const { id } = identity
      // Its key may have ended since the signature was checked.
      const ours = identity.ours && (yield* keys.counts("sign-tokens", token))
      const state = Option.getOrUndefined(yield* Cache.get(states, ours ? id : `${ofStranger}${id}`))
      const now = yield* DateTime.now
      if (!ours) return yield* refused("no-token-of-ours")
      if (state === undefined) return yield* refused("unknown")
      if (!(yield* keys.counts("sign-tokens", token, state.compromisedKeyIds)))
        return yield* refused("no-token-of-ours")
      if (DateTime.isLessThanOrEqualTo(state.expiresAt, now)) return yield* refused("expired")
      if (!state.live) return yield* refused("revoked")
      return { state, scopes: within(state.scopes, [state.scopeCeiling, ...state.chainCeilings]) }
    })

    const credentialOf = (token: string) =>
      Effect.map(Cache.get(identities, token), ({ id, ours }) => (ours ? Option.some(id) : Option.none()))

    return {
      inspect,
      /** The credential of a token that this service signed, live or not. */
      credentialOf
    }
  })
}) {
  static readonly layerNoDeps = Layer.effect(this, this.make)

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(TokensRepository.layer))

  /** The same check for agents that authenticate. */
  static readonly layerCheck = Layer.effect(
    AgentTokenCheck,
    Effect.gen(function* () {
      const agents = yield* Agents
      const tokens = yield* AccessTokens
      return AgentTokenCheck.of({
        check: (token) =>
          tokens.inspect(token).pipe(
            Effect.tap(({ state }) => agents.seen(state.agentId)),
            Effect.map(({ scopes, state }) => ({
              kind: "agent" as const,
              name: `agent:${state.agentId}`,
              capabilities: scopes,
              tenantId: state.tenantId,
              applicationId: state.applicationId ?? undefined,
              ...(state.synthetic ? { synthetic: true } : {})
            })),
            Effect.mapError((reason) => ({
              action: agentTokenActions.AgentTokenRefused,
              target: "an access token",
              reason
            }))
          )
      })
    })
  )
}

const refused = (reason: TokenRefusal) => Effect.fail(reason)

const ofStranger = "stranger "
const maxCharacters = 8192
const compact = /^[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/

/** A ceiling that came down holds for what was granted before; that this leaves nothing does not end the credential. */
export const within = (
  scopes: ReadonlyArray<Capability>,
  ceilings: ReadonlyArray<ReadonlyArray<Capability>>
): ReadonlyArray<Capability> =>
  ceilings.reduce<ReadonlyArray<Capability>>(
    (left, ceiling) => (left.every((scope) => ceiling.includes(scope)) ? left : intersection(left, ceiling)),
    scopes
  )
