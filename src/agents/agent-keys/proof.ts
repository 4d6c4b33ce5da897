import { DateTime, Effect, Schema } from "effect"
import * as jose from "jose"
import { type AgentId } from "../agents/domain.ts"
import { AgentKeyUnusable, type KeyAlgorithm } from "./domain.ts"

const type = "key-proof+jwt"
const freshSeconds = 60

const Claims = Schema.Struct({ aud: Schema.String, sub: Schema.String, iat: Schema.Int })

/** What a proof must be of. */
export interface ProofOf {
  readonly agentId: AgentId
  readonly algorithm: KeyAlgorithm
  readonly publicKey: jose.JWK
  readonly issuer: string
}

const unproven = (detail: string) => new AgentKeyUnusable({ detail })

/** Validates the proof that the caller has the private key: a JWT by that key, issued for this agent within a minute. */
export const validateProof = Effect.fnUntraced(function* (
  proof: string,
  { agentId, algorithm, issuer, publicKey }: ProofOf
) {
  const verified = yield* Effect.tryPromise({
    try: async () =>
      jose.compactVerify(proof, await jose.importJWK(publicKey, algorithm), {
        algorithms: algorithm === "EdDSA" ? ["EdDSA", "Ed25519"] : [algorithm]
      }),
    catch: () => unproven("The proof is not signed by the key.")
  })
  if (verified.protectedHeader.typ !== type) return yield* unproven(`The proof's typ is not ${type}.`)
  const claims = yield* Schema.decodeUnknownEffect(Schema.fromJsonString(Claims))(
    new TextDecoder().decode(verified.payload)
  ).pipe(Effect.mapError(() => unproven("The proof needs aud, sub and iat.")))
  const nowSeconds = Math.floor((yield* DateTime.now).epochMilliseconds / 1000)
  if (claims.aud !== issuer) return yield* unproven("The proof's aud is not the issuer.")
  if (claims.sub !== agentId) return yield* unproven("The proof's sub is not the agent.")
  if (Math.abs(nowSeconds - claims.iat) > freshSeconds)
    return yield* unproven("The proof's iat is not within a minute.")
})
