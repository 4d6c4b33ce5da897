import { Context } from "effect"
import { type TenantId } from "../../kernel/identifier.ts"

/** What a tenant has left at a provider: a quota that is paid for, nothing of one (`exhausted`), or pay by use (`metered`). */
export type PrepaidQuota = "prepaid" | "metered" | "exhausted"

/**
 * The quotas that the routing strategy `subscription-first` spends before others. Without subscriptions every provider is
 * paid by use.
 */
export const PrepaidQuotas = Context.Reference<(tenantId: TenantId, provider: string) => PrepaidQuota>(
  "app/gateway/PrepaidQuotas",
  { defaultValue: () => () => "metered" }
)
