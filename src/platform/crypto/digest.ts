import { Effect, Layer } from "effect"
import { Digest } from "effect/crypto"
import { hash } from "node:crypto"

const nodeNames = {
  MD5: "md5",
  "SHA-1": "sha1",
  "SHA-256": "sha256",
  "SHA-384": "sha384",
  "SHA-512": "sha512"
} as const

/** Digests in one call of Node's, without a hash object: every request with a key computes one. */
export const DigestLayer = Layer.succeed(Digest.Digest, {
  digest: (algorithm, data) =>
    Effect.sync(() => hash(nodeNames[algorithm.name], data, "buffer") as Uint8Array<ArrayBuffer>),
  digestHex: (algorithm, data) => Effect.sync(() => hash(nodeNames[algorithm.name], data, "hex"))
})
