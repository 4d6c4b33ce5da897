import { Context, DateTime, Effect, Layer, Option } from "effect"
import { SecureRandom } from "effect/crypto"
import { type AgentId, AgentNotActive, type AgentNotFound } from "../../identity/agents/domain.ts"
import { allowsTaskType } from "../../identity/agent-templates/limits-domain.ts"
import { Agents } from "../../identity/agents/service.ts"
import { CurrentPrincipal } from "../../kernel/principal.ts"
import { type IdempotencyKeyReused, checkReplay } from "../../platform/idempotency/domain.ts"
import { type AuditAction } from "../../kernel/audit-action.ts"
import { type Slice, slice } from "../../kernel/page.ts"
import { ValidationFailed } from "../../kernel/problems.ts"
import { largestNanoUsd } from "../../kernel/usd.ts"
import { auditedRequester } from "../attribution/service.ts"
import { PlanId, type PlanStatus } from "../ledger/domain.ts"
import { BudgetDenied, PlanNotActive, PlanNotFound } from "../ledger/problem-domain.ts"
import { entryOf, slotOf } from "../ledger/request.ts"
import { Ledger } from "../ledger/service.ts"
import { denialOf, uncovered } from "../reservations/views.ts"
import { scopeOf, Database } from "../../platform/database/database.ts"
import { Settings } from "../../platform/settings/settings.ts"
import {
  type Heartbeat,
  heartbeatSecondsDefault,
  type Plan,
  planActions,
  type PlanExtension,
  PlanExtensionDenied,
  PlanHasOpenReservations,
  type PlanStart
} from "./domain.ts"
import { type HeldChange, PlanHolds } from "./holds.ts"
import { PlansRepository, type StoredPlan } from "./repository.ts"
import { planView } from "./view.ts"

type Refused = AgentNotFound | PlanNotFound | PlanNotActive | IdempotencyKeyReused

/** Plans of agents: a budget that is held ahead, drawn on call by call, and given back in the end. */
export class Plans extends Context.Service<
  Plans,
  {
    start(
      agentId: AgentId,
      input: PlanStart
    ): Effect.Effect<Plan, Refused | AgentNotActive | BudgetDenied | ValidationFailed>
    list(
      agentId: AgentId,
      status: PlanStatus | undefined,
      after: PlanId | undefined,
      limit: number
    ): Effect.Effect<Slice<Plan, PlanId>, AgentNotFound>
    get(agentId: AgentId, id: PlanId): Effect.Effect<Plan, AgentNotFound | PlanNotFound>
    /** Raises the budget on all governing caps or on none. */
    extend(
      agentId: AgentId,
      id: PlanId,
      input: PlanExtension
    ): Effect.Effect<Plan, Refused | AgentNotActive | PlanExtensionDenied | ValidationFailed>
    /** Gives back what is not spent; again answers the same. */
    complete(agentId: AgentId, id: PlanId): Effect.Effect<Plan, Refused | PlanHasOpenReservations>
    /** The same at once: releases what its calls hold, and they settle late. */
    abort(agentId: AgentId, id: PlanId): Effect.Effect<Plan, Refused>
    heartbeat(agentId: AgentId, id: PlanId): Effect.Effect<Heartbeat, Refused | AgentNotActive>
  }
>()("app/budgets/Plans") {
  static readonly layerNoDeps = Layer.effect(
    Plans,
    Effect.gen(function* () {
      const agents = yield* Agents
      const database = yield* Database
      const holds = yield* PlanHolds
      const ledger = yield* Ledger
      const random = yield* SecureRandom.SecureRandom
      const repository = yield* PlansRepository
      const { budgets } = yield* Settings

      const find = Effect.fnUntraced(function* (agentId: AgentId, id: PlanId) {
        yield* agents.tenantOf(agentId)
        const scope = scopeOf(yield* CurrentPrincipal)
        const found = yield* database.transaction(scope, repository.find(agentId, id, yield* DateTime.now))
        return yield* Option.match(found, {
          onNone: () => Effect.fail(new PlanNotFound({})),
          onSome: Effect.succeed
        })
      })

      const list = Effect.fn("Plans.list")(function* (
        agentId: AgentId,
        status: PlanStatus | undefined,
        after: PlanId | undefined,
        limit: number
      ) {
        const tenantId = yield* agents.tenantOf(agentId)
        const now = yield* DateTime.now
        const rows = yield* database.transaction(
          tenantId,
          repository.list(tenantId, agentId, status, after, limit + 1, now)
        )
        return slice(rows.map(planView), limit, (plan) => plan.id)
      })

      /** What every request to change a plan says. */
      const requestFor = Effect.fnUntraced(function* (
        kind: string,
        agentId: AgentId,
        id: PlanId,
        action: AuditAction,
        after: object
      ) {
        const by = yield* auditedRequester
        const entries = [entryOf(1, action, id, by.audit, { agentId, ...after })]
        return { ...slotOf(by), kind, id, agent: agentId, waiting: false, entries }
      })

      /** Why a change was denied, if it was. */
      const denialFor = Effect.fnUntraced(function* ({ held, outcome }: HeldChange, amount: bigint) {
        if (outcome.verdict === "uncovered") return uncovered
        if (outcome.verdict !== "denied") return undefined
        const available = held.map((one, index) => ({
          ...one,
          headroom: outcome.headrooms[index] ?? 0n,
          resetsAt: outcome.ends[index] ?? null
        }))
        const budget = available[outcome.failing - 1]
        if (budget === undefined) return undefined
        const { limit, reserved, spent } = outcome
        const asked = { usd: amount, tokens: 0n, requests: 0n }
        return denialOf(yield* CurrentPrincipal, { budget, limit, spent, reserved }, available, asked)
      })

      const start = Effect.fn("Plans.start")(function* (agentId: AgentId, input: PlanStart) {
        const agent = yield* agents.get(agentId)
        if (agent.status !== "active") return yield* new AgentNotActive({})
        const taskType = input.taskType ?? agent.defaultTaskType
        if (!allowsTaskType(agent.allowedTaskTypes, taskType)) {
          return yield* fault("taskType", "Expected a task type that the agent is allowed")
        }
        const { applicationId } = yield* CurrentPrincipal
        const dimensions = { agentId, applicationId, taskType: taskType ?? undefined }
        const heartbeatSeconds = input.heartbeatSeconds ?? heartbeatSecondsDefault
        const id = PlanId.make(yield* random.uuidV7())
        const request = yield* requestFor("start", agentId, id, planActions.PlanStarted, { taskType, heartbeatSeconds })
        const started = yield* holds.change(agent.tenantId, dimensions, budgets.requireCap, {
          ...request,
          application: applicationId,
          task_type: taskType,
          name: input.name,
          amount: Number(input.budgetUsd),
          heartbeat: heartbeatSeconds,
          expires: input.expiresInSeconds,
          metadata: input.metadata
        })
        const denial = yield* denialFor(started, input.budgetUsd)
        if (denial !== undefined) return yield* new BudgetDenied(denial)
        return planView(yield* doneOf(started.outcome))
      })

      const extend = Effect.fn("Plans.extend")(function* (agentId: AgentId, id: PlanId, input: PlanExtension) {
        const { additionalUsd, reason } = input
        yield* agents.activeTenantOf(agentId)
        const { applicationId, taskType, tenantId } = yield* find(agentId, id)
        const dimensions = { agentId, applicationId: applicationId ?? undefined, taskType: taskType ?? undefined }
        const about = { additionalUsd: Number(additionalUsd) / 1e9, ...(reason === undefined ? {} : { reason }) }
        const extended = yield* holds.change(tenantId, dimensions, false, {
          ...(yield* requestFor("extend", agentId, id, planActions.PlanExtended, about)),
          amount: Number(additionalUsd),
          most: Number(largestNanoUsd)
        })
        const denial = yield* denialFor(extended, additionalUsd)
        if (denial !== undefined) return yield* new PlanExtensionDenied(denial)
        if (extended.outcome.verdict === "excessive") {
          return yield* fault("additionalUsd", "Expected at most 8388607.999999999 US dollars with what the plan has")
        }
        return planView(yield* doneOf(extended.outcome))
      })

      /** One change of a plan that no cap can refuse. */
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
          now: DateTime.formatIso(yield* DateTime.now),
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
        return planView(yield* doneOf(outcome))
      })

      const abort = Effect.fn("Plans.abort")(function* (agentId: AgentId, id: PlanId) {
        const outcome = yield* change("aborted", agentId, id, planActions.PlanAborted)
        // Calls that were being settled or released in that moment are waited for; no new ones come.
        const isLeft = "hasCalls" in outcome && outcome.hasCalls === true
        return planView(
          yield* doneOf(isLeft ? yield* change("aborted", agentId, id, planActions.PlanAborted, true) : outcome)
        )
      })

      const heartbeat = Effect.fn("Plans.heartbeat")(function* (agentId: AgentId, id: PlanId) {
        yield* agents.activeTenantOf(agentId)
        const { heartbeatBy } = yield* doneOf(yield* change("heartbeat", agentId, id, planActions.PlanResumed))
        return { heartbeatBy }
      })

      return Plans.of({
        start,
        list,
        get: (agentId, id) => Effect.map(find(agentId, id), planView),
        extend,
        complete,
        abort,
        heartbeat
      })
    })
  )

  static readonly layer = this.layerNoDeps.pipe(Layer.provide(PlanHolds.layer), Layer.provide(PlansRepository.layer))
}

const fault = (member: string, message: string) =>
  Effect.fail(new ValidationFailed({ errors: [{ path: ["payload", member], message }] }))

/** The plan as a change left it, or why nothing was changed. */
const doneOf = (
  outcome: HeldChange["outcome"]
): Effect.Effect<StoredPlan, PlanNotFound | PlanNotActive | IdempotencyKeyReused> => {
  switch (outcome.verdict) {
    case "done":
    case "same":
      return Effect.succeed(outcome.plan)
    case "replay":
      return Effect.as(checkReplay(outcome.sha256), outcome.plan)
    case "missing":
      return Effect.fail(new PlanNotFound({}))
    case "inactive":
      return Effect.fail(new PlanNotActive({ planStatus: outcome.status }))
    default:
      return Effect.die(new Error(`A change of a plan was answered ${outcome.verdict}`))
  }
}
