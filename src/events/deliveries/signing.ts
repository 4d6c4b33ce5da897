import { Effect } from "effect"
import { type SecureRandom } from "effect/crypto"
import { createHmac } from "node:crypto"

const prefix = "whsec_"
const secretBytes = 32

/** A new secret of Standard Webhooks: `whsec_` and random bytes in base64. */
export const newSecret = (random: SecureRandom.SecureRandom["Service"]): Effect.Effect<string> =>
  Effect.map(random.randomBytes(secretBytes), (bytes) => prefix + Buffer.from(bytes).toString("base64"))

/** The headers of Standard Webhooks: a signature by each of the secrets, so that a receiver may know either. */
export const signatureHeaders = (
  secrets: ReadonlyArray<string>,
  id: string,
  epochMillis: number,
  body: string | Uint8Array
): Readonly<Record<string, string>> => {
  const timestamp = String(Math.floor(epochMillis / 1000))
  const signatures = secrets.map((secret) => {
    const key = Buffer.from(secret.slice(prefix.length), "base64")
    return `v1,${createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest("base64")}`
  })
  return {
    "webhook-id": id,
    "webhook-timestamp": timestamp,
    ...(signatures.length === 0 ? {} : { "webhook-signature": signatures.join(" ") })
  }
}
