import { Schema } from "effect"
import { HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { Access, requires } from "../../kernel/authority/access.ts"
import { Forbidden } from "../../kernel/authority/principal.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { cursor, page, pageQuery } from "../../kernel/http/page.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import {
  contentTypes,
  exportFormats,
  Finding,
  FindingId,
  FindingPatch,
  FindingStatus,
  IdentityKind,
  InventoryItem,
  InventoryPlace,
  ReportId,
  ReportKind,
  ReportRequest,
  RuleId,
  SecurityFindingNotFound,
  SecurityReport,
  SecurityReportNotFound,
  SecurityReportPending,
  Severity
} from "./domain.ts"

const read = requires("security:read")
const write = requires("security:write")
const place = cursor(InventoryPlace)
const reportPosition = cursor(ReportId)
const findingPosition = cursor(FindingId)

export class SecurityApi extends HttpApiGroup.make("security")
  .add(
    endpoint.get("inventory", "/inventory", {
      summary: "List non-human identities",
      description:
        "Every API key, agent, agent's key, credential, delegation, identity provider, synthetic principal and webhook that is still live: whose it is, when it was last used, when it ends, and what it may do and did.",
      access: read,
      query: { kind: Schema.optionalKey(IdentityKind), ...pageQuery(place) },
      success: page(InventoryItem, place)
    }),
    endpoint.post("requestReport", "/reports", {
      summary: "Request a security report",
      description:
        "Applies the rules of that kind to every identity of the tenant, or of the installation. It completes within seconds; `status` tells when. One of the kind that is pending is answered again.",
      access: write,
      payload: ReportRequest,
      success: HttpApiSchema.WithHeaders(SecurityReport.pipe(HttpApiSchema.status(202)), {
        location: Schema.String.annotate({ description: "Path of the report", examples: ["/api/security/reports/42"] })
      }),
      error: [Forbidden, TenantNotFound]
    }),
    endpoint.get("listReports", "/reports", {
      summary: "List security reports",
      description: "The newest first, with the number of their open findings.",
      access: read,
      query: { kind: Schema.optionalKey(ReportKind), ...pageQuery(reportPosition) },
      success: page(SecurityReport, reportPosition)
    }),
    endpoint.get("getReport", "/reports/:id", {
      summary: "Get a security report",
      description: "One report by id.",
      access: read,
      params: { id: ReportId },
      success: SecurityReport,
      error: SecurityReportNotFound
    }),
    endpoint.get("listFindings", "/reports/:id/findings", {
      summary: "List the findings of a report",
      description: "Each names its rule, the identity, why the rule fires, and what to do. The filters combine.",
      access: read,
      params: { id: ReportId },
      query: {
        severity: Schema.optionalKey(Severity),
        rule: Schema.optionalKey(RuleId),
        status: Schema.optionalKey(FindingStatus),
        ...pageQuery(findingPosition)
      },
      success: page(Finding, findingPosition),
      error: SecurityReportNotFound
    }),
    endpoint.get("exportReport", "/reports/:id/export", {
      summary: "Export a security report",
      description: "All findings as JSON (the default), CSV, or SARIF 2.1.0 for code scanners.",
      access: read,
      answersIn: Object.values(contentTypes),
      params: { id: ReportId },
      query: { format: Schema.optionalKey(Schema.Literals(exportFormats)) },
      success: [
        Schema.Array(Finding),
        HttpApiSchema.StreamUint8Array({ contentType: [contentTypes.csv, contentTypes.sarif] })
      ],
      error: [SecurityReportNotFound, SecurityReportPending]
    }),
    endpoint.get("getFinding", "/findings/:id", {
      summary: "Get a finding",
      description: "One finding by id.",
      access: read,
      params: { id: FindingId },
      success: Finding,
      error: SecurityFindingNotFound
    }),
    endpoint.patch("decide", "/findings/:id", {
      summary: "Acknowledge or suppress a finding",
      description:
        "With a reason. It holds for the rule and the identity in every report of the tenant, until `until`; the status `open` ends it.",
      access: write,
      params: { id: FindingId },
      payload: FindingPatch,
      success: Finding,
      error: [SecurityFindingNotFound, ValidationFailed]
    })
  )
  .middleware(Idempotency)
  .middleware(Access)
  .prefix("/api/security")
  .annotateMerge(
    OpenApi.annotations({
      title: "Security",
      description: "Identities that are no people, and what is wrong with them."
    })
  ) {}
