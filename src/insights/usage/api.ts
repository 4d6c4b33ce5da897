import { Schema } from "effect"
import { HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { FlushSettlements } from "../../budgets/ledger/api.ts"
import { Access, requires } from "../../kernel/authority/access.ts"
import { Forbidden } from "../../kernel/authority/principal.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { cursor, page, pageQuery } from "../../kernel/http/page.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { usageFilters, UsagePlace, usageRange, UsageRow, UsageSearch } from "./domain.ts"

const read = requires("insights:read")
const position = cursor(UsagePlace)

export class UsageApi extends HttpApiGroup.make("usage")
  .add(
    endpoint.get("list", "/", {
      summary: "List usage",
      description:
        "Newest first: every gateway call that was sent and every reservation that was reconciled. The filters combine. Refunds are no rows; they lower the sums of the reports.",
      access: read,
      query: { ...usageFilters, ...usageRange, search: Schema.optionalKey(UsageSearch), ...pageQuery(position) },
      success: page(UsageRow, position),
      error: [ValidationFailed, Forbidden]
    }),
    endpoint.get("export", "/export", {
      summary: "Export usage",
      description:
        "The same rows as JSON Lines (the default) or CSV with a header, streamed in the order of tenants and times.",
      access: read,
      answersIn: ["application/jsonl", "text/csv"],
      query: { ...usageFilters, ...usageRange, format: Schema.optionalKey(Schema.Literals(["jsonl", "csv"])) },
      success: HttpApiSchema.StreamUint8Array({ contentType: ["application/jsonl", "text/csv"] }),
      error: [ValidationFailed, Forbidden]
    })
  )
  .middleware(FlushSettlements)
  .middleware(Access)
  .prefix("/api/usage")
  .annotateMerge(OpenApi.annotations({ title: "Usage", description: "What was charged, request by request." })) {}
