import { Effect, Redacted } from "effect"
import { Digest, type SecureRandom } from "effect/crypto"
import { crc32 } from "node:zlib"

/**
 * `amk_` and base62: 12 characters of public id, 43 of a 256-bit secret, 6 of CRC-32 over all before it, so that a typo
 * or a leaked string is recognised offline.
 */
const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
const prefix = "amk_"
const publicIdLength = 12
const secretLength = 43
const form = /^amk_[0-9A-Za-z]{61}$/

export interface ParsedKey {
  readonly publicId: string
  readonly secret: string
}

const checksum = (text: string): string => {
  let rest = crc32(text)
  let digits = ""
  for (let i = 0; i < 6; i++) {
    digits = alphabet.charAt(rest % 62) + digits
    rest = Math.floor(rest / 62)
  }
  return digits
}

/** The part of a presented key that may be stored: its public id, if it has the form of a key, whatever its checksum. */
export const publicPartOf = (key: string): string | undefined =>
  form.test(key) ? key.slice(0, prefix.length + publicIdLength) : undefined

/** The parts of a well-formed key; undefined for anything else. */
export const parse = (key: string): ParsedKey | undefined => {
  if (!form.test(key)) return undefined
  const body = key.slice(0, -6)
  if (checksum(body) !== key.slice(-6)) return undefined
  const start = prefix.length
  return { publicId: body.slice(start, start + publicIdLength), secret: body.slice(start + publicIdLength) }
}

/** How a key begins, up to the end of its public id. */
export const start = (publicId: string): string => `${prefix}${publicId}`

/** Uniform base62 text: bytes of 248 and above are thrown away, so that no character is likelier than another. */
const randomText = Effect.fnUntraced(function* (random: SecureRandom.SecureRandom["Service"], length: number) {
  let text = ""
  while (text.length < length) {
    for (const byte of yield* random.randomBytes(length)) {
      if (byte < 248 && text.length < length) text += alphabet.charAt(byte % 62)
    }
  }
  return text
})

export const digestOf = (digest: Digest.Digest["Service"], secret: string) =>
  // Base62 has one byte for each character.
  digest.digest(Digest.sha256, Buffer.from(secret, "latin1"))

/** A new key with what is stored of it. */
export const generate = Effect.fnUntraced(function* (
  random: SecureRandom.SecureRandom["Service"],
  digest: Digest.Digest["Service"]
) {
  const publicId = yield* randomText(random, publicIdLength)
  const secret = yield* randomText(random, secretLength)
  const body = `${prefix}${publicId}${secret}`
  return {
    key: Redacted.make(`${body}${checksum(body)}`, { label: "api-key" }),
    publicId,
    secretSha256: yield* digestOf(digest, secret)
  }
})
