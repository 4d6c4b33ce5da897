import { Context, Effect, Layer, Option, Schema } from "effect"
import { createCipheriv, createDecipheriv, createHmac } from "node:crypto"
import { type TenantId } from "../../kernel/identifier.ts"
import { Sealing } from "../../platform/crypto/sealing.ts"
import { ThinkingBlock } from "../formats/common-form/domain.ts"

const Thoughts = Schema.fromJsonString(Schema.Array(ThinkingBlock))
const encode = Schema.encodeSync(Thoughts)
const decode = Schema.decodeUnknownOption(Thoughts)

const cipher = "aes-256-gcm"
const nonceLength = 12
const tagLength = 16

/**
 * Signed thoughts of a model as `encrypted_content` of a reasoning item (AES-256-GCM): callers send them back, and only
 * their tenant's calls restore them. The nonce is derived from the text, so that equal texts alone share one.
 */
export class SealedThoughts extends Context.Service<
  SealedThoughts,
  {
    seal(tenantId: TenantId, thoughts: ReadonlyArray<ThinkingBlock>): string
    /** None of what another service, or another tenant's call, sealed. */
    open(tenantId: TenantId, sealed: string): ReadonlyArray<ThinkingBlock>
  }
>()("app/gateway/SealedThoughts") {
  static readonly layer = Layer.effect(
    SealedThoughts,
    Effect.gen(function* () {
      const key = yield* (yield* Sealing).fingerprint(new TextEncoder().encode("gateway-thoughts/v1"))

      const opened = (tenantId: TenantId, sealed: string): string | undefined => {
        const bytes = Buffer.from(sealed, "base64url")
        if (bytes.length < nonceLength + tagLength) return undefined
        const decipher = createDecipheriv(cipher, key, bytes.subarray(0, nonceLength))
        decipher.setAAD(Buffer.from(tenantId)).setAuthTag(bytes.subarray(-tagLength))
        try {
          const text = decipher.update(bytes.subarray(nonceLength, -tagLength))
          return Buffer.concat([text, decipher.final()]).toString("utf8")
        } catch {
          return undefined
        }
      }

      return SealedThoughts.of({
        seal: (tenantId, thoughts) => {
          const text = encode(thoughts)
          const nonce = createHmac("sha256", key).update(`${tenantId} ${text}`).digest().subarray(0, nonceLength)
          const made = createCipheriv(cipher, key, nonce).setAAD(Buffer.from(tenantId))
          const closed = Buffer.concat([made.update(text, "utf8"), made.final()])
          return Buffer.concat([nonce, closed, made.getAuthTag()]).toString("base64url")
        },
        open: (tenantId, sealed) => Option.getOrElse(decode(opened(tenantId, sealed)), () => [])
      })
    })
  )
}
