import { totalOf } from "../ledger/quantity-domain.ts"
import { type Plan } from "./domain.ts"
import { type StoredPlan } from "./repository.ts"

/** A plan as callers see it. */
export const planView = (stored: StoredPlan): Plan => {
  const { applicationId: _, budget, remaining, reserved, spent, ...plan } = stored
  return {
    ...plan,
    budgetUsd: budget,
    spentUsd: totalOf("usd", spent),
    reservedUsd: totalOf("usd", reserved),
    remainingUsd: totalOf("usd", remaining)
  }
}
