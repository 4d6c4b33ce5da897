import { Context, Effect, Layer } from "effect"
import { LRUCache } from "lru-cache"
import { createHmac, hash, timingSafeEqual } from "node:crypto"
import { type Principal } from "../../kernel/authority/principal.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { Sealing } from "../../platform/crypto/sealing.ts"

/** What an id of the gateway says. */
export interface OpenedId {
  /** The provider that stores the response or the item. */
  readonly provider: string
  /** The provider's own id. */
  readonly id: string
}

/** Who an id is made for, and who asks for it. */
export interface Holder {
  readonly tenantId: TenantId
  readonly principal: Pick<Principal, "kind" | "name">
}

const ownerLength = 6
const tagLength = 12
const maxKeys = 10_000
const sealLength = (ownerLength + tagLength) * 2
const seal = /^[0-9a-f]{36}$/
const everyone = Buffer.alloc(ownerLength)

/**
 * Ids of responses and items that a provider stores: the provider's own id, followed by a seal that names the owner and
 * authenticates tenant, provider and owner. All tenants share a provider's account, so that an id without a seal of the
 * caller's tenant is never sent to it. An agent opens its own ids alone, other principals those of their tenant.
 */
export class SealedIds extends Context.Service<
  SealedIds,
  {
    seal(holder: Holder, provider: string, id: string): string
    /** Undefined if the id is not one of the holder's. */
    open(holder: Holder, providers: Iterable<string>, sealed: string): OpenedId | undefined
  }
>()("app/gateway/SealedIds") {
  static readonly layer = Layer.effect(
    SealedIds,
    Effect.gen(function* () {
      const key = yield* (yield* Sealing).fingerprint(new TextEncoder().encode("gateway-response-ids/v1"))
      const digest = (parts: ReadonlyArray<string>) => createHmac("sha256", key).update(JSON.stringify(parts)).digest()
      const ownerOf = ({ principal: { kind, name }, tenantId }: Holder): Buffer =>
        kind === "agent" ? digest(["owner", tenantId, name]).subarray(0, ownerLength) : everyone

      /** A key of each holder's at each provider: an answer has several ids, and one hash with a key of its own is enough. */
      const keys = new LRUCache<string, Buffer>({ max: maxKeys })
      const tagOf = ({ tenantId }: Holder, owner: Buffer, provider: string, id: string): Buffer => {
        const name = `${tenantId} ${owner.toString("hex")} ${provider}`
        let own = keys.get(name)
        if (own === undefined) keys.set(name, (own = digest(["id", name])))
        // The id contains only a part of the hash, since a whole one could be extended (length extension).
        return hash("sha256", Buffer.concat([own, Buffer.from(id)]), "buffer").subarray(0, tagLength)
      }

      return SealedIds.of({
        seal: (holder, provider, id) => {
          const owner = ownerOf(holder)
          return `${id}${owner.toString("hex")}${tagOf(holder, owner, provider, id).toString("hex")}`
        },
        open: (holder, providers, sealed) => {
          const end = sealed.slice(-sealLength)
          if (!seal.test(end)) return undefined
          const id = sealed.slice(0, -sealLength)
          const bytes = Buffer.from(end, "hex")
          const owner = bytes.subarray(0, ownerLength)
          const tag = bytes.subarray(ownerLength)
          if (holder.principal.kind === "agent" && !owner.equals(ownerOf(holder))) return undefined
          for (const provider of providers) {
            if (timingSafeEqual(tag, tagOf(holder, owner, provider, id))) return { provider, id }
          }
          return undefined
        }
      })
    })
  )
}
