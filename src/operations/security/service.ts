import { Context, DateTime, Effect, Layer, Option, Queue, Stream, Struct } from "effect"
import { usesCountForDays } from "../../access/capability-uses.ts"
import { unchanged } from "../../audit/log/change-entries.ts"
import { asSystem, Audit } from "../../audit/log/service.ts"
import { CurrentPrincipal, Forbidden } from "../../kernel/authority/principal.ts"
import { slice } from "../../kernel/http/page.ts"
import { patched } from "../../kernel/http/server-set.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Database } from "../../platform/database/database.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { serviceVersion } from "../../platform/runtime/version.ts"
import {
  contentTypes,
  type ExportFormat,
  type Finding,
  type FindingId,
  type FindingPatch,
  identityKinds,
  type IdentityKind,
  type InventoryItem,
  type InventoryPlace,
  type ReportId,
  type ReportKind,
  type ReportRequest,
  securityFindingActions,
  type SecurityReport,
  securityReportActions,
  SecurityReportPending
} from "./domain.ts"
import { writerOf } from "./exports.ts"
import {
  type FindingFilter,
  type NewFinding,
  type PendingReport,
  SecurityRepository,
  type StoredFinding,
  type StoredIdentity,
  type StoredReport
} from "./repository.ts"
import { type Rule, ruleById, rulesOf } from "./rules.ts"

const momentsOf = (now: DateTime.Utc) => ({
  now: DateTime.toDateUtc(now),
  usedSince: DateTime.toDateUtc(DateTime.subtract(now, { days: usesCountForDays }))
})

const fault = (member: string, message: string) =>
  new ValidationFailed({ errors: [{ path: ["payload", member], message }] })

/** So many identities are read and judged at once. */
const pageSize = 1000

/** Identities that are no people, and what is wrong with them. */
export class Security extends Context.Service<Security>()("app/operations/Security", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const database = yield* Database
    const repository = yield* SecurityRepository
    const requested = yield* Queue.sliding<void>(1)

    const inventory = Effect.fn("Security.inventory")(function* (
      kind: IdentityKind | undefined,
      after: InventoryPlace | undefined,
      limit: number
    ) {
      const moments = momentsOf(yield* DateTime.now)
      const first = after === undefined ? 0 : identityKinds.indexOf(after.kind)
      const kinds = identityKinds.slice(first).filter((one) => kind === undefined || one === kind)
      const found: Array<StoredIdentity> = []
      for (const one of kinds) {
        if (found.length > limit) break
        const rows = yield* database.asCaller(
          repository.identities({
            ...moments,
            kind: one,
            tenantId: undefined,
            after: one === after?.kind ? after.id : undefined,
            limit: limit + 1 - found.length,
            forRules: false
          })
        )
        found.push(...rows)
      }
      return slice(found.map(toItem), limit, ({ id, kind: of }): InventoryPlace => ({ kind: of, id }))
    })

    const request = Effect.fn("Security.request")(function* ({ kind, tenantId }: ReportRequest) {
      const principal = yield* CurrentPrincipal
      if (principal.tenantId !== undefined && tenantId !== undefined && tenantId !== principal.tenantId) {
        return yield* new Forbidden({
          missing: [],
          detail: "A tenant's caller asks for reports of its own tenant only."
        })
      }
      const now = yield* DateTime.now
      const of = tenantId ?? principal.tenantId ?? null
      const at = DateTime.toDateUtc(now)
      const stored = yield* repository.request(kind, of, at, principal.name)
      if (stored === undefined) return unchanged(toReport(yield* repository.newest(kind, of, at)))
      const entry = {
        action: securityReportActions.SecurityReportRequested,
        entityId: stored.id,
        tenantId: of,
        after: { kind, tenantId: of }
      }
      return { value: toReport(stored), entries: [entry] }
    }, audit.change)

    /** Applies rules to the identities of a kind, a page at a time; returns how many there were. */
    const judge = Effect.fnUntraced(function* (report: PendingReport, kind: IdentityKind, rules: ReadonlyArray<Rule>) {
      const now = yield* DateTime.now
      let checked = 0
      let after: string | undefined
      do {
        const rows: ReadonlyArray<StoredIdentity> = yield* repository.identities({
          ...momentsOf(now),
          kind,
          tenantId: report.tenantId ?? undefined,
          after,
          limit: pageSize,
          forRules: true
        })
        const findings = rows.flatMap((row) => findingsOf(row, rules, now.epochMilliseconds))
        yield* repository.store(report.id, report.tenantId, findings)
        checked += rows.length
        after = rows.length < pageSize ? undefined : rows.at(-1)?.id
      } while (after !== undefined)
      return checked
    })

    // The transaction holds the report's lock: when its replica dies, another one starts the report over.
    const make = Effect.fnUntraced(function* (report: PendingReport) {
      const rules = rulesOf(report.kind)
      let checked = 0
      for (const kind of identityKinds) {
        const ofKind = rules.filter(({ kinds }) => kinds.includes(kind))
        if (ofKind.length > 0) checked += yield* judge(report, kind, ofKind)
      }
      yield* repository.complete(report.id, checked, DateTime.toDateUtc(yield* DateTime.now))
    })
    const failed = new Set<ReportId>()
    const complete = database.transaction(
      "all",
      Effect.gen(function* () {
        const report = yield* repository.pending(failed)
        if (report === undefined) return false
        yield* Effect.onError(make(report), () => Effect.sync(() => failed.add(report.id)))
        failed.delete(report.id)
        return true
      })
    )
    const completeAll = Effect.repeat(complete, { while: (isMore) => isMore }).pipe(
      Effect.withSpan("Security.completeReports"),
      asSystem
    )
    yield* repeatJob("complete security reports", "10 seconds", completeAll)
    yield* Queue.take(requested).pipe(
      Effect.andThen(completeAll),
      Effect.catchCause((cause) => Effect.logWarning("A security report is tried again in ten seconds", cause)),
      Effect.forever,
      Effect.forkScoped
    )

    const report = Effect.fn("Security.report")((id: ReportId) =>
      Effect.flatMap(DateTime.now, (now) =>
        Effect.map(database.asCaller(repository.report(id, DateTime.toDateUtc(now))), toReport)
      )
    )

    const reports = Effect.fn("Security.reports")(function* (
      kind: ReportKind | undefined,
      after: ReportId | undefined,
      limit: number
    ) {
      const now = DateTime.toDateUtc(yield* DateTime.now)
      const rows = yield* database.asCaller(repository.reports(kind, after, limit + 1, now))
      return slice(rows.map(toReport), limit, ({ id }) => id)
    })

    const findings = Effect.fn("Security.findings")(function* (
      id: ReportId,
      filter: FindingFilter,
      after: FindingId | undefined,
      limit: number
    ) {
      const now = DateTime.toDateUtc(yield* DateTime.now)
      const rows = yield* database.asCaller(
        Effect.andThen(repository.report(id, now), repository.findings(id, filter, after, limit + 1, now))
      )
      return slice(rows.map(toFinding), limit, (finding) => finding.id)
    })

    const finding = Effect.fn("Security.finding")((id: FindingId) =>
      Effect.flatMap(DateTime.now, (now) =>
        Effect.map(database.asCaller(repository.finding(id, DateTime.toDateUtc(now))), toFinding)
      )
    )

    const decide = Effect.fn("Security.decide")(function* (id: FindingId, patch: FindingPatch) {
      const at = yield* DateTime.now
      const now = DateTime.toDateUtc(at)
      yield* repository.lockFinding(id)
      const before = yield* repository.finding(id, now)
      const status = patch.status ?? before.status
      const isOpen = status === "open"
      const reason = isOpen ? null : (patch.reason ?? before.reason)
      const until = isOpen ? null : patch.until === undefined ? before.until : patch.until
      if (!isOpen && reason === null) return yield* fault("reason", "Expected the reason for the status")
      if (until !== null && DateTime.isLessThanOrEqualTo(until, at)) {
        return yield* fault("until", "Expected a moment in the future")
      }
      const wanted = patched(before, { status, reason, until }, ["status", "reason", "until"])
      if (wanted === before) return unchanged(toFinding(before))
      yield* repository.decide(wanted)
      const entry = {
        action: actions[status],
        entityId: id,
        tenantId: before.tenantId,
        before: decisionOf(before),
        after: decisionOf(wanted)
      }
      return { value: toFinding(wanted), entries: [entry] }
    }, audit.change)

    /** The findings of a completed report, read a page at a time while they are sent. */
    const exported = Effect.fn("Security.export")(function* (id: ReportId, format: ExportFormat) {
      const principal = yield* CurrentPrincipal
      const { status } = yield* report(id)
      if (status === "pending") return yield* new SecurityReportPending({})
      const now = DateTime.toDateUtc(yield* DateTime.now)
      const writer = writerOf(format, serviceVersion)
      const pages = Stream.paginate(undefined as FindingId | undefined, (after) =>
        Effect.map(database.asCaller(repository.findings(id, {}, after, pageSize, now)), (rows) => {
          const text = rows
            .map((row, index) => writer.item(toFinding(row), after === undefined && index === 0))
            .join("")
          const last = rows.length < pageSize ? undefined : rows.at(-1)?.id
          return [[text], last === undefined ? Option.none() : Option.some(last)] as const
        })
      )
      const content = Stream.make(writer.head).pipe(
        Stream.concat(pages),
        Stream.concat(Stream.make(writer.end)),
        Stream.encodeText,
        Stream.provideService(CurrentPrincipal, principal)
      )
      return { content, contentType: contentTypes[format], fileName: `security-${id}.${format}` }
    })

    return {
      inventory,
      request: (asked: ReportRequest) => Effect.tap(request(asked), () => Queue.offer(requested, undefined)),
      report,
      reports,
      findings,
      finding,
      decide,
      export: exported
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(SecurityRepository.layer))
}

const actions = {
  open: securityFindingActions.SecurityFindingReopened,
  acknowledged: securityFindingActions.SecurityFindingAcknowledged,
  suppressed: securityFindingActions.SecurityFindingSuppressed
}

const toItem = (identity: StoredIdentity): InventoryItem =>
  Struct.omit(identity, ["isSuspended", "sharedWith", "failingSince", "uncappedNanoUsd", "isCanary"])

const findingsOf = (subject: StoredIdentity, rules: ReadonlyArray<Rule>, now: number): ReadonlyArray<NewFinding> =>
  rules.flatMap((rule) => {
    const evidence = rule.evidence(subject, now)
    if (evidence === undefined) return []
    return [
      {
        rule: rule.id,
        severity: rule.severity,
        resourceKind: subject.kind,
        resourceId: subject.id,
        resourceName: subject.name,
        resourceTenantId: subject.tenantId,
        evidence
      }
    ]
  })

const toReport = ({ critical, high, low, medium, ...report }: StoredReport): SecurityReport => ({
  ...report,
  findings: { low, medium, high, critical }
})

const toFinding = (row: StoredFinding): Finding => ({
  id: row.id,
  reportId: row.reportId,
  rule: row.rule,
  severity: row.severity,
  owasp: ruleById.get(row.rule)?.owasp ?? "",
  resource: { kind: row.resourceKind, id: row.resourceId, name: row.resourceName, tenantId: row.resourceTenantId },
  evidence: row.evidence,
  remedy: ruleById.get(row.rule)?.remedy ?? "",
  status: row.status,
  until: row.until,
  reason: row.reason
})

/** What the audit log keeps of a decision. */
const decisionOf = ({ reason, resourceId, resourceKind, rule, status, until }: StoredFinding) => ({
  rule,
  resource: `${resourceKind}/${resourceId}`,
  status,
  reason,
  until: until === null ? null : DateTime.formatIso(until)
})
