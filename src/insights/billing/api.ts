import { HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { StatementEnvelope } from "../../audit/statements/domain.ts"
import { FlushSettlements } from "../../budgets/ledger/api.ts"
import { Access, requires } from "../../kernel/authority/access.ts"
import { Forbidden } from "../../kernel/authority/principal.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { BillingReportBody, BillingRequest, BillingStatementNotFound, StatementId } from "./domain.ts"

const read = requires("insights:read")

export class BillingApi extends HttpApiGroup.make("billing")
  .add(
    endpoint.post("report", "/billing-report", {
      summary: "Get a billing report",
      description:
        'What was charged and refunded in a range, equal to the ledger to the nano-dollar: as JSON `{ lines, totals, statement? }`, as CSV, or as FOCUS (CSV; one row for each hour, tenant, agent, provider, model, task type, meter and unit price). With `sign` a DSSE statement has the digest of the body: in JSON of the body without its last member `statement`, and for every format under the URL of the `Link` header with rel="describedby" once the body was read to its end.',
      access: read,
      answersIn: ["application/json", "text/csv"],
      payload: BillingRequest,
      success: [BillingReportBody, HttpApiSchema.StreamUint8Array({ contentType: "text/csv" })],
      error: [ValidationFailed, Forbidden]
    }),
    endpoint.get("statement", "/billing-statements/:id", {
      summary: "Get the statement about a billing report",
      description: "The DSSE envelope of an in-toto statement with the digest of the report's body.",
      access: read,
      params: { id: StatementId },
      success: StatementEnvelope,
      error: BillingStatementNotFound
    })
  )
  .middleware(FlushSettlements)
  .middleware(Access)
  .prefix("/api/insights")
  .annotateMerge(OpenApi.annotations({ title: "Billing", description: "Reports that equal the ledger." })) {}
