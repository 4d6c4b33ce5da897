import { BudgetAlertsApi } from "./alerts/api.ts"
import { ApprovalsApi } from "./approvals/api.ts"
import { BudgetCapsApi } from "./caps/api.ts"
import { PlansApi, AllPlansApi } from "./plans/api.ts"
import { SpendApi } from "./reservations/api.ts"

export const groups = [SpendApi, BudgetCapsApi, BudgetAlertsApi, ApprovalsApi, PlansApi, AllPlansApi] as const
