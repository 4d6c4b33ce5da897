import { Effect, type Schema } from "effect"
import { type SealBroken } from "../../platform/crypto/sealing.ts"
import { AttestationKeys } from "../signing-keys/service.ts"
import {
  preAuthenticationEncoding,
  type StatementEnvelope,
  statementPayloadType,
  type StatementSubject
} from "./domain.ts"

export interface Statement {
  readonly subject: ReadonlyArray<StatementSubject>
  readonly predicateType: string
  readonly predicate: Schema.Json
}

/** Signs a statement with the installation's key. */
export const signStatement = Effect.fn("Attestation.signStatement")(function* (
  statement: Statement
): Effect.fn.Return<StatementEnvelope, SealBroken, AttestationKeys> {
  const { keyId, signBytes } = yield* (yield* AttestationKeys).signer("sign-statements")
  const payload = Buffer.from(JSON.stringify({ _type: "https://in-toto.io/Statement/v1", ...statement }))
  const signature = yield* signBytes(preAuthenticationEncoding(payload))
  return {
    payload: payload.toString("base64"),
    payloadType: statementPayloadType,
    signatures: [{ keyid: keyId, sig: Buffer.from(signature).toString("base64") }]
  }
})
