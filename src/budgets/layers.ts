import { Layer } from "effect"
import { BudgetAlerts } from "./alerts/service.ts"
import { Approvals } from "./approvals/service.ts"
import { Askers } from "./attribution/service.ts"
import { BudgetCaps } from "./caps/service.ts"
import { Grants } from "./caps/grants.ts"
import { Refunds } from "./reservations/refunds.ts"
import { Reservations } from "./reservations/queries.ts"
import { Ledger } from "./ledger/service.ts"
import { Spend } from "./reservations/service.ts"
import { CapStandings } from "./caps/utilization.ts"

/** The ledger, and who asks it for what. */
export const LedgerLayer = Layer.mergeAll(Ledger.layer, BudgetCaps.layer, Reservations.layer, Askers.layer)

/** What callers do about budgets and money, above the ledger. */
export const BudgetsLayer = Layer.mergeAll(
  Approvals.layer,
  BudgetAlerts.layer,
  CapStandings.layer,
  Grants.layer,
  Refunds.layer,
  Spend.layer
)
