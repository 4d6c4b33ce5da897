import { DashboardApi } from "./dashboard/api.ts"
import { HealthApi } from "./health/api.ts"
import { SecurityApi } from "./security/api.ts"
import { SyntheticPrincipalsApi } from "./synthetic-principals/api.ts"

export const groups = [HealthApi, DashboardApi, SecurityApi, SyntheticPrincipalsApi] as const
