import { Layer } from "effect"
import { BudgetAlerts } from "./alerts/service.ts"
import { Approvals } from "./approvals/service.ts"
import { Attribution } from "./attribution/service.ts"
import { BudgetCaps } from "./caps/service.ts"
import { Grants } from "./caps/grants.ts"
import { ReservationService } from "./reservations/service.ts"
import { ReservationQueries } from "./reservations/queries.ts"
import { Ledger } from "./ledger/service.ts"
import { CapUtilizations } from "./caps/utilization.ts"

/** The ledger and what the gateway needs beside it. */
export const LedgerLayer = Layer.mergeAll(Ledger.layer, BudgetCaps.layer, ReservationQueries.layer, Attribution.layer)

/** The services of the API, above the ledger. */
export const BudgetsLayer = Layer.mergeAll(
  Approvals.layer,
  BudgetAlerts.layer,
  CapUtilizations.layer,
  Grants.layer,
  ReservationService.layer
)
