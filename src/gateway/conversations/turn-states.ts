import { Context, Effect, Layer, Option, Schema } from "effect"
import { createCipheriv, createDecipheriv, createHmac } from "node:crypto"
import { type TenantId } from "../../kernel/identifier.ts"
import { Sealing } from "../../platform/crypto/sealing.ts"
import { isSealedState, sealedPrefix, type TurnSeals } from "../formats/common-form/turn-state.ts"

const decode = Schema.decodeUnknownOption(Schema.fromJsonString(Schema.Array(Schema.Unknown)))

const ownerOf = (tenantId: TenantId, provider: string) => Buffer.from(`${tenantId} ${provider}`)

const cipher = "aes-256-gcm"
const nonceLength = 12
const tagLength = 16

/**
 * What a provider wants back with a turn (signatures, thoughts), sealed for the caller who keeps the conversation
 * (AES-256-GCM): only calls of the same tenant restore it, and only for the provider that made it. The nonce is derived from
 * the text, so that equal texts alone share one.
 */
export class TurnStates extends Context.Service<
  TurnStates,
  {
    of(tenantId: TenantId): TurnSeals
  }
>()("app/gateway/TurnStates") {
  static readonly layer = Layer.effect(
    TurnStates,
    Effect.gen(function* () {
      const key = yield* (yield* Sealing).fingerprint(new TextEncoder().encode("gateway-turn-states/v1"))

      const opened = (owner: Buffer, sealed: string): string | undefined => {
        const bytes = Buffer.from(sealed.slice(sealedPrefix.length), "base64")
        if (bytes.length < nonceLength + tagLength) return undefined
        const decipher = createDecipheriv(cipher, key, bytes.subarray(0, nonceLength))
        decipher.setAAD(owner).setAuthTag(bytes.subarray(-tagLength))
        try {
          const text = decipher.update(bytes.subarray(nonceLength, -tagLength))
          return Buffer.concat([text, decipher.final()]).toString("utf8")
        } catch {
          return undefined
        }
      }

      return TurnStates.of({
        of: (tenantId) => ({
          seal: (provider, state) => {
            const owner = ownerOf(tenantId, provider)
            const text = JSON.stringify(state)
            const nonce = createHmac("sha256", key).update(owner).update(` ${text}`).digest().subarray(0, nonceLength)
            const made = createCipheriv(cipher, key, nonce).setAAD(owner)
            const closed = Buffer.concat([made.update(text, "utf8"), made.final()])
            return sealedPrefix + Buffer.concat([nonce, closed, made.getAuthTag()]).toString("base64")
          },
          open: (provider, sealed) =>
            isSealedState(sealed) ? Option.getOrElse(decode(opened(ownerOf(tenantId, provider), sealed)), () => []) : []
        })
      })
    })
  )
}
