import { Effect } from "effect"
import { CurrentPrincipal, Forbidden } from "../../kernel/principal.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { Tenants } from "../tenants/service.ts"

/** The tenant of what a caller makes: its own, which it may not name; a system caller names one or gets the default. */
export const makeTenantOfNew = Effect.map(
  Tenants,
  (tenants) =>
    (given: TenantId | undefined): Effect.Effect<TenantId, Forbidden> =>
      Effect.flatMap(CurrentPrincipal, ({ tenantId }) => {
        if (tenantId === undefined) return given === undefined ? tenants.defaultId : Effect.succeed(given)
        return given === undefined
          ? Effect.succeed(tenantId)
          : Effect.fail(new Forbidden({ missing: [], detail: "Only system callers name a tenant." }))
      })
)
