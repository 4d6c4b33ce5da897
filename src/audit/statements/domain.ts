import { Schema } from "effect"

export const statementPayloadType = "application/vnd.in-toto+json"

/** What a statement is about: a name and its digests in hexadecimal, by algorithm. */
export const StatementSubject = Schema.Struct({
  name: Schema.String.annotate({ examples: ["billing-report-2026-11.csv"] }),
  digest: Schema.Record(Schema.String, Schema.String).annotate({
    examples: [{ sha256: "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855" }]
  })
})
export type StatementSubject = typeof StatementSubject.Type

/** An in-toto statement, version 1, in a DSSE envelope: each signature is over the payload and its type. */
export const StatementEnvelope = Schema.Struct({
  payload: Schema.String.annotate({ description: "The statement as JSON in Base64" }),
  payloadType: Schema.Literal(statementPayloadType),
  signatures: Schema.Array(Schema.Struct({ keyid: Schema.String, sig: Schema.String })).annotate({
    description: "In Base64, each by a key of `/.well-known/attestation-keys.json`"
  })
}).annotate({ identifier: "StatementEnvelope" })
export type StatementEnvelope = typeof StatementEnvelope.Type

/** The bytes that a DSSE signature is over. */
export const preAuthenticationEncoding = (payload: Uint8Array): Uint8Array => {
  const head = new TextEncoder().encode(
    `DSSEv1 ${statementPayloadType.length} ${statementPayloadType} ${payload.byteLength} `
  )
  const encoded = new Uint8Array(head.byteLength + payload.byteLength)
  encoded.set(head)
  encoded.set(payload, head.byteLength)
  return encoded
}
