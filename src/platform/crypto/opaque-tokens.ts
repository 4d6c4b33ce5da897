import { Effect, Redacted } from "effect"
import { Digest, type SecureRandom } from "effect/crypto"
import { createHmac } from "node:crypto"

const secretBytes = 32

/** A token as its bearer has it: a prefix for its kind, and 256 bits in base64url. */
const written = (prefix: string, bytes: Uint8Array): Redacted.Redacted =>
  Redacted.make(`${prefix}_${Buffer.from(bytes).toString("base64url")}`, { label: "token" })

/** Makes a token; `amt` is a session's, `amc` a claim's, `amv` an invitation's, `ami` registers an application and `amr` reads its registration. */
export const generate = (random: SecureRandom.SecureRandom["Service"], prefix: "amt" | "amc" | "amv" | "ami" | "amr") =>
  Effect.map(random.randomBytes(secretBytes), (bytes) => written(prefix, bytes))

/**
 * The token that takes another's place: always the same one, so that several tabs that refresh at the same time get one
 * line of tokens and not several. It needs both the token and the secret of its sign-in.
 */
export const successor = (token: Redacted.Redacted, rotationSecret: Uint8Array): Redacted.Redacted =>
  written("amt", createHmac("sha256", rotationSecret).update(Redacted.value(token)).digest())

/** What is stored of a token. */
export const sha256Of = (digest: Digest.Digest["Service"], token: Redacted.Redacted): Effect.Effect<Uint8Array> =>
  Effect.orDie(digest.digest(Digest.sha256, new TextEncoder().encode(Redacted.value(token))))
