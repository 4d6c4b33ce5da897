import { Context, DateTime, Effect, Layer, Option, Result, Schema } from "effect"
import * as crypto from "node:crypto"
import { type Change } from "../log/domain.ts"
import { Audit } from "../log/service.ts"
import { type AttestationKey } from "../signing-keys/domain.ts"
import { KeyRing } from "../signing-keys/key-ring.ts"
import { isSignedBy } from "../signing-keys/public-keys.ts"
import { AttestationKeys, compromised, signatureDoesNotFit } from "../signing-keys/service.ts"
import {
  type GivenEnvelope,
  preAuthenticationEncoding,
  type Statement,
  statementActions,
  type StatementEnvelope,
  statementPayloadType,
  statementType,
  StatementVerdict
} from "./domain.ts"
import { StatementsRepository } from "./repository.ts"

/** A signed statement whose time of signing is to be recorded. */
export interface SignedStatement {
  readonly envelope: StatementEnvelope
  readonly digest: Uint8Array
  readonly keyId: string
  readonly signedAt: DateTime.Utc
}

const purpose = "sign-statements"

/** Statements in DSSE envelopes: signed with the installation's key, and verified with its keys and those it trusts. */
export class Statements extends Context.Service<Statements>()("app/audit/Statements", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const keys = yield* AttestationKeys
    const repository = yield* StatementsRepository
    const ring = yield* KeyRing

    const make = Effect.fn("Statements.make")(function* (statement: Statement) {
      const { keyId, signBytes } = yield* Effect.orDie(keys.signer(purpose))
      const payload = Buffer.from(JSON.stringify({ _type: statementType, ...statement }))
      const signature = yield* signBytes(preAuthenticationEncoding(statementPayloadType, payload))
      return {
        envelope: {
          payload: payload.toString("base64"),
          payloadType: statementPayloadType,
          signatures: [{ keyid: keyId, sig: Buffer.from(signature).toString("base64") }]
        },
        digest: digestOf(payload),
        keyId,
        signedAt: yield* DateTime.now
      } satisfies SignedStatement
    })

    const record = ({ digest, keyId, signedAt }: SignedStatement): Effect.Effect<void, never, Change> =>
      repository.insert({ digest, keyId, signedAt: DateTime.toDateUtc(signedAt) })

    const sign = Effect.fn("Statements.sign")(function* (statement: Statement) {
      const signed = yield* make(statement)
      const { predicateType, subject } = statement
      return yield* audit.change(
        Effect.as(record(signed), {
          value: signed.envelope,
          entries: [
            {
              action: statementActions.StatementSigned,
              entityId: Buffer.from(signed.digest).toString("hex"),
              after: { keyId: signed.keyId, predicateType, subject }
            }
          ]
        })
      )
    })

    /** Whether a key of the installation signed it while it was valid, or why it does not count. */
    const judgeOwn = Effect.fnUntraced(function* (key: AttestationKey, payload: Uint8Array, signature: Uint8Array) {
      const signed = yield* keys.verifyBytes(
        purpose,
        key.keyId,
        preAuthenticationEncoding(statementPayloadType, payload),
        signature
      )
      if (Result.isFailure(signed)) return Result.fail(signed.failure)
      const signedAt = yield* repository.signedAt(digestOf(payload), key.keyId)
      if (Option.isNone(signedAt)) {
        return Result.fail(`The installation has no record of signing it with the key ${key.keyId}`)
      }
      return key.isValidAt(signedAt.value)
        ? Result.succeed(key.keyId)
        : Result.fail(`The key ${key.keyId} was not valid when it signed, at ${DateTime.formatIso(signedAt.value)}`)
    })

    const verify = Effect.fn("Statements.verify")(function* ({ payload, payloadType, signatures }: GivenEnvelope) {
      if (payloadType !== statementPayloadType) {
        return refused(`The payload type is ${JSON.stringify(payloadType)}; ${statementPayloadType} is verified`)
      }
      const bytes = bytesOf(payload)
      if (bytes === undefined) return refused("The payload is not in Base64")
      const now = yield* DateTime.now
      // A replica that missed a notification must not trust a compromised key.
      yield* ring.reload
      const trusted = yield* keys.trusted
      const reasons = new Set<string>()
      for (const { keyid, sig } of signatures) {
        const signature = bytesOf(sig)
        const own = yield* ring.find(keyid ?? "")
        const judged =
          signature === undefined
            ? Result.fail("The signature is not in Base64")
            : own === undefined
              ? judgeTrusted(trusted, keyid ?? "", bytes, signature, now)
              : yield* judgeOwn(own, bytes, signature)
        if (Result.isFailure(judged)) reasons.add(judged.failure)
        else {
          const subject = subjectOf(bytes)
          return subject === undefined
            ? refused("The payload is no in-toto statement of version 1")
            : { verified: true, keyId: judged.success, subject, reason: null }
        }
      }
      return refused([...reasons].join("; "))
    })

    return {
      /** Signs a statement; its signature counts once it is recorded. */
      make,
      record,
      sign,
      verify
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(StatementsRepository.layer))
}

const refused = (reason: string): StatementVerdict => ({ verified: false, keyId: null, subject: null, reason })

const digestOf = (payload: Uint8Array): Uint8Array => crypto.createHash("sha256").update(payload).digest()

const bytesOf = (base64: string): Uint8Array | undefined =>
  /^[A-Za-z0-9+/_-]*={0,2}$/.test(base64) ? Buffer.from(base64, "base64") : undefined

const decodeStatement = Schema.decodeUnknownOption(
  Schema.fromJsonString(
    Schema.Struct({
      _type: Schema.Literal(statementType),
      subject: StatementVerdict.fields.subject.pipe((schema) => schema.members[0])
    })
  )
)

const subjectOf = (payload: Uint8Array): StatementVerdict["subject"] | undefined =>
  Option.getOrUndefined(decodeStatement(new TextDecoder().decode(payload)))?.subject

/** Whether a trusted key that is valid now signed it. A hint that names none of them says nothing. */
const judgeTrusted = (
  trusted: ReadonlyArray<AttestationKey>,
  hint: string,
  payload: Uint8Array,
  signature: Uint8Array,
  now: DateTime.Utc
): Result.Result<string, string> => {
  const named = trusted.find(({ keyId }) => keyId === hint)
  if (named?.status === "compromised") return Result.fail(compromised(named.keyId))
  if (named !== undefined && !named.mayVerify(now)) {
    return Result.fail(`The key ${named.keyId} is trusted no more, or not yet`)
  }
  const bytes = preAuthenticationEncoding(statementPayloadType, payload)
  const signer = (named === undefined ? trusted.filter((key) => key.mayVerify(now)) : [named]).find((key) =>
    isSignedBy(key, bytes, signature)
  )
  if (signer !== undefined) return Result.succeed(signer.keyId)
  return Result.fail(named === undefined ? "No key that is trusted signed it" : signatureDoesNotFit)
}
