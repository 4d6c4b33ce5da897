import { Schema } from "effect"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { Instant } from "../../kernel/instant.ts"
import { CapName, CountedScope } from "../caps/domain.ts"
import { AlertThreshold, CapId } from "../ledger/domain.ts"
import { Total, Unit } from "../ledger/quantity-domain.ts"

export const AlertId = Uuid.pipe(Schema.brand("AlertId"))
export type AlertId = typeof AlertId.Type

/** A threshold of a cap that was passed, and how the counter stood then. */
export const BudgetAlert = Schema.Struct({
  id: AlertId,
  tenantId: Schema.NullOr(TenantId).annotate({ description: "null: of a cap over all tenants" }),
  capId: CapId,
  name: CapName,
  scope: CountedScope,
  unit: Unit,
  ...AlertThreshold.fields,
  limit: Total,
  spent: Total,
  reserved: Total,
  periodStart: Schema.NullOr(Instant),
  periodEnd: Schema.NullOr(Instant),
  occurredAt: Instant
}).annotate({ identifier: "BudgetAlert" })
export type BudgetAlert = typeof BudgetAlert.Type
