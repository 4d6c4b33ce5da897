import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { cursor, page, pageQuery } from "../../kernel/http/page.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { FlushSettlements } from "../ledger/api.ts"
import { CapId } from "../ledger/domain.ts"
import { AlertId, BudgetAlert } from "./domain.ts"

const position = cursor(AlertId)

export class BudgetAlertsApi extends HttpApiGroup.make("budgetAlerts")
  .add(
    endpoint.get("list", "/", {
      summary: "List budget alerts",
      description:
        "Thresholds of caps that were passed, the newest first: each once in a period, and of a rolling window once until it is below again. Each is `BudgetCapThresholdPassed` in the audit log too, whose stream sends it at once.",
      access: requires("budgets:read"),
      query: {
        capId: Schema.optionalKey(CapId),
        tenantId: Schema.optionalKey(TenantId),
        ...pageQuery(position)
      },
      success: page(BudgetAlert, position)
    })
  )
  .middleware(FlushSettlements)
  .middleware(Access)
  .prefix("/api/budgets/alerts")
  .annotateMerge(
    OpenApi.annotations({ title: "Budget alerts", description: "Thresholds of caps that were passed." })
  ) {}
