import { BigDecimal, Context, DateTime, Effect, Layer } from "effect"
import { type AuditDraft } from "../../audit/log/domain.ts"
import { asSystem, Audit } from "../../audit/log/service.ts"
import { type CapUtilization, type UtilizationKey } from "../../budgets/caps/domain.ts"
import { CapUtilizations } from "../../budgets/caps/utilization.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { slice } from "../../kernel/http/page.ts"
import { patched } from "../../kernel/http/server-set.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { usdOf } from "../../kernel/usd.ts"
import { Database, scopeOf } from "../../platform/database/database.ts"
import { repeatJob } from "../../platform/runtime/background-jobs.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { ReportsRepository } from "../reports/repository.ts"
import { filterOf, netUsd, visibleUsage } from "../usage/service.ts"
import { type Anomaly, anomalyActions, type AnomalyId, AnomalyNotFound, type AnomalyPatch, maxScore } from "./domain.ts"
import { type JudgedFinding, findingsOf, hourMillis } from "./findings.ts"
import { AnomaliesRepository, type AnomalyFilter, type BillFinding, type StoredAnomaly } from "./repository.ts"
import { burnRate, planLimit } from "./rules.ts"

const dayMillis = 24 * hourMillis
const historyDays = 56
/** For how many days the usage of a key counts as reported by events. */
const reportedDays = 7
const maxCaps = 1000
const nanoPerUsd = 1_000_000_000n
/** A plan above the 99th percentile has a probability of 0.01. */
const planScore = 2

/** Looks every hour for cost that is not as usual, and keeps what was found. */
export class Anomalies extends Context.Service<Anomalies>()("app/insights/Anomalies", {
  make: Effect.gen(function* () {
    const audit = yield* Audit
    const database = yield* Database
    const reports = yield* ReportsRepository
    const repository = yield* AnomaliesRepository
    const utilizations = yield* CapUtilizations
    const { minAnomalyUsd } = (yield* Settings).insights
    const worth = BigInt(minAnomalyUsd) * nanoPerUsd

    /** Plans that cost more than 99 of 100 of their tenant. */
    const costlyPlans = Effect.fnUntraced(function* (tenantId: TenantId, since: number, to: number) {
      const plans = yield* repository.plans(tenantId, to - historyDays * dayMillis, to)
      const limit = planLimit(plans.map(({ cost }) => cost))
      if (limit === undefined) return []
      return plans
        .filter(({ cost, last }) => cost > limit && cost >= worth && last.epochMilliseconds + dayMillis > since)
        .map(({ cost, first, key }): JudgedFinding => ({
          tenantId,
          dimension: "plan",
          key,
          kind: "spike",
          startsAt: first.epochMilliseconds,
          endsAt: to,
          expected: limit,
          actual: cost,
          score: planScore,
          isNew: true
        }))
    })

    /** Caps in dollars that the last hour's rate exhausts within a day. */
    const fastCaps = Effect.fnUntraced(function* (tenantId: TenantId, to: number) {
      const found: Array<JudgedFinding> = []
      let after: UtilizationKey | undefined
      do {
        const { items, nextCursor } = yield* utilizations.listCounters({ tenantId }, after, maxCaps)
        for (const { counts, use: cap } of items) {
          if (cap.unit !== "usd" || cap.periodStart === null || cap.periodEnd === null) continue
          const filter = { ...filterOf(counts), tenantId }
          const opens = to - hourMillis
          const { cost } = yield* reports.totals({ filter, segments: [{ grain: "h", opens, closes: to }] })
          const moved = yield* repository.movedCost(filter, tenantId, opens, to)
          const one = fastCap(tenantId, cap, cost - moved, to)
          if (one !== undefined && one.actual >= worth) found.push(one)
        }
        after = nextCursor ?? undefined
      } while (after !== undefined)
      return found
    })

    const look = Effect.fn("Anomalies.look")(function* (tenantId: TenantId, since: number, to: number) {
      const hours = yield* repository.hours(tenantId, to - historyDays * dayMillis, to)
      const candidates: ReadonlyArray<JudgedFinding> = [
        ...findingsOf(tenantId, hours, { since, to, worthUsd: minAnomalyUsd }),
        ...(yield* costlyPlans(tenantId, since, to)),
        ...(yield* fastCaps(tenantId, to))
      ]
      const entries: Array<AuditDraft> = []
      for (const { isNew, ...finding } of candidates) {
        const isDrop = finding.actual < finding.expected
        if (isDrop && (yield* repository.isReported(finding, to - reportedDays * dayMillis))) continue
        if ((yield* repository.extend(finding)) || !isNew) continue
        const stored = yield* repository.insert(finding, to)
        const after = { ...shown(stored), contributors: stored.contributors }
        entries.push({ action: anomalyActions.AnomalyDetected, entityId: stored.id, tenantId, after })
      }
      return entries
    })

    /**
     * Looks at the hours that have ended since the last time, or since a moment that is named; another replica that looks
     * meanwhile looks for all.
     */
    const detect = Effect.fn("Anomalies.detect")(
      function* (named: number | undefined) {
        const to = Math.floor((yield* DateTime.now).epochMilliseconds / hourMillis) * hourMillis
        const progress = yield* repository.progress
        const through = progress?.through?.epochMilliseconds ?? to - dayMillis
        if (progress === undefined || (through >= to && named === undefined)) return { value: 0, entries: [] }
        const since = named ?? Math.max(through, to - dayMillis)
        const entries: Array<AuditDraft> = []
        for (const tenantId of yield* repository.tenants(since - dayMillis, to)) {
          entries.push(...(yield* look(tenantId, since, to)))
        }
        yield* repository.advance(to)
        return { value: entries.length, entries }
      },
      audit.change,
      asSystem
    )

    yield* repeatJob("detect anomalies", "1 minute", detect(undefined))

    return {
      /** Stores, within the current change, what a provider billed and nothing explains; its entry, if it is new. */
      noteBill: Effect.fn("Anomalies.noteBill")(function* (finding: BillFinding) {
        const { epochMilliseconds } = yield* DateTime.now
        const found = yield* repository.noteBill(finding, epochMilliseconds)
        if (found === undefined) return []
        const after = { ...shown(found), contributors: found.contributors }
        return [
          { action: anomalyActions.AnomalyDetected, entityId: found.id, after }
        ] satisfies ReadonlyArray<AuditDraft>
      }),
      detect: detect(undefined),
      /** The same in usage that came with its history, from a moment on. */
      detectSince: (since: DateTime.Utc) => detect(since.epochMilliseconds),
      list: Effect.fn("Anomalies.list")(function* (filter: AnomalyFilter, after: AnomalyId | undefined, limit: number) {
        const principal = yield* CurrentPrincipal
        const { tenantId } = filter
        const visible = yield* visibleUsage(principal, tenantId === undefined ? {} : { tenantId })
        const rows = yield* database.read(
          scopeOf(principal),
          repository.list({ ...filter, ...visible }, after, limit + 1)
        )
        return slice(rows.map(toAnomaly), limit, ({ id }) => id)
      }),
      get: Effect.fn("Anomalies.get")(function* (id: AnomalyId) {
        return toAnomaly(yield* requireVisible(yield* database.asCaller(repository.get(id))))
      }),
      update: Effect.fn("Anomalies.update")(function* (id: AnomalyId, patch: AnomalyPatch) {
        const before = yield* requireVisible(yield* repository.lock(id))
        const wanted = patched(before, patch, ["status", "reason"])
        if (wanted === before) return { value: toAnomaly(before), entries: [] }
        if (wanted.status !== before.status && (patch.reason ?? null) === null) {
          const errors = [{ path: ["payload", "reason"], message: "Expected the reason for another status" }]
          return yield* new ValidationFailed({ errors })
        }
        const after = yield* repository.decide(wanted)
        const action = actions[after.status]
        const { tenantId } = after
        const entry = { action, entityId: id, tenantId, before: shown(before), after: shown(after) }
        return { value: toAnomaly(after), entries: [entry] }
      }, audit.change)
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(
    Layer.provide(Layer.mergeAll(AnomaliesRepository.layer, ReportsRepository.layer))
  )
}

/** An agent sees what is about itself; not that there is more. */
const requireVisible = Effect.fnUntraced(function* (found: StoredAnomaly) {
  const { agentId } = yield* Effect.orDie(visibleUsage(yield* CurrentPrincipal, {}))
  return agentId === undefined || (found.dimension === "agent" && found.key === agentId)
    ? found
    : yield* new AnomalyNotFound({})
})

const actions = {
  open: anomalyActions.AnomalyReopened,
  acknowledged: anomalyActions.AnomalyAcknowledged,
  dismissed: anomalyActions.AnomalyDismissed
}

const nanoOf = (usd: BigDecimal.BigDecimal): bigint => BigDecimal.scale(usd, 9).value

const fastCap = (
  tenantId: TenantId,
  { capId, headroom, periodEnd, periodStart, spent }: CapUtilization,
  lastHour: bigint,
  to: number
): JudgedFinding | undefined => {
  const start = periodStart?.epochMilliseconds ?? to
  const found = burnRate({
    capId,
    headroomNanoUsd: nanoOf(headroom),
    lastHourNanoUsd: lastHour,
    spentNanoUsd: nanoOf(spent),
    elapsedHours: (to - start) / hourMillis,
    remainingHours: ((periodEnd?.epochMilliseconds ?? to) - to) / hourMillis
  })
  if (found === undefined) return undefined
  return {
    tenantId,
    dimension: "cap",
    key: capId,
    kind: "burn-rate",
    startsAt: to - hourMillis,
    endsAt: to,
    expected: BigInt(Math.round(Number(lastHour) / found.times)),
    actual: lastHour,
    score: Math.min(maxScore, Math.round(found.times * 100) / 100),
    isNew: true
  }
}

const toAnomaly = ({ actual, endsAt, expected, startsAt, ...anomaly }: StoredAnomaly): Anomaly => ({
  ...anomaly,
  start: startsAt,
  end: endsAt,
  expectedUsd: netUsd(expected),
  actualUsd: netUsd(actual),
  impactUsd: netUsd(actual - expected)
})

/** What the audit log keeps of an anomaly. */
const shown = ({ actual, dimension, endsAt, expected, key, kind, reason, score, startsAt, status }: StoredAnomaly) => ({
  dimension,
  key,
  kind,
  start: DateTime.formatIso(startsAt),
  end: DateTime.formatIso(endsAt),
  expectedUsd: usdOf(expected),
  actualUsd: usdOf(actual),
  score,
  status,
  reason
})
