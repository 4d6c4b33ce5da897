import { Schema } from "effect"
import { auditActions } from "../../kernel/authority/audit-action.ts"
import { Capability } from "../../kernel/authority/capability.ts"
import { serverSet } from "../../kernel/http/server-set.ts"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { Instant } from "../../kernel/instant.ts"
import { Problem } from "../../kernel/problems/problem.ts"
import { described, name } from "../../kernel/text.ts"

/** The kinds of identities that are no people. */
export const identityKinds = [
  "agent",
  "agent-key",
  "api-key",
  "credential",
  "delegation",
  "identity-provider",
  "synthetic-principal",
  "webhook"
] as const
export const IdentityKind = Schema.Literals(identityKinds)
export type IdentityKind = typeof IdentityKind.Type

const OptionalInstant = Schema.NullOr(Instant)

/** An identity that is no person and is still admitted. */
export const InventoryItem = Schema.Struct({
  kind: IdentityKind,
  id: Uuid,
  name: Schema.NullOr(Schema.String).annotate({ examples: ["billing worker"] }),
  tenantId: Schema.NullOr(TenantId).annotate({ description: "null: of the installation" }),
  owner: Schema.NullOr(Schema.String).annotate({
    description: "Who answers for it: `ownerUserId` of the agent, or who made the key. null: none is named",
    examples: ["account:01980a5c-0000-7000-8000-000000000000"]
  }),
  ownerIsLive: Schema.NullOr(Schema.Boolean).annotate({
    description: "Whether the owner is an active account, agent or key; null: no owner, or one that is not known here"
  }),
  createdAt: Instant,
  lastUsedAt: OptionalInstant.annotate({ description: "null: not used, or not recorded for this kind" }),
  expiresAt: OptionalInstant,
  scopesGranted: Schema.Array(Capability),
  scopesUsed: Schema.Array(Capability).annotate({
    description: "Those used in the last 90 days; of API keys, synthetic principals, agents and agents' keys"
  })
}).annotate({ identifier: "NonHumanIdentity" })
export type InventoryItem = typeof InventoryItem.Type

/** Where an identity stands in the inventory. */
export const InventoryPlace = Schema.Struct({ kind: IdentityKind, id: Uuid })
export type InventoryPlace = typeof InventoryPlace.Type

export const ReportId = Uuid.pipe(Schema.brand("SecurityReportId"))
export type ReportId = typeof ReportId.Type

/** Which rules a report applies: all of them, or those of keys, agents or grants of access. */
export const ReportKind = Schema.Literals(["posture", "keys", "agents", "access"])
export type ReportKind = typeof ReportKind.Type

export const severities = ["low", "medium", "high", "critical"] as const
export const Severity = Schema.Literals(severities)
export type Severity = typeof Severity.Type

const Count = Schema.Int.pipe(Schema.check(Schema.isGreaterThanOrEqualTo(0)))

export const SecurityReport = Schema.Struct({
  id: ReportId,
  kind: ReportKind,
  tenantId: Schema.NullOr(TenantId).annotate({ description: "null: the whole installation" }),
  status: Schema.Literals(["pending", "completed"]),
  createdAt: Instant,
  createdBy: Schema.String,
  completedAt: OptionalInstant,
  checked: Count.annotate({ description: "How many identities the rules looked at" }),
  findings: Schema.Struct({ low: Count, medium: Count, high: Count, critical: Count }).annotate({
    description: "How many findings of each severity are open"
  })
}).annotate({ identifier: "SecurityReport" })
export type SecurityReport = typeof SecurityReport.Type

export const ReportRequest = Schema.Struct({
  kind: ReportKind,
  tenantId: Schema.optionalKey(
    described(TenantId, {
      description: "By default the caller's tenant, or the whole installation for a system caller"
    })
  )
}).annotate({ identifier: "SecurityReportRequest" })
export type ReportRequest = typeof ReportRequest.Type

export const FindingId = Uuid.pipe(Schema.brand("SecurityFindingId"))
export type FindingId = typeof FindingId.Type

export const FindingStatus = Schema.Literals(["open", "acknowledged", "suppressed"])
export type FindingStatus = typeof FindingStatus.Type

const Reason = name(500)

/** What a rule found about one identity. */
export const Finding = Schema.Struct({
  id: FindingId,
  reportId: ReportId,
  rule: Schema.String.annotate({ examples: ["no-expiry"] }),
  severity: Severity,
  owasp: Schema.String.annotate({
    description: "The risk of the OWASP Non-Human Identities Top 10 of 2025",
    examples: ["NHI7:2025 Long-Lived Secrets"]
  }),
  resource: Schema.Struct({
    kind: IdentityKind,
    id: Uuid,
    name: Schema.NullOr(Schema.String),
    tenantId: Schema.NullOr(TenantId)
  }),
  evidence: Schema.String.annotate({ examples: ["Made 2026-01-05, without an end"] }),
  remedy: Schema.String.annotate({ examples: ["Set `expiresAt`, and rotate the key before then."] }),
  status: FindingStatus,
  until: OptionalInstant.annotate({ description: "When the status becomes `open` again; null: it stays" }),
  reason: Schema.NullOr(Schema.String)
}).annotate({ identifier: "SecurityFinding" })
export type Finding = typeof Finding.Type

/** A status that is not `open` needs a reason; what the server sets may be sent back. */
export const FindingPatch = Schema.Struct({
  status: Schema.optionalKey(FindingStatus),
  until: Schema.optionalKey(OptionalInstant),
  reason: Schema.optionalKey(Schema.NullOr(Reason)),
  ...serverSet("id", "reportId", "rule", "severity", "owasp", "resource", "evidence", "remedy")
}).annotate({ identifier: "SecurityFindingPatch" })
export type FindingPatch = typeof FindingPatch.Type

/** The ids of the rules. */
export const RuleId = Schema.Literals([
  "key-unused-30d",
  "key-unused-90d",
  "key-expiring-7d",
  "key-expiring-30d",
  "no-expiry",
  "age-over-90d",
  "age-over-365d",
  "wildcard-scope",
  "over-privileged",
  "agent-without-live-owner",
  "idle-agent-active",
  "grant-never-used",
  "grant-older-than-180d",
  "grant-to-suspended-agent",
  "shared-key-thumbprint",
  "failing-webhook",
  "provider-keys-unavailable",
  "canary-touched",
  "spend-without-cap"
])

/** The formats of an export; SARIF is the Static Analysis Results Interchange Format 2.1.0 of OASIS. */
export const exportFormats = ["json", "csv", "sarif"] as const
export type ExportFormat = (typeof exportFormats)[number]

export const contentTypes: Readonly<Record<ExportFormat, string>> = {
  json: "application/json",
  csv: "text/csv",
  sarif: "application/sarif+json"
}

export const securityReportActions = auditActions("SecurityReport", ["SecurityReportRequested"])
export const securityFindingActions = auditActions("SecurityFinding", [
  "SecurityFindingAcknowledged",
  "SecurityFindingSuppressed",
  "SecurityFindingReopened"
])

export class SecurityReportNotFound extends Problem<SecurityReportNotFound>()("SecurityReportNotFound", {
  slug: "security-report-not-found",
  status: 404,
  meaning: "No security report has this id."
}) {}

export class SecurityReportPending extends Problem<SecurityReportPending>()("SecurityReportPending", {
  slug: "security-report-pending",
  status: 409,
  meaning: "The report is not completed yet; ask for it again in a few seconds."
}) {}

export class SecurityFindingNotFound extends Problem<SecurityFindingNotFound>()("SecurityFindingNotFound", {
  slug: "security-finding-not-found",
  status: 404,
  meaning: "No security finding has this id."
}) {}
