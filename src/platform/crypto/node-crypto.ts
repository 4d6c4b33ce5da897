import { Effect, Layer } from "effect"
import { Digest, SecureRandom } from "effect/crypto"
import { hash } from "node:crypto"

const poolBytes = 8192
const maxPooledBytes = 64
let pool: Uint8Array = new Uint8Array(0)
let next = 0

/** Random bytes from a pool, since a system call for every id costs more than the id. Each byte is used once. */
export const randomBytes = (size: number): Uint8Array => {
  if (size > maxPooledBytes) return SecureRandom.randomBytesUnsafe(size)
  if (next + size > pool.length) {
    pool = SecureRandom.randomBytesUnsafe(poolBytes)
    next = 0
  }
  const bytes = pool.slice(next, next + size)
  pool.fill(0, next, (next += size))
  return bytes
}

export const SecureRandomLayer = Layer.succeed(SecureRandom.SecureRandom, SecureRandom.make(randomBytes))

const nodeNames = {
  MD5: "md5",
  "SHA-1": "sha1",
  "SHA-256": "sha256",
  "SHA-384": "sha384",
  "SHA-512": "sha512"
} as const

/** Digests in one call of Node, without a hash object: every request with an API key computes one. */
export const DigestLayer = Layer.succeed(Digest.Digest, {
  digest: (algorithm, data) =>
    Effect.sync(() => hash(nodeNames[algorithm.name], data, "buffer") as Uint8Array<ArrayBuffer>),
  digestHex: (algorithm, data) => Effect.sync(() => hash(nodeNames[algorithm.name], data, "hex"))
})

/** 128 bits of the SHA-256 of a text or of bytes, as an entity tag has them. */
export const shortDigest = (data: string | Uint8Array): string => hash("sha256", data, "base64url").slice(0, 22)
