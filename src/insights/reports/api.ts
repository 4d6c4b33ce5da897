import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { FlushSettlements } from "../../budgets/ledger/api.ts"
import { CapId } from "../../budgets/ledger/domain.ts"
import { Access, requires } from "../../kernel/authority/access.ts"
import { Forbidden } from "../../kernel/authority/principal.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { pageQuery } from "../../kernel/http/page.ts"
import { listParameter } from "../../kernel/http/parameter.ts"
import { TenantId } from "../../kernel/identifier.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { text } from "../../kernel/text.ts"
import { usageFilters, usageRange, withSynthetic } from "../usage/domain.ts"
import {
  Breakdown,
  capPosition,
  CapsReport,
  cursorFitsSort,
  itemPosition,
  ItemSort,
  maxSpendKeys,
  Overview,
  ReportDimension,
  SpendDimension,
  SpendReport
} from "./domain.ts"

const read = requires("insights:read")

export class InsightsApi extends HttpApiGroup.make("insights")
  .add(
    endpoint.get("overview", "/overview", {
      summary: "Get the cost overview",
      description:
        "What was spent in a range, against the equally long range just before (`previous`), by day, agent and model, with the forecast of the month and the caps that are used the most. A tenant's caller sees its tenant, a system caller all.",
      access: read,
      query: { ...usageFilters, ...withSynthetic, ...usageRange },
      success: Overview,
      error: [ValidationFailed, Forbidden]
    }),
    endpoint.get("by", "/by-:dimension", {
      summary: "Get the cost by a dimension",
      description:
        "The values of a dimension by cost, the highest first, or by `sort`; what has none is the item with the key null. Days and hours are those of `timeZone`; their series is the item itself.",
      access: read,
      params: { dimension: ReportDimension },
      query: Schema.Struct({
        ...usageFilters,
        ...withSynthetic,
        ...usageRange,
        sort: Schema.optionalKey(ItemSort),
        ...pageQuery(itemPosition)
      }).pipe(Schema.check(cursorFitsSort)),
      success: Breakdown,
      error: [ValidationFailed, Forbidden]
    }),
    endpoint.get("spend", "/spend-by-:dimension", {
      summary: "Get the cost of some keys of a dimension",
      description: "What each of the keys cost, in their order; one without requests in the range is left out.",
      access: read,
      params: { dimension: SpendDimension },
      query: {
        ...usageFilters,
        ...withSynthetic,
        from: usageRange.from,
        to: usageRange.to,
        keys: listParameter(text(1, 500), maxSpendKeys, {
          description: `At most ${maxSpendKeys} keys without commas, with commas between them`,
          examples: ["gpt-5,gpt-5-mini"]
        })
      },
      success: SpendReport,
      error: [ValidationFailed, Forbidden]
    }),
    endpoint.get("capsStatus", "/caps-status", {
      summary: "Get the caps with their history",
      description: "The use of each cap, and beside it what was spent under its scope in the range.",
      access: read,
      query: {
        tenantId: Schema.optionalKey(TenantId),
        capId: Schema.optionalKey(CapId),
        ...withSynthetic,
        ...usageRange,
        ...pageQuery(capPosition)
      },
      success: CapsReport,
      error: [ValidationFailed, Forbidden]
    })
  )
  .middleware(FlushSettlements)
  .middleware(Access)
  .prefix("/api/insights")
  .annotateMerge(OpenApi.annotations({ title: "Insights", description: "Where the money went." })) {}
