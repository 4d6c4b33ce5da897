import { Layer } from "effect"
import { BudgetAlerts } from "./alerts/service.ts"
import { Approvals } from "./approvals/service.ts"
import { Attribution } from "./attribution/service.ts"
import { BudgetCaps } from "./caps/service.ts"
import { Grants } from "./caps/grants.ts"
import { Refunds } from "./reservations/refunds.ts"
import { ReservationQueries } from "./reservations/queries.ts"
import { Ledger } from "./ledger/service.ts"
import { ReservationService } from "./reservations/service.ts"
import { CapUtilizations } from "./caps/utilization.ts"

/** The ledger, and who asks it for what. */
export const LedgerLayer = Layer.mergeAll(Ledger.layer, BudgetCaps.layer, ReservationQueries.layer, Attribution.layer)

/** What callers do about budgets and money, above the ledger. */
export const BudgetsLayer = Layer.mergeAll(
  Approvals.layer,
  BudgetAlerts.layer,
  CapUtilizations.layer,
  Grants.layer,
  Refunds.layer,
  ReservationService.layer
)
