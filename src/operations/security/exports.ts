import { DateTime } from "effect"
import { csvLine } from "../../kernel/csv.ts"
import { type ExportFormat, type Finding, type Severity } from "./domain.ts"
import { rules } from "./rules.ts"

/** How a format is written: what comes first, each finding, and what comes last. */
interface Writer {
  readonly head: string
  item(finding: Finding, isFirst: boolean): string
  readonly end: string
}

const levels: Readonly<Record<Severity, "note" | "warning" | "error">> = {
  low: "note",
  medium: "warning",
  high: "error",
  critical: "error"
}

/** How code scanners rank a rule, from 0 to 10. */
const ranks: Readonly<Record<Severity, string>> = { low: "3.0", medium: "5.5", high: "8.0", critical: "9.5" }

const separated = (text: string, isFirst: boolean): string => (isFirst ? text : `,${text}`)
const moment = (at: DateTime.Utc | null): string | null => (at === null ? null : DateTime.formatIso(at))

const json: Writer = {
  head: "[",
  item: (finding, isFirst) => separated(JSON.stringify({ ...finding, until: moment(finding.until) }), isFirst),
  end: "]"
}

const csv: Writer = {
  head: csvLine([
    "id",
    "rule",
    "severity",
    "owasp",
    "resourceKind",
    "resourceId",
    "resourceName",
    "tenantId",
    "evidence",
    "remedy",
    "status",
    "until",
    "reason"
  ]),
  item: ({ evidence, id, owasp, reason, remedy, resource, rule, severity, status, until }) =>
    csvLine([
      id,
      rule,
      severity,
      owasp,
      resource.kind,
      resource.id,
      resource.name,
      resource.tenantId,
      evidence,
      remedy,
      status,
      moment(until),
      reason
    ]),
  end: ""
}

const ruleIndex = new Map<string, number>(rules.map(({ id }, index) => [id, index]))

const sarif = (version: string): Writer => {
  const driver = {
    name: "Application Manager",
    version,
    rules: rules.map(({ id, owasp, remedy, severity }) => ({
      id,
      shortDescription: { text: owasp },
      help: { text: remedy },
      defaultConfiguration: { level: levels[severity] },
      properties: { tags: ["security", owasp], "security-severity": ranks[severity] }
    }))
  }
  return {
    head: `{"$schema":"https://json.schemastore.org/sarif-2.1.0.json","version":"2.1.0","runs":[{"tool":{"driver":${JSON.stringify(driver)}},"results":[`,
    item: ({ evidence, reason, resource, rule, severity, status }, isFirst) =>
      separated(
        JSON.stringify({
          ruleId: rule,
          ruleIndex: ruleIndex.get(rule) ?? -1,
          level: levels[severity],
          message: { text: evidence },
          locations: [
            { logicalLocations: [{ fullyQualifiedName: `${resource.kind}/${resource.id}`, kind: "resource" }] }
          ],
          // The same finding of the next report has the same fingerprint.
          partialFingerprints: { "identity/v1": `${rule}/${resource.kind}/${resource.id}` },
          suppressions:
            status === "open"
              ? []
              : [{ kind: "external", status: "accepted", ...(reason === null ? {} : { justification: reason }) }]
        }),
        isFirst
      ),
    end: "]}]}"
  }
}

export const writerOf = (format: ExportFormat, version: string): Writer =>
  format === "json" ? json : format === "csv" ? csv : sarif(version)
