import { Schema } from "effect"
import { HttpApiGroup, OpenApi } from "effect/http-api"
import { ProviderId } from "../../gateway/configuration/domain.ts"
import { Access, requires } from "../../kernel/authority/access.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { cursor, page, pageQuery } from "../../kernel/http/page.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { usageRange } from "../usage/domain.ts"
import {
  BillState,
  NoBilling,
  Reconciliation,
  ReconciliationPosition,
  ReconciliationTotals,
  RefreshRequest,
  RefreshResult
} from "./domain.ts"

const access = requires("insights:read", { systemOnly: true })
const position = cursor(ReconciliationPosition)

export class ReconciliationApi extends HttpApiGroup.make("reconciliation")
  .add(
    endpoint.get("list", "/", {
      summary: "Compare what providers billed with what was charged",
      description:
        "By day (UTC), provider and model, the newest first: what the usage and cost reports of OpenAI and Anthropic say, read with the admin key of a provider's `billing`, beside what was charged for its calls, and why they differ. Whole days, as of their last reading.",
      access,
      query: {
        from: usageRange.from,
        to: usageRange.to,
        provider: Schema.optionalKey(ProviderId),
        ...pageQuery(position)
      },
      success: Schema.Struct({
        ...page(Reconciliation, position).fields,
        providers: Schema.Array(BillState).annotate({ description: "Those that have an admin key" }),
        totals: ReconciliationTotals.annotate({ description: "Of all days, providers and models that were asked for" })
      }),
      error: ValidationFailed
    }),
    endpoint.post("refresh", "/refresh", {
      summary: "Read the bills of providers now",
      description:
        "Reads the last 31 days again, which the service does by itself every six hours for those that may still change. Waits until they are read; a failure is the state of its provider.",
      access,
      payload: RefreshRequest,
      success: RefreshResult,
      error: NoBilling
    })
  )
  .middleware(Access)
  .prefix("/api/insights/reconciliation")
  .annotateMerge(
    OpenApi.annotations({ title: "Reconciliation", description: "What providers billed, beside what was charged." })
  ) {}
