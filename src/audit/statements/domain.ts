import { Schema } from "effect"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { expectedExactIntegers, hasInexactInteger } from "../../kernel/json/parsed-json.ts"
import { storable, text } from "../../kernel/text.ts"

export const statementActions = auditActions("Statement", ["StatementSigned"])

export const statementPayloadType = "application/vnd.in-toto+json"
export const statementType = "https://in-toto.io/Statement/v1"

const hexadecimal = /^(?:[0-9a-f]{2})+$/u

/** What a statement is about: a name and its digests in hexadecimal, by algorithm. */
export const StatementSubject = Schema.Struct({
  name: text(1, 1000).annotate({ examples: ["billing-report-2026-11.csv"] }),
  digest: Schema.Record(
    text(1, 100),
    Schema.String.pipe(
      Schema.check(Schema.isPattern(hexadecimal, { expected: "an even number of lower-case hexadecimal digits" }))
    )
  )
    .pipe(Schema.check(Schema.makeFilter((digest) => Object.keys(digest).length > 0, { expected: "a digest" })))
    .annotate({
      description: "Each in hexadecimal, by its algorithm",
      examples: [{ sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" }]
    })
}).annotate({ identifier: "StatementSubject" })
export type StatementSubject = typeof StatementSubject.Type

const maxSubjects = 1000

/** What is stated about some subjects (in-toto Statement, version 1, without its `_type`). */
export const Statement = Schema.Struct({
  subject: Schema.Array(StatementSubject).pipe(Schema.check(Schema.isBetweenLength(1, maxSubjects))),
  predicateType: text(1, 1000)
    .pipe(Schema.check(Schema.isPattern(/^[a-z][a-z0-9+.-]*:\S+$/iu, { expected: "a URI" })))
    .annotate({ examples: ["https://example.com/audit-checkpoint/v1"] }),
  predicate: Schema.Record(storable(Schema.String), Schema.Json)
    .pipe(
      Schema.check(
        Schema.makeFilter((predicate) => !hasInexactInteger(predicate), {
          expected: expectedExactIntegers,
          toJsonSchema: () => ({})
        })
      )
    )
    .annotate({
      description: "What is stated, in the form that `predicateType` names",
      examples: [{ sequence: 1000 }]
    })
}).annotate({ identifier: "Statement" })
export type Statement = typeof Statement.Type

/** An in-toto statement, version 1, in a DSSE envelope: each signature is over the payload and its type. */
export const StatementEnvelope = Schema.Struct({
  payload: Schema.String.annotate({ description: "The statement as JSON in Base64", examples: ["e30="] }),
  payloadType: Schema.Literal(statementPayloadType),
  signatures: Schema.Array(Schema.Struct({ keyid: Schema.String, sig: Schema.String })).annotate({
    description: "In Base64, each by a key of `/.well-known/attestation-keys.json`"
  })
}).annotate({ identifier: "StatementEnvelope" })
export type StatementEnvelope = typeof StatementEnvelope.Type

const maxSignatures = 20

/** An envelope to verify, which anyone may have made: a `keyid` is a hint (DSSE 1.0). */
const GivenEnvelope = Schema.Struct({
  payload: storable(Schema.String.annotate({ description: "In Base64, with either alphabet", examples: ["e30="] })),
  payloadType: storable(Schema.String.annotate({ examples: [statementPayloadType] })),
  signatures: Schema.Array(
    Schema.Struct({ keyid: Schema.optionalKey(Schema.NullOr(storable(Schema.String))), sig: storable(Schema.String) })
  ).pipe(Schema.check(Schema.isBetweenLength(1, maxSignatures)))
}).annotate({ identifier: "GivenStatementEnvelope" })
export type GivenEnvelope = typeof GivenEnvelope.Type

export const StatementToVerify = Schema.Struct({ statement: GivenEnvelope }).annotate({
  identifier: "StatementToVerify",
  examples: [
    { statement: { payload: "e30=", payloadType: statementPayloadType, signatures: [{ keyid: "a key", sig: "AA==" }] } }
  ]
})

/** What verifying says. */
export const StatementVerdict = Schema.Struct({
  verified: Schema.Boolean,
  keyId: Schema.NullOr(Schema.String).annotate({
    description: "The key that signed it; null when it is not verified",
    examples: ["kPrK_qmxVWaYVA9wwBF6Iuo3vVzz7TxHCTwXBygrS4k"]
  }),
  subject: Schema.NullOr(
    Schema.Array(
      Schema.Struct({
        name: Schema.optionalKey(Schema.String),
        digest: Schema.optionalKey(Schema.Record(Schema.String, Schema.String))
      })
    )
  ).annotate({ description: "What it is about; null when it is not verified" }),
  reason: Schema.NullOr(Schema.String).annotate({
    description: "Why it is not verified; null when it is",
    examples: ["The signature does not fit"]
  })
}).annotate({ identifier: "StatementVerdict" })
export type StatementVerdict = typeof StatementVerdict.Type

/** The bytes that a DSSE signature is over. */
export const preAuthenticationEncoding = (payloadType: string, payload: Uint8Array): Uint8Array => {
  const type = Buffer.from(payloadType)
  return Buffer.concat([
    Buffer.from(`DSSEv1 ${type.byteLength} `),
    type,
    Buffer.from(` ${payload.byteLength} `),
    payload
  ])
}
