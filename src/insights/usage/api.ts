import { Schema } from "effect"
import { HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { FlushSettlements } from "../../budgets/ledger/api.ts"
import { Access, requires } from "../../kernel/authority/access.ts"
import { Forbidden } from "../../kernel/authority/principal.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { cursor, page, pageQuery } from "../../kernel/http/page.ts"
import { Uuid } from "../../kernel/identifier.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import {
  requestFilters,
  RequestSort,
  UsageDetail,
  usageFilters,
  UsageNotFound,
  UsagePlace,
  usageRange,
  UsageRow,
  UsageSearch
} from "./domain.ts"

const read = requires("insights:read")
const position = cursor(UsagePlace)

export class UsageApi extends HttpApiGroup.make("usage")
  .add(
    endpoint.get("list", "/", {
      summary: "List usage",
      description:
        "Newest first, or by `sort`: every gateway call that was sent and every reservation that was reconciled. The filters combine. Refunds are no rows; they lower the sums of the reports. With `minCostUsd` or `minLatencyMs` a page may be short although the next one has more, as with `search`: it reads so many rows and no more.",
      access: read,
      query: {
        ...usageFilters,
        ...requestFilters,
        ...usageRange,
        search: Schema.optionalKey(UsageSearch),
        sort: Schema.optionalKey(RequestSort),
        ...pageQuery(position)
      },
      success: page(UsageRow, position),
      error: [ValidationFailed, Forbidden]
    }),
    endpoint.get("get", "/:id", {
      summary: "Get one request",
      description:
        "By the id of its charge or of its reservation: how it ended and why, its attempts at providers, its tokens with their prices, and the caps that counted it.",
      access: read,
      params: { id: Uuid },
      success: UsageDetail,
      error: [UsageNotFound, Forbidden]
    }),
    endpoint.get("export", "/export", {
      summary: "Export usage",
      description:
        "The same rows as JSON Lines (the default) or CSV with a header, streamed in the order of tenants and times.",
      access: read,
      answersIn: ["application/x-ndjson", "application/jsonl", "text/csv"],
      query: {
        ...usageFilters,
        ...requestFilters,
        ...usageRange,
        format: Schema.optionalKey(Schema.Literals(["jsonl", "csv"]))
      },
      success: HttpApiSchema.StreamUint8Array({ contentType: ["application/x-ndjson", "text/csv"] }),
      error: [ValidationFailed, Forbidden]
    })
  )
  .middleware(FlushSettlements)
  .middleware(Access)
  .prefix("/api/usage")
  .annotateMerge(OpenApi.annotations({ title: "Usage", description: "What was charged, request by request." })) {}
