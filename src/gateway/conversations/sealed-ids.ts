import { Context, Effect, Layer } from "effect"
import { createHmac, timingSafeEqual } from "node:crypto"
import { type TenantId } from "../../kernel/identifier.ts"
import { type Principal } from "../../kernel/principal.ts"
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
      const digest = (parts: ReadonlyArray<string>, length: number) =>
        createHmac("sha256", key).update(JSON.stringify(parts)).digest().subarray(0, length)
      const ownerOf = ({ principal: { kind, name }, tenantId }: Holder): Buffer =>
        kind === "agent" ? digest(["owner", tenantId, name], ownerLength) : everyone
      const tagOf = ({ tenantId }: Holder, owner: Buffer, provider: string, id: string) =>
        digest(["id", tenantId, owner.toString("hex"), provider, id], tagLength)

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
