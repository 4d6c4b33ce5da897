import { Context, DateTime, Effect, Layer, Option } from "effect"
import { SecureRandom } from "effect/crypto"
import { allowsTaskType } from "../../agents/agent-templates/limits-domain.ts"
import { AgentId, AgentNotActive, isActiveAt } from "../../agents/agents/domain.ts"
import { Agents } from "../../agents/agents/service.ts"
import { Audit } from "../../audit/log/service.ts"
import { type AuditAction } from "../../kernel/authority/audit-action.ts"
import { CurrentPrincipal } from "../../kernel/authority/principal.ts"
import { type ListRequest } from "../../kernel/http/listing.ts"
import { emptySlice } from "../../kernel/http/page.ts"
import { outdated } from "../../kernel/http/precondition.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { largestNanoUsd, usdOf } from "../../kernel/usd.ts"
import { Database, momentText, scopeOf, statementMoment } from "../../platform/database/database.ts"
import { type IdempotencyKeyReused, checkReplay } from "../../platform/idempotency/domain.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { auditedRequester, requester, withinTenant } from "../attribution/service.ts"
import { applicableCaps, CapIndexes, revisionsOf } from "../ledger/cap-index.ts"
import { allTenants, PlanId, PlanNotActive, PlanNotFound, type PlanStatus, type StoredCap } from "../ledger/domain.ts"
import { denialOf, problemOfRefusal, refusalOf } from "../ledger/problems.ts"
import {
  type ApplicableCap,
  auditEntryOf,
  type AvailableBudget,
  type BudgetSubject,
  capsOfRequest,
  slotColumns
} from "../ledger/protocol-domain.ts"
import { totalOf } from "../ledger/quantity-domain.ts"
import { Ledger } from "../ledger/service.ts"
import {
  heartbeatSecondsDefault,
  type Plan,
  planActions,
  type PlanExtension,
  PlanExtensionDenied,
  PlanHasOpenReservations,
  type PlanStart
} from "./domain.ts"
import { type PlanFilter, type PlanOutcome, PlansRepository, type StoredPlan } from "./repository.ts"

/** A change of a plan, with the caps that it holds budget on, in their places. */
interface ChangeUnderCaps {
  readonly outcome: PlanOutcome | { readonly verdict: "uncovered" }
  readonly held: ReadonlyArray<ApplicableCap>
}

/** Changes of plans that move budget. */
export class PlanChanges extends Context.Service<PlanChanges>()("app/budgets/PlanChanges", {
  make: Effect.gen(function* () {
    const capIndexes = yield* CapIndexes
    const ledger = yield* Ledger
    const repository = yield* PlansRepository

    /** Changes a plan together with the caps that it holds budget on; nothing is denied because of what is due. */
    const underCaps = Effect.fn("PlanChanges.underCaps")(function* (
      subject: BudgetSubject,
      requiresCap: boolean,
      request: object
    ): Effect.fn.Return<ChangeUnderCaps> {
      let isFresh = false
      for (;;) {
        const now = momentText(yield* statementMoment)
        const indexes = yield* capIndexes.of([subject])
        const applicable = applicableCaps(indexes, subject)
        if (requiresCap && applicable.length === 0) {
          if (isFresh) return { outcome: { verdict: "uncovered" }, held: [] }
          // An uncovered plan never reaches the statement, which alone knows whether the copy is old.
          yield* capIndexes.refresh(indexes.keys())
          isFresh = true
          continue
        }
        const held = applicable.filter(({ cap }) => isHeldByPlans(cap))
        yield* ledger.reclaim(held.some(({ cap }) => cap.tenantId === allTenants) ? null : subject.tenantId)
        const outcome = yield* repository.change({
          ...request,
          ...capsOfRequest(held, revisionsOf(indexes)),
          now,
          tenant: subject.tenantId
        })
        if (outcome.verdict !== "stale") return { outcome, held }
        yield* capIndexes.refresh(indexes.keys())
      }
    })

    return { underCaps }
  })
}) {
  static readonly layer = Layer.effect(this, this.make)
}

/** Plans of agents: a budget that is reserved ahead, drawn on call by call, and returned in the end. */
export class Plans extends Context.Service<Plans>()("app/budgets/Plans", {
  make: Effect.gen(function* () {
    const agents = yield* Agents
    const audit = yield* Audit
    const database = yield* Database
    const changes = yield* PlanChanges
    const ledger = yield* Ledger
    const random = yield* SecureRandom.SecureRandom
    const repository = yield* PlansRepository
    const { budgets } = yield* Settings

    const find = Effect.fnUntraced(function* (agentId: AgentId, id: PlanId) {
      yield* agents.tenantOf(agentId)
      const scope = scopeOf(yield* CurrentPrincipal)
      const found = yield* database.read(scope, repository.find(agentId, id, yield* statementMoment))
      return yield* Option.match(found, {
        onNone: () => Effect.fail(new PlanNotFound({})),
        onSome: Effect.succeed
      })
    })

    const list = Effect.fn("Plans.list")(function* (
      agentId: AgentId,
      status: PlanStatus | undefined,
      page: ListRequest<PlanId>
    ) {
      const tenantId = yield* agents.tenantOf(agentId)
      const now = yield* statementMoment
      const { items, nextCursor } = yield* database.read(
        tenantId,
        repository.list({ tenantId, agentId, status }, page, now)
      )
      return { items: items.map(toPlan), nextCursor }
    })

    /** Those that the caller may see: of its tenant, and of an agent its own. */
    const listAll = Effect.fn("Plans.listAll")(function* (filter: PlanFilter, page: ListRequest<PlanId>) {
      const principal = yield* CurrentPrincipal
      const within = withinTenant(principal, filter)
      const own = principal.kind === "agent" ? AgentId.make(principal.name.slice("agent:".length)) : within?.agentId
      if (within === undefined || (within.agentId !== undefined && within.agentId !== own)) return emptySlice
      const found = repository.list({ ...within, agentId: own }, page, yield* statementMoment)
      const { items, nextCursor } = yield* database.read(scopeOf(principal), found)
      return { items: items.map(toPlan), nextCursor }
    })

    /** What every request to change a plan has in common. */
    const requestFor = Effect.fnUntraced(function* (
      kind: string,
      agentId: AgentId,
      id: PlanId,
      action: AuditAction,
      after: object
    ) {
      const by = yield* auditedRequester
      const entries = [auditEntryOf(1, action, id, by.audit, { agentId, ...after })]
      return { ...slotColumns(by), kind, id, agent: agentId, waiting: false, entries }
    })

    /** A repeated request is answered as the first one, even if the agent was suspended since. */
    const orReplayed = Effect.fnUntraced(function* (problem: AgentNotActive) {
      const { principal, repeatable } = yield* requester
      const replay = repeatable === undefined ? undefined : yield* repository.replayOf({ ...repeatable, principal })
      return replay === undefined ? yield* problem : yield* doneOf(replay)
    })

    const start = Effect.fn("Plans.start")(
      function* (agentId: AgentId, input: PlanStart) {
        const agent = yield* agents.get(agentId)
        if (!isActiveAt(agent, yield* DateTime.now)) return yield* new AgentNotActive({})
        const taskType = input.taskType ?? agent.defaultTaskType
        if (!allowsTaskType(agent.allowedTaskTypes, taskType)) {
          return yield* fault("taskType", "Expected a task type that the agent is allowed")
        }
        const { applicationId } = yield* CurrentPrincipal
        const dimensions = { agentId, applicationId, taskType: taskType ?? undefined }
        const heartbeatSeconds = input.heartbeatSeconds ?? heartbeatSecondsDefault
        const id = PlanId.make(yield* random.uuidV7())
        const request = yield* requestFor("start", agentId, id, planActions.PlanStarted, { taskType, heartbeatSeconds })
        const started = yield* changes.underCaps({ tenantId: agent.tenantId, dimensions }, budgets.requireCap, {
          ...request,
          application: applicationId,
          task_type: taskType,
          name: input.name,
          amount: Number(input.budgetUsd),
          heartbeat: heartbeatSeconds,
          expires: input.expiresInSeconds,
          metadata: input.metadata
        })
        const denial = denialOfChange(started, input.budgetUsd)
        if (denial !== undefined) {
          yield* audit.refused(refusalOf({ tenantId: agent.tenantId, dimensions }, denial))
          return yield* problemOfRefusal(yield* CurrentPrincipal, denial)
        }
        return toPlan(yield* doneOf(started.outcome))
      },
      Effect.catchTag("AgentNotActive", (problem) => Effect.map(orReplayed(problem), toPlan))
    )

    const extend = Effect.fn("Plans.extend")(
      function* (agentId: AgentId, id: PlanId, input: PlanExtension) {
        const { additionalUsd, reason } = input
        yield* agents.activeTenantOf(agentId)
        const { applicationId, taskType, tenantId } = yield* find(agentId, id)
        const dimensions = { agentId, applicationId: applicationId ?? undefined, taskType: taskType ?? undefined }
        const about = { additionalUsd: usdOf(additionalUsd), ...(reason === undefined ? {} : { reason }) }
        const extended = yield* changes.underCaps({ tenantId, dimensions }, false, {
          ...(yield* requestFor("extend", agentId, id, planActions.PlanExtended, about)),
          amount: Number(additionalUsd),
          most: Number(largestNanoUsd)
        })
        const denial = denialOfChange(extended, additionalUsd)
        if (denial?.verdict === "denied") {
          yield* audit.refused(refusalOf({ tenantId, dimensions }, denial))
          return yield* new PlanExtensionDenied(denialOf(yield* CurrentPrincipal, denial))
        }
        if (extended.outcome.verdict === "excessive") {
          return yield* fault("additionalUsd", "Expected at most 8388607.999999999 US dollars with what the plan has")
        }
        return toPlan(yield* doneOf(extended.outcome))
      },
      Effect.catchTag("AgentNotActive", (problem) => Effect.map(orReplayed(problem), toPlan))
    )

    /** A change that no cap can deny. */
    const change = Effect.fnUntraced(function* (
      kind: string,
      agentId: AgentId,
      id: PlanId,
      action: AuditAction,
      waiting = false
    ) {
      const tenant = yield* agents.tenantOf(agentId)
      const request = yield* requestFor(kind, agentId, id, action, {})
      return yield* repository.change({
        ...request,
        waiting,
        // A change that waits for the rest has begun already.
        ...(waiting ? { seen: undefined } : {}),
        now: momentText(yield* statementMoment),
        tenant,
        books: []
      })
    })

    const complete = Effect.fn("Plans.complete")(function* (agentId: AgentId, id: PlanId) {
      const once = change("completed", agentId, id, planActions.PlanCompleted)
      let outcome = yield* once
      if (outcome.verdict === "calls-open" && outcome.isDue) {
        yield* ledger.reclaim(yield* agents.tenantOf(agentId))
        outcome = yield* once
      }
      if (outcome.verdict === "calls-open") return yield* new PlanHasOpenReservations({})
      return toPlan(yield* doneOf(outcome))
    })

    const abort = Effect.fn("Plans.abort")(function* (agentId: AgentId, id: PlanId) {
      const outcome = yield* change("aborted", agentId, id, planActions.PlanAborted)
      // Calls that were being closed at that moment are waited for; no new ones can start.
      const isLeft = "hasCalls" in outcome && outcome.hasCalls === true
      return toPlan(
        yield* doneOf(isLeft ? yield* change("aborted", agentId, id, planActions.PlanAborted, true) : outcome)
      )
    })

    const heartbeat = Effect.fn("Plans.heartbeat")(
      function* (agentId: AgentId, id: PlanId) {
        yield* agents.activeTenantOf(agentId)
        return yield* doneOf(yield* change("heartbeat", agentId, id, planActions.PlanResumed))
      },
      Effect.catchTag("AgentNotActive", orReplayed),
      Effect.map(({ heartbeatBy }) => ({ heartbeatBy }))
    )

    return {
      start,
      list,
      listAll,
      get: (agentId: AgentId, id: PlanId) => Effect.map(find(agentId, id), toPlan),
      extend,
      complete,
      abort,
      heartbeat
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(
    Layer.provide(PlanChanges.layer),
    Layer.provide(PlansRepository.layer)
  )
}

/** The verdict of the ledger where a change was denied. */
const denialOfChange = ({ held, outcome }: ChangeUnderCaps, amount: bigint) => {
  if (outcome.verdict === "uncovered") return { verdict: "uncovered" } as const
  if (outcome.verdict !== "denied") return undefined
  const { limit, reserved, spent } = outcome
  const available = held.map((one, index): AvailableBudget => ({
    ...one,
    headroom: outcome.headrooms[index] ?? 0n,
    resetsAt: outcome.ends[index] ?? null
  }))
  const budget = available[outcome.failing - 1]
  if (budget === undefined) return undefined
  const requested = { usd: amount, tokens: 0n, requests: 0n }
  const insufficient = { budget, limit, spent, reserved, requested }
  return { verdict: "denied", insufficient, available } as const
}

const secondsOfWeek = 604_800
const longPeriods = new Set<StoredCap["period"]>(["week", "month", "quarter", "year", "total"])
const heldDimensions = new Set(["agentId", "applicationId", "taskType"])

/** Caps with short periods, or with dimensions in which the calls of a plan differ, are checked call by call. */
const isHeldByPlans = ({ period, scope, unit, windowSeconds }: StoredCap): boolean =>
  unit === "usd" &&
  (longPeriods.has(period) || (windowSeconds ?? 0) >= secondsOfWeek) &&
  Object.keys(scope).every((name) => heldDimensions.has(name))

const toPlan = (stored: StoredPlan): Plan => {
  const { applicationId: _, budget, remaining, reserved, spent, ...plan } = stored
  return {
    ...plan,
    budgetUsd: budget,
    spentUsd: totalOf("usd", spent),
    reservedUsd: totalOf("usd", reserved),
    remainingUsd: totalOf("usd", remaining)
  }
}

const fault = (member: string, message: string) =>
  Effect.fail(new ValidationFailed({ errors: [{ path: ["payload", member], message }] }))

/** The plan after a change, or the problem where nothing was changed. */
const doneOf = (
  outcome: ChangeUnderCaps["outcome"]
): Effect.Effect<StoredPlan, PlanNotFound | PlanNotActive | IdempotencyKeyReused> => {
  switch (outcome.verdict) {
    case "done":
    case "same":
      return Effect.succeed(outcome.plan)
    case "replay":
      return Effect.as(checkReplay(outcome.sha256), outcome.plan)
    case "changed":
      return outdated
    case "missing":
      return Effect.fail(new PlanNotFound({}))
    case "inactive":
      return Effect.fail(new PlanNotActive({ planStatus: outcome.status }))
    default:
      return Effect.die(new Error(`The ledger answered ${outcome.verdict} to a change of a plan`))
  }
}
