import { Context, Effect, Layer } from "effect"
import { type AgentId, type AgentNotFound } from "../agents/domain.ts"
import { Agents } from "../agents/service.ts"
import { auditOrigin } from "../audit/service.ts"
import { CurrentPrincipal, Forbidden, type Principal } from "../auth/domain.ts"
import { CurrentRepeatable } from "../idempotency/domain.ts"
import { covers } from "../kernel/capability.ts"
import { type TenantId } from "../kernel/identifier.ts"
import { Tenants } from "../tenants/service.ts"
import { type Dimensions } from "./cap-book.ts"
import { type Asker } from "./request.ts"

/** What a caller declares of what it spends for. */
export interface Declared extends Omit<Dimensions, "agentId" | "apiKeyId"> {
  readonly agentId?: AgentId | undefined
}

/** Who spends: what the credential says, and what the caller may add to it. */
export class Askers extends Context.Service<
  Askers,
  {
    /** The tenant and the values that a spend of the caller counts for. */
    spender(
      declared: Declared
    ): Effect.Effect<{ readonly tenantId: TenantId; readonly dimensions: Dimensions }, AgentNotFound | Forbidden>
  }
>()("app/ledger/Askers") {
  static readonly layer = Layer.effect(
    Askers,
    Effect.gen(function* () {
      const agents = yield* Agents
      const tenants = yield* Tenants
      let known: TenantId | undefined
      // The default tenant stays the default one, so it is asked for once.
      const defaultTenant = Effect.suspend(() =>
        known === undefined
          ? Effect.tap(tenants.defaultId, (id) => Effect.sync(() => (known = id)))
          : Effect.succeed(known)
      )

      return Askers.of({
        spender: Effect.fnUntraced(function* (declared) {
          const principal = yield* CurrentPrincipal
          const own = ownValues(principal)
          for (const name of ["agentId", "applicationId"] as const) {
            if (own[name] !== undefined && declared[name] !== undefined && declared[name] !== own[name]) {
              return yield* new Forbidden({ missing: [], detail: `The credential is of another ${name}.` })
            }
          }
          const dimensions = { ...declared, ...own }
          const agentId = declared.agentId ?? own.agentId
          const tenantId =
            agentId === undefined
              ? (principal.tenantId ?? (yield* defaultTenant))
              : yield* agents.tenantOf(agentId as AgentId)
          return { tenantId, dimensions }
        })
      })
    })
  )
}

const after = (name: string, prefix: string) => (name.startsWith(prefix) ? name.slice(prefix.length) : undefined)

/** What a credential is of; it says that by itself, and no caller says otherwise. */
const ownValues = ({ applicationId, name }: Principal): Pick<Dimensions, "agentId" | "apiKeyId" | "applicationId"> => {
  const agentId = after(name, "agent:")
  const apiKeyId = after(name, "api-key:")
  return {
    ...(agentId === undefined ? {} : { agentId }),
    ...(apiKeyId === undefined ? {} : { apiKeyId }),
    ...(applicationId === undefined ? {} : { applicationId })
  }
}

/** The caller as rows and entries name it. */
export const asker: Effect.Effect<Asker> = Effect.gen(function* () {
  const principal = yield* CurrentPrincipal
  return { principal: principal.name, audit: yield* auditOrigin, repeatable: yield* CurrentRepeatable }
})

/** Whether a caller may act on what another principal reserved. */
export const isUnrestricted = ({ capabilities, kind }: Principal): boolean =>
  kind !== "agent" && capabilities.some((held) => covers(held, "budgets:write"))
