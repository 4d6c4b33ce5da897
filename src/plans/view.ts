import { quantityOf } from "../ledger/quantity-domain.ts"
import { type Plan } from "./domain.ts"
import { type StoredPlan } from "./repository.ts"

/** A plan as callers see it. */
export const planView = (stored: StoredPlan): Plan => {
  const { applicationId: _, budget, remaining, reserved, spent, ...plan } = stored
  return {
    ...plan,
    budgetUsd: budget,
    spentUsd: quantityOf("usd", spent),
    reservedUsd: quantityOf("usd", reserved),
    remainingUsd: quantityOf("usd", remaining)
  }
}
