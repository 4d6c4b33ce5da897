import { Layer } from "effect"
import { BudgetAlertsHandlers } from "./alerts/handlers.ts"
import { BudgetAlerts } from "./alerts/service.ts"
import { ApprovalsHandlers } from "./approvals/handlers.ts"
import { Approvals } from "./approvals/service.ts"
import { Attribution } from "./attribution/service.ts"
import { AvailableBudgets } from "./caps/available-budget.ts"
import { Grants } from "./caps/grants.ts"
import { BudgetCapsHandlers } from "./caps/handlers.ts"
import { BudgetCaps } from "./caps/service.ts"
import { CapUtilizations } from "./caps/utilization.ts"
import { FlushSettlementsLayer, Ledger, SweeperLayer } from "./ledger/service.ts"
import { AllPlansHandlers, PlansHandlers } from "./plans/handlers.ts"
import { Plans } from "./plans/service.ts"
import { SpendHandlers } from "./reservations/handlers.ts"
import { ReservationQueries } from "./reservations/queries.ts"
import { ReservationService } from "./reservations/service.ts"
import { ReservationTransfers } from "./reservations/transfers.ts"

/** The services of the API and of the gateway, above the ledger. */
export const layer = Layer.mergeAll(
  Approvals.layer,
  AvailableBudgets.layer,
  BudgetAlerts.layer,
  CapUtilizations.layer,
  Grants.layer,
  Plans.layer,
  ReservationService.layer,
  ReservationTransfers.layer,
  SweeperLayer
).pipe(Layer.provideMerge(Layer.mergeAll(Ledger.layer, BudgetCaps.layer, ReservationQueries.layer, Attribution.layer)))

export const middleware = FlushSettlementsLayer

export const handlers = Layer.mergeAll(
  SpendHandlers,
  BudgetCapsHandlers,
  BudgetAlertsHandlers,
  ApprovalsHandlers,
  PlansHandlers,
  AllPlansHandlers
)
