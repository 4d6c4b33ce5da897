import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { Capability } from "../../kernel/authority/capability.ts"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { InstantFromDate } from "../../kernel/instant.ts"
import { rowLock } from "../../platform/database/database.ts"
import { readRows, violations } from "../../platform/database/table.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import {
  FindingId,
  type FindingStatus,
  FindingStatus as FindingStatusSchema,
  IdentityKind,
  ReportId,
  ReportKind,
  SecurityFindingNotFound,
  SecurityReportNotFound,
  Severity
} from "./domain.ts"

const OptionalInstant = Schema.NullOr(InstantFromDate)

const orElse = <S extends Schema.Top>(schema: S, value: S["Encoded"]) =>
  schema.pipe(Schema.withDecodingDefaultKey(Effect.succeed(value)))

const StoredIdentity = Schema.Struct({
  kind: IdentityKind,
  id: Uuid,
  name: Schema.NullOr(Schema.String),
  tenantId: Schema.NullOr(TenantId),
  owner: Schema.NullOr(Schema.String),
  ownerIsLive: Schema.NullOr(Schema.Boolean),
  createdAt: InstantFromDate,
  // A kind has those of the following that mean something for it.
  lastUsedAt: orElse(OptionalInstant, null),
  expiresAt: orElse(OptionalInstant, null),
  scopesGranted: orElse(Schema.Array(Capability), []),
  scopesUsed: orElse(Schema.Array(Capability), []),
  isSuspended: orElse(Schema.Boolean, false),
  sharedWith: orElse(Schema.Int, 0),
  failingSince: orElse(OptionalInstant, null),
  isCanary: orElse(Schema.Boolean, false),
  uncappedNanoUsd: orElse(Schema.BigInt, 0n)
})
export type StoredIdentity = typeof StoredIdentity.Type

const StoredReport = Schema.Struct({
  id: ReportId,
  tenantId: Schema.NullOr(TenantId),
  kind: ReportKind,
  status: Schema.Literals(["pending", "completed"]),
  createdAt: InstantFromDate,
  createdBy: Schema.String,
  completedAt: OptionalInstant,
  checked: Schema.Int,
  low: Schema.Int,
  medium: Schema.Int,
  high: Schema.Int,
  critical: Schema.Int
})
export type StoredReport = typeof StoredReport.Type

const StoredFinding = Schema.Struct({
  id: FindingId,
  reportId: ReportId,
  tenantId: Schema.NullOr(TenantId),
  rule: Schema.String,
  severity: Severity,
  resourceKind: IdentityKind,
  resourceId: Uuid,
  resourceName: Schema.NullOr(Schema.String),
  resourceTenantId: Schema.NullOr(TenantId),
  evidence: Schema.String,
  status: FindingStatusSchema,
  until: OptionalInstant,
  reason: Schema.NullOr(Schema.String)
})
export type StoredFinding = typeof StoredFinding.Type

/** A finding before it is stored. */
export interface NewFinding {
  readonly rule: string
  readonly severity: Severity
  readonly resourceKind: IdentityKind
  readonly resourceId: string
  readonly resourceName: string | null
  readonly resourceTenantId: TenantId | null
  readonly evidence: string
}

export interface FindingFilter {
  readonly severity?: Severity | undefined
  readonly rule?: string | undefined
  readonly status?: FindingStatus | undefined
}

/** Which identities are read, in the order of their ids. */
export interface IdentityRead {
  readonly kind: IdentityKind
  readonly tenantId: TenantId | undefined
  readonly after: string | undefined
  readonly limit: number
  readonly now: Date
  /** The uses of capabilities since then count. */
  readonly usedSince: Date
  /** Whether to read what rules alone need. */
  readonly forRules: boolean
}

/** A report that is to be made. */
const PendingReport = Schema.Struct({ id: ReportId, tenantId: Schema.NullOr(TenantId), kind: ReportKind })
export type PendingReport = typeof PendingReport.Type

/**
 * The inventory of identities that are no people, reports on them, and what was decided about their findings. Each feature has
 * a function of the database for its own kind of identity (`migrations/functions/*_identities.sql`).
 */
export class SecurityRepository extends Context.Service<SecurityRepository>()("app/operations/SecurityRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const identities = readRows(StoredIdentity)
    const reports = readRows(StoredReport)
    const waiting = readRows(PendingReport)
    const findings = readRows(StoredFinding)

    const statusOfFinding = (now: Date) => sql`
      LEFT JOIN security_decisions d ON d.tenant_id IS NOT DISTINCT FROM f.tenant_id AND d.rule = f.rule
        AND d.resource_kind = f.resource_kind AND d.resource_id = f.resource_id AND (d.until IS NULL OR d.until > ${now})`

    const selectReports = (now: Date, condition: Statement.Fragment) => sql`
      SELECT r.*, n.low, n.medium, n.high, n.critical FROM security_reports r CROSS JOIN LATERAL (
        SELECT count(*) FILTER (WHERE f.severity = 'low')::integer AS low,
          count(*) FILTER (WHERE f.severity = 'medium')::integer AS medium,
          count(*) FILTER (WHERE f.severity = 'high')::integer AS high,
          count(*) FILTER (WHERE f.severity = 'critical')::integer AS critical
        FROM security_findings f ${statusOfFinding(now)} WHERE f.report_id = r.id AND d.status IS NULL) n
      WHERE ${condition}`

    const selectFindings = (now: Date, condition: Statement.Fragment) => sql`
      SELECT f.*, coalesce(d.status, 'open') AS status, d.until, d.reason
      FROM security_findings f ${statusOfFinding(now)} WHERE ${condition}`

    return {
      /** The identities of a kind that still admit a caller. */
      identities: Effect.fn("SecurityRepository.identities")(
        ({ after, forRules, kind, limit, now, tenantId, usedSince }: IdentityRead) =>
          identities(sql`
            SELECT ${kind}::text AS kind, i.*
            FROM ${sql(`${kind.replaceAll("-", "_")}_identities`)}(${now}, ${usedSince}, ${forRules}) i
            WHERE ${sql.and([
              sql`true`,
              ...(tenantId === undefined ? [] : [sql`i.tenant_id = ${tenantId}`]),
              ...(after === undefined ? [] : [sql`i.id > ${after}`])
            ])}
            ORDER BY i.id LIMIT ${limit}`)
      ),

      /** A new report; none while the tenant waits for one of the kind. */
      request: Effect.fn("SecurityRepository.request")(
        (kind: ReportKind, tenantId: TenantId | null, at: Date, by: string) =>
          Effect.andThen(
            Change,
            sql`
              INSERT INTO security_reports (tenant_id, kind, status, created_at, created_by)
              VALUES (${tenantId}, ${kind}, 'pending', ${at}, ${by})
              ON CONFLICT (tenant_id, kind) WHERE status = 'pending' DO NOTHING
              RETURNING *, 0 AS low, 0 AS medium, 0 AS high, 0 AS critical`.pipe(
              violations({ security_reports_tenant: TenantNotFound })
            )
          ).pipe(
            Effect.flatMap((stored) => reports(Effect.succeed(stored))),
            Effect.map(([made]) => made)
          )
      ),

      /** The report of a kind that a tenant asked for last. */
      newest: Effect.fn("SecurityRepository.newest")((kind: ReportKind, tenantId: TenantId | null, now: Date) =>
        Effect.flatMap(
          reports(
            sql`${selectReports(
              now,
              sql`r.kind = ${kind} AND ${tenantId === null ? sql`r.tenant_id IS NULL` : sql`r.tenant_id = ${tenantId}`}`
            )} ORDER BY r.id DESC LIMIT 1`
          ),
          ([found]) =>
            found === undefined ? Effect.die(new Error("A report that was pending is gone")) : Effect.succeed(found)
        )
      ),

      report: Effect.fn("SecurityRepository.report")((id: ReportId, now: Date) =>
        Effect.flatMap(reports(selectReports(now, sql`r.id = ${id}`)), ([found]) =>
          found === undefined ? Effect.fail(new SecurityReportNotFound({})) : Effect.succeed(found)
        )
      ),

      reports: Effect.fn("SecurityRepository.reports")(
        (kind: ReportKind | undefined, after: ReportId | undefined, limit: number, now: Date) =>
          reports(
            sql`${selectReports(
              now,
              sql.and([
                sql`true`,
                ...(kind === undefined ? [] : [sql`r.kind = ${kind}`]),
                ...(after === undefined ? [] : [sql`r.id < ${after}`])
              ])
            )} ORDER BY r.id DESC LIMIT ${limit}`
          )
      ),

      /**
       * A report that waits, locked, of the tenant that was served longest ago; those that failed come last. None where other
       * replicas work at all.
       */
      pending: Effect.fn("SecurityRepository.pending")((failed: Iterable<ReportId>) =>
        waiting(sql`
        SELECT r.id, r.tenant_id, r.kind FROM security_reports r WHERE r.status = 'pending'
        ORDER BY r.id = ANY (${[...failed]}::uuid[]), CASE WHEN r.tenant_id IS NULL
          THEN (SELECT max(c.completed_at) FROM security_reports c WHERE c.tenant_id IS NULL)
          ELSE (SELECT max(c.completed_at) FROM security_reports c WHERE c.tenant_id = r.tenant_id) END NULLS FIRST, r.id
        LIMIT 1 FOR UPDATE OF r SKIP LOCKED`).pipe(Effect.map(([report]) => report))
      ),

      store: Effect.fn("SecurityRepository.store")(
        (reportId: ReportId, tenantId: TenantId | null, found: ReadonlyArray<NewFinding>) =>
          found.length === 0
            ? Effect.void
            : Effect.asVoid(
                Effect.orDie(sql`
                  INSERT INTO security_findings (report_id, tenant_id, rule, severity, resource_kind, resource_id,
                    resource_name, resource_tenant_id, evidence)
                  SELECT ${reportId}, ${tenantId}, n.* FROM json_to_recordset(${JSON.stringify(found)}::json) AS n(
                    rule text, severity text, "resourceKind" text, "resourceId" text, "resourceName" text,
                    "resourceTenantId" uuid, evidence text)`)
              )
      ),

      complete: Effect.fn("SecurityRepository.complete")((id: ReportId, checked: number, at: Date) =>
        Effect.asVoid(
          Effect.orDie(sql`
            UPDATE security_reports SET status = 'completed', completed_at = ${at}, checked = ${checked} WHERE id = ${id}`)
        )
      ),

      findings: Effect.fn("SecurityRepository.findings")(
        (
          reportId: ReportId,
          { rule, severity, status }: FindingFilter,
          after: FindingId | undefined,
          limit: number,
          now: Date
        ) =>
          findings(
            sql`${selectFindings(
              now,
              sql.and([
                sql`f.report_id = ${reportId}`,
                ...(rule === undefined ? [] : [sql`f.rule = ${rule}`]),
                ...(severity === undefined ? [] : [sql`f.severity = ${severity}`]),
                ...(status === undefined ? [] : [sql`coalesce(d.status, 'open') = ${status}`]),
                ...(after === undefined ? [] : [sql`f.id > ${after}`])
              ])
            )} ORDER BY f.id LIMIT ${limit}`
          )
      ),

      finding: Effect.fn("SecurityRepository.finding")((id: FindingId, now: Date) =>
        rowLock(sql, "f").pipe(
          Effect.flatMap((lock) => findings(selectFindings(now, sql`f.id = ${id} ${lock}`))),
          Effect.flatMap(([found]) =>
            found === undefined ? Effect.fail(new SecurityFindingNotFound({})) : Effect.succeed(found)
          )
        )
      ),

      /** Locks a finding until the transaction ends: what was decided of it is in another table, and read under the lock. */
      lockFinding: Effect.fn("SecurityRepository.lockFinding")((id: FindingId) =>
        Effect.andThen(
          Change,
          Effect.orDie(Effect.asVoid(sql`SELECT FROM security_findings WHERE id = ${id} FOR NO KEY UPDATE`))
        )
      ),

      decide: Effect.fn("SecurityRepository.decide")(
        ({ reason, resourceId, resourceKind, rule, status, tenantId, until }: StoredFinding) =>
          Effect.andThen(
            Change,
            Effect.orDie(
              status === "open"
                ? sql`
                    DELETE FROM security_decisions WHERE tenant_id IS NOT DISTINCT FROM ${tenantId}::uuid
                      AND rule = ${rule} AND resource_kind = ${resourceKind} AND resource_id = ${resourceId}`
                : sql`
                    INSERT INTO security_decisions (tenant_id, rule, resource_kind, resource_id, status, until, reason)
                    VALUES (${tenantId}, ${rule}, ${resourceKind}, ${resourceId}, ${status},
                      ${until === null ? null : new Date(until.epochMilliseconds)}, ${reason})
                    ON CONFLICT ON CONSTRAINT security_decisions_of_resource DO UPDATE
                      SET status = EXCLUDED.status, until = EXCLUDED.until, reason = EXCLUDED.reason`
            )
          )
      )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}
