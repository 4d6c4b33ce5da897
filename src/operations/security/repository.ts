import { Context, Effect, Layer, Schema } from "effect"
import { SqlClient, type Statement } from "effect/sql"
import { Change } from "../../audit/log/domain.ts"
import { allTenants } from "../../budgets/ledger/domain.ts"
import { usageDimensions } from "../../insights/usage/domain.ts"
import { Capability } from "../../kernel/authority/capability.ts"
import { TenantId, Uuid } from "../../kernel/identifier.ts"
import { InstantFromDate } from "../../kernel/instant.ts"
import { TenantNotFound } from "../../tenants/domain.ts"
import { rowLock } from "../../platform/database/database.ts"
import { readRows, violations } from "../../platform/database/table.ts"
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

const StoredIdentity = Schema.Struct({
  kind: IdentityKind,
  id: Uuid,
  name: Schema.NullOr(Schema.String),
  tenantId: Schema.NullOr(TenantId),
  owner: Schema.NullOr(Schema.String),
  ownerIsLive: Schema.NullOr(Schema.Boolean),
  createdAt: InstantFromDate,
  lastUsedAt: OptionalInstant,
  expiresAt: OptionalInstant,
  scopesGranted: Schema.Array(Capability),
  scopesUsed: Schema.Array(Capability),
  isSuspended: Schema.Boolean,
  sharedWith: Schema.Int,
  failingSince: OptionalInstant,
  isCanary: Schema.Boolean,
  uncappedNanoUsd: Schema.BigInt
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

/** An expression for the id that a text holds; null for any other text. */
const uuidIn = (text: string): string =>
  `CASE WHEN ${text} ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$' THEN ${text}::uuid END`

/** Reads the tables of every identity that is no person; its own are the reports, their findings and what was decided. */
/** A report that is to be made. */
const PendingReport = Schema.Struct({ id: ReportId, tenantId: Schema.NullOr(TenantId), kind: ReportKind })
export type PendingReport = typeof PendingReport.Type

export class SecurityRepository extends Context.Service<SecurityRepository>()("app/security/SecurityRepository", {
  make: Effect.gen(function* () {
    const sql = yield* SqlClient.SqlClient
    const identities = readRows(StoredIdentity)
    const reports = readRows(StoredReport)
    const waiting = readRows(PendingReport)
    const findings = readRows(StoredFinding)

    const usedBy = (principal: string, usedSince: Date) => sql`ARRAY(
      SELECT u.capability FROM capability_uses u WHERE u.principal = ${sql.literal(principal)}
        AND u.last_used_at > ${usedSince} ORDER BY u.capability)`

    const account = (id: string) =>
      sql.literal(`EXISTS (SELECT FROM accounts o WHERE o.id = ${uuidIn(id)} AND o.status = 'active')`)

    const madeBy = (now: Date) => sql`CASE
        WHEN t.created_by = 'service-account' THEN true
        WHEN t.created_by LIKE 'account:%' THEN ${account("substr(t.created_by, 9)")}
        WHEN t.created_by LIKE 'api-key:%' OR t.created_by LIKE 'synthetic:%' THEN EXISTS (
          SELECT FROM api_keys o WHERE o.id = ${sql.literal(uuidIn("split_part(t.created_by, ':', 2)"))} AND o.revoked_at IS NULL
            AND (o.expires_at IS NULL OR o.expires_at > ${now})) END`

    const ownerOfAgent = sql`a.owner_user_id AS owner,
      CASE WHEN a.owner_user_id IS NOT NULL THEN ${account("a.owner_user_id")} END AS owner_is_live`

    /** What an agent was charged while no cap applies to each of its calls. */
    const uncapped = sql`CASE WHEN EXISTS (
        SELECT FROM budget_caps c WHERE c.tenant_id IN (t.tenant_id, ${allTenants}) AND c.status = 'active'
          AND c.deleted_at IS NULL AND c.scope - 'agentId' = '{}'::jsonb
          AND coalesce(c.scope->>'agentId', 'each') IN ('each', t.id::text)) THEN 0 ELSE coalesce(g.cost, 0) END::bigint`

    /** What agents were charged in the last 30 days. */
    const charged = (now: Date, tenantId: TenantId | undefined) => sql`LEFT JOIN (
        SELECT r.tenant_id, e.key, sum(e.cost) AS cost
        FROM usage_rollups r CROSS JOIN LATERAL unnest(r.keys, r.cost) AS e(key, cost)
        WHERE r.dimension = ${usageDimensions.agent.code} AND r.grain = 'd'
          AND r.day > (${now}::timestamptz - interval '30 days')::date
          ${tenantId === undefined ? sql`` : sql`AND r.tenant_id = ${tenantId}`}
        GROUP BY r.tenant_id, e.key) g ON g.tenant_id = t.tenant_id AND g.key = t.id::text`

    const shared = sql`(SELECT count(*) FROM agent_keys o WHERE o.thumbprint = t.thumbprint AND o.id <> t.id
      AND o.revoked_at IS NULL)::integer`

    /** The identities of each kind that still admit somebody. */
    const source = ({ forRules, kind, now, tenantId, usedSince }: IdentityRead): Statement.Fragment => {
      const noCanary = sql`false AS is_canary`
      const healthy = sql`NULL::timestamptz AS failing_since`
      const none = sql`false AS is_suspended, 0 AS shared_with, ${healthy}, 0::bigint AS uncapped_nano_usd, ${noCanary}`
      const lives = sql`t.revoked_at IS NULL AND (t.expires_at IS NULL OR t.expires_at > ${now})`
      switch (kind) {
        case "api-key":
          return sql`t.name, t.created_by AS owner, ${madeBy(now)} AS owner_is_live,
            t.created_at, t.last_used_at, t.expires_at, t.scopes AS scopes_granted,
            ${usedBy("'api-key:' || t.id", usedSince)} AS scopes_used, ${none}
            FROM api_keys t WHERE t.synthetic_kind IS NULL AND (t.revoked_at IS NULL OR t.revoked_at > ${now})
              AND (t.expires_at IS NULL OR t.expires_at > ${now})`
        case "agent":
          return sql`t.name, t.owner_user_id AS owner,
            CASE WHEN t.owner_user_id IS NOT NULL THEN ${account("t.owner_user_id")} END AS owner_is_live,
            t.created_at, t.last_seen_at AS last_used_at, NULL::timestamptz AS expires_at,
            t.scope_ceiling AS scopes_granted, ${usedBy("'agent:' || t.id", usedSince)} AS scopes_used,
            t.status = 'suspended' AS is_suspended, 0 AS shared_with, ${healthy},
            ${forRules ? uncapped : sql`0::bigint`} AS uncapped_nano_usd, ${noCanary}
            FROM agents t ${forRules ? charged(now, tenantId) : sql``} WHERE t.status <> 'retired'`
        case "agent-key":
          return sql`t.kid AS name, ${ownerOfAgent}, t.created_at, NULL::timestamptz AS last_used_at,
            t.valid_until AS expires_at, a.scope_ceiling AS scopes_granted,
            ${usedBy("'agent:' || t.agent_id", usedSince)} AS scopes_used, a.status = 'suspended' AS is_suspended,
            ${forRules ? shared : sql`0`} AS shared_with, ${healthy}, 0::bigint AS uncapped_nano_usd, ${noCanary}
            FROM agent_keys t JOIN agents a ON a.id = t.agent_id
            WHERE t.revoked_at IS NULL AND t.valid_until > ${now} AND a.status <> 'retired'`
        case "credential":
          return sql`t.subject AS name, ${ownerOfAgent}, t.issued_at AS created_at, NULL::timestamptz AS last_used_at,
            t.expires_at, t.scopes AS scopes_granted, '{}'::text[] AS scopes_used, ${none}
            FROM agent_credentials t JOIN agents a ON a.id = t.agent_id WHERE ${lives} AND a.status = 'active'`
        case "delegation":
          return sql`t.reason AS name, t.subject AS owner, CASE t.subject_type
              WHEN 'user' THEN ${account("t.subject")}
              WHEN 'agent' THEN EXISTS (SELECT FROM agents o WHERE o.id = ${sql.literal(uuidIn("t.subject"))} AND o.status = 'active')
            END AS owner_is_live,
            t.created_at, t.last_used_at, t.expires_at, t.scopes AS scopes_granted, '{}'::text[] AS scopes_used,
            a.status = 'suspended' AS is_suspended, 0 AS shared_with, ${healthy}, 0::bigint AS uncapped_nano_usd, ${noCanary}
            FROM delegation_grants t JOIN agents a ON a.id = t.agent_id WHERE ${lives} AND a.status <> 'retired'`
        case "identity-provider":
          return sql`t.issuer AS name, t.created_by AS owner, ${madeBy(now)} AS owner_is_live, t.created_at,
            NULL::timestamptz AS last_used_at, NULL::timestamptz AS expires_at, '{}'::text[] AS scopes_granted,
            '{}'::text[] AS scopes_used, false AS is_suspended, 0 AS shared_with, t.keys_failing_since AS failing_since,
            0::bigint AS uncapped_nano_usd, ${noCanary}
            FROM identity_providers t WHERE t.status = 'active'`
        case "synthetic-principal":
          return sql`t.name, t.created_by AS owner, ${madeBy(now)} AS owner_is_live, t.created_at, t.last_used_at,
            t.expires_at, t.scopes AS scopes_granted, ${usedBy("'synthetic:' || t.id", usedSince)} AS scopes_used,
            false AS is_suspended, 0 AS shared_with, ${healthy}, 0::bigint AS uncapped_nano_usd,
            t.kind = 'canary' AS is_canary
            FROM synthetic_principals t WHERE (t.expires_at IS NULL OR t.expires_at > ${now})`
        case "webhook":
          return sql`t.name, t.created_by AS owner, ${madeBy(now)} AS owner_is_live, t.created_at,
            NULL::timestamptz AS last_used_at, NULL::timestamptz AS expires_at, '{}'::text[] AS scopes_granted,
            '{}'::text[] AS scopes_used, false AS is_suspended, 0 AS shared_with, t.failing_since,
            0::bigint AS uncapped_nano_usd, ${noCanary}
            FROM event_targets t WHERE t.status = 'active'`
      }
    }

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
      identities: Effect.fn("SecurityRepository.identities")((read: IdentityRead) => {
        const { after, kind, limit, tenantId } = read
        return identities(sql`
            SELECT ${kind}::text AS kind, t.id, t.tenant_id, ${source(read)}
              ${tenantId === undefined ? sql`` : sql`AND t.tenant_id = ${tenantId}`}
              ${after === undefined ? sql`` : sql`AND t.id > ${after}`}
            ORDER BY t.id LIMIT ${limit}`)
      }),

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
        Effect.map(
          reports(
            sql`${selectReports(
              now,
              sql`r.kind = ${kind} AND ${tenantId === null ? sql`r.tenant_id IS NULL` : sql`r.tenant_id = ${tenantId}`}`
            )} ORDER BY r.id DESC LIMIT 1`
          ),
          ([found]) => found!
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
