import { Layer } from "effect"
import { BudgetAlerts } from "./alerts.ts"
import { Approvals } from "./approvals.ts"
import { Askers } from "./askers.ts"
import { BudgetCaps } from "./caps.ts"
import { Grants } from "./grants.ts"
import { Refunds } from "./refunds.ts"
import { Reservations } from "./reservations.ts"
import { Ledger } from "./service.ts"
import { Spend } from "./spend.ts"
import { CapStandings } from "./standings.ts"

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
