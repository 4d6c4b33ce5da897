import { Context, Effect, Layer, type Scope } from "effect"
import { type TenantId } from "../../kernel/identifier.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { type GatewayError, overloaded } from "../errors/gateway-error.ts"

/** The memory that the files of one request take until it ends. */
export interface UploadedBytes {
  /** Counts bytes that have arrived; returns the error of a request for which there is no room. */
  add(bytes: number): GatewayError | undefined
}

const full = overloaded("The service has no memory for the files of this request now.", 2)

/**
 * The memory for files of requests on this replica. A provider gets them after the whole request is known, of which the model may
 * come last, and again where another one answers. No tenant takes more than half of it.
 */
export class UploadMemory extends Context.Service<
  UploadMemory,
  { readonly begin: (tenantId: TenantId) => Effect.Effect<UploadedBytes, never, Scope.Scope> }
>()("app/gateway/UploadMemory") {
  static readonly layer = Layer.effect(
    UploadMemory,
    Effect.map(Settings, ({ llm }) => {
      const { maxUploadBytes, maxUploadsBytes } = llm.gateway
      const most = Math.max(maxUploadBytes, maxUploadsBytes)
      const mostOfTenant = Math.max(maxUploadBytes, Math.floor(maxUploadsBytes / 2))
      const byTenant = new Map<TenantId, number>()
      let taken = 0

      const count = (tenantId: TenantId, bytes: number) => {
        taken += bytes
        const ofTenant = (byTenant.get(tenantId) ?? 0) + bytes
        if (ofTenant === 0) byTenant.delete(tenantId)
        else byTenant.set(tenantId, ofTenant)
      }

      const begin = Effect.fnUntraced(function* (tenantId: TenantId) {
        let own = 0
        yield* Effect.addFinalizer(() =>
          Effect.sync(() => {
            count(tenantId, -own)
            own = 0
          })
        )
        return {
          add: (bytes: number) => {
            if (taken + bytes > most || (byTenant.get(tenantId) ?? 0) + bytes > mostOfTenant) return full
            own += bytes
            count(tenantId, bytes)
            return undefined
          }
        }
      })

      return UploadMemory.of({ begin })
    })
  )
}
