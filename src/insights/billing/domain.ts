import { Schema } from "effect"
import { StatementEnvelope } from "../../audit/statements/domain.ts"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { Instant } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { ReportDimension } from "../reports/domain.ts"
import { NetUsd } from "../usage/domain.ts"
import { focusColumnIds } from "./columns-domain.ts"

export const BillingFormat = Schema.Literals(["json", "csv", "focus"])
export type BillingFormat = typeof BillingFormat.Type
export const FocusVersion = Schema.Literals(["1.4", "1.2"])
export type FocusVersion = typeof FocusVersion.Type

const distinct = <A>(expected: string) =>
  Schema.makeFilter((values: ReadonlyArray<A>) => new Set(values).size === values.length, { expected })

export const BillingRequest = Schema.Struct({
  from: Instant.annotate({ description: "Inclusive" }),
  to: Instant.annotate({ description: "Exclusive" }),
  tenantId: Schema.optionalKey(TenantId),
  groupBy: Schema.optionalKey(
    Schema.Array(ReportDimension)
      .pipe(Schema.check(Schema.isNonEmpty(), distinct("each dimension once")))
      .annotate({
        description: "One line for each combination, days and hours in UTC; without it one for each charge and refund",
        examples: [["tenant", "model"]]
      })
  ),
  format: BillingFormat,
  focusVersion: Schema.optionalKey(FocusVersion).annotate({ description: "By default 1.4" }),
  columns: Schema.optionalKey(
    Schema.Array(Schema.Literals(focusColumnIds))
      .pipe(Schema.check(Schema.isNonEmpty(), distinct("each column once")))
      .annotate({ description: "Of FOCUS; by default all of the version", examples: [["BilledCost", "SkuId"]] })
  ),
  includeSynthetic: Schema.optionalKey(Schema.Boolean).annotate({
    description: "Whether the charges of synthetic principals are in it, too; by default they are not"
  }),
  sign: Schema.optionalKey(Schema.Boolean)
}).annotate({ identifier: "BillingReportRequest" })
export type BillingRequest = typeof BillingRequest.Type

export const StatementId = Uuid.pipe(Schema.brand("BillingStatementId"))
export type StatementId = typeof StatementId.Type

export const billingActions = auditActions("BillingReport", ["BillingReportSigned"])

export const billingPredicateType = "https://application-manager.dev/billing-report/v1"

export class BillingStatementNotFound extends Problem<BillingStatementNotFound>()("BillingStatementNotFound", {
  slug: "billing-statement-not-found",
  status: 404,
  meaning: "No billing report has this statement: its id is wrong, or the report was not read to its end."
}) {}

const CellNumber = Schema.Finite.pipe(Schema.check(Schema.isBetween({ minimum: -(2 ** 63), maximum: 2 ** 63 })))
const Cell = Schema.NullOr(Schema.Union([Schema.String, CellNumber]))

/** What a provider says of the days that are wholly in a report, beside what was charged for its calls. */
const ProviderBill = Schema.Struct({
  provider: Schema.String.annotate({ examples: ["openai"] }),
  days: Schema.Int.annotate({ description: "Days (UTC) that were read", examples: [30] }),
  settledDays: Schema.Int.annotate({ description: "Those of them whose figures are final", examples: [27] }),
  billedUsd: NetUsd,
  chargedUsd: NetUsd,
  differenceUsd: NetUsd,
  unexplainedUsd: NetUsd
}).annotate({ identifier: "ProviderBill" })

/** A report as JSON; it is written part by part, with every digit of the amounts. */
export const BillingReportBody = Schema.Struct({
  lines: Schema.Array(Schema.Record(Schema.String, Cell)).annotate({
    description: "The dimensions and sums of each line; `costUsd` is below zero for a refund",
    examples: [[{ model: "gpt-5", requests: 1, costUsd: 0.75 }]]
  }),
  totals: Schema.Struct({ costUsd: NetUsd }),
  providers: Schema.optionalKey(Schema.Array(ProviderBill)).annotate({
    description:
      "Of the whole installation alone, for system callers: what providers say they billed, where they were asked"
  }),
  statement: Schema.optionalKey(StatementEnvelope)
}).annotate({ identifier: "BillingReport" })
