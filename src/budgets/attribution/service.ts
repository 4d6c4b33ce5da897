import { Cache, Context, Effect, Exit, Layer } from "effect"
import { type AgentId, type AgentNotActive, type AgentNotFound } from "../../agents/agents/domain.ts"
import { Agents } from "../../agents/agents/service.ts"
import { type ApplicationId, type ApplicationNotFound } from "../../applications/applications/domain.ts"
import { Applications } from "../../applications/applications/service.ts"
import { type AuditOrigin } from "../../audit/log/domain.ts"
import { auditOrigin } from "../../audit/log/service.ts"
import { covers } from "../../kernel/authority/capability.ts"
import { CurrentPrincipal, Forbidden, type Principal } from "../../kernel/authority/principal.ts"
import { CurrentPrecondition } from "../../kernel/http/precondition.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { ValidationFailed } from "../../kernel/problems/problems.ts"
import { Database } from "../../platform/database/database.ts"
import { CurrentRepeatable } from "../../platform/idempotency/domain.ts"
import { Tenants } from "../../tenants/service.ts"
import { type CallPlan, type PlanId, PlanNotFound } from "../ledger/domain.ts"
import { type BudgetSubject, type Dimensions, type Requester } from "../ledger/protocol-domain.ts"
import { LedgerStore } from "../ledger/repository.ts"

/**
 * The model that a name stands for: an alias counts as its model, so that caps, reservations and calls agree. A name that
 * the catalogue of models does not have stands for itself; without a catalogue every name does.
 */
export const ModelNames = Context.Reference<(name: string) => string>("app/budgets/ModelNames", {
  defaultValue: () => (name) => name
})

/** The plans that calls name, of any tenant. What is cached of a plan never changes. */
export class CallPlans extends Context.Service<CallPlans>()("app/budgets/CallPlans", {
  make: Effect.gen(function* () {
    const database = yield* Database
    const store = yield* LedgerStore
    const plans = yield* Cache.makeWith(
      (id: PlanId) =>
        database.read("all", store.planOf(id)).pipe(
          Effect.flatMap(Effect.fromOption),
          Effect.mapError(() => new PlanNotFound({}))
        ),
      { capacity: 50_000, timeToLive: (exit) => (Exit.isSuccess(exit) ? "1 day" : 0) }
    )
    return { get: (id: PlanId): Effect.Effect<CallPlan, PlanNotFound> => Cache.get(plans, id) }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(LedgerStore.layer))
}

/** What a caller declares about a reservation or a call. */
export interface DeclaredAttribution extends Omit<Dimensions, "agentId" | "apiKeyId"> {
  readonly agentId?: AgentId | undefined
  readonly planId?: PlanId | undefined
}

type SpentAttributionError = AgentNotFound | ApplicationNotFound | PlanNotFound | Forbidden | ValidationFailed
export type AttributionError = AgentNotActive | SpentAttributionError

/**
 * Resolves what a request counts for, once: from the credential, the plan and what the caller declares. The result is
 * passed on to the ledger; a gateway call replaces model and provider in its dimensions for each target that it tries.
 */
export class Attribution extends Context.Service<Attribution>()("app/budgets/Attribution", {
  make: Effect.gen(function* () {
    const agents = yield* Agents
    const applications = yield* Applications
    const plans = yield* CallPlans
    const modelOf = yield* ModelNames
    const tenants = yield* Tenants
    let known: TenantId | undefined
    // The default tenant never changes, so it is read once.
    const defaultTenant = Effect.suspend(() =>
      known === undefined
        ? Effect.tap(tenants.defaultId, (id) => Effect.sync(() => (known = id)))
        : Effect.succeed(known)
    )

    const lookUp = Effect.fnUntraced(function* <E>(
      principal: Principal,
      { planId, ...given }: DeclaredAttribution,
      tenantOf: (id: AgentId) => Effect.Effect<TenantId, E>
    ): Effect.fn.Return<BudgetSubject, SpentAttributionError | E> {
      const own = credentialValues(principal)
      for (const [name, what] of fixedByCredential) {
        if (own[name] !== undefined && given[name] !== undefined && given[name] !== own[name]) {
          return yield* new Forbidden({ missing: [], detail: `The credential is another ${what}'s.` })
        }
      }
      const plan = planId === undefined ? undefined : yield* plans.get(planId)
      const declared = plan === undefined ? given : yield* underPlan(principal, plan, given)
      if (own.applicationId === undefined && declared.applicationId !== undefined) {
        yield* applications.known(declared.applicationId as ApplicationId)
      }
      const agentId = declared.agentId ?? own.agentId
      const tenantId =
        agentId === undefined ? (principal.tenantId ?? (yield* defaultTenant)) : yield* tenantOf(agentId as AgentId)
      return { tenantId, dimensions: { ...declared, ...own }, plan }
    })

    return {
      /** Under a plan a request counts for the plan's agent and task type. */
      resolve: (given: DeclaredAttribution): Effect.Effect<BudgetSubject, AttributionError> =>
        Effect.withFiber((fiber): Effect.Effect<BudgetSubject, AttributionError> => {
          const declared = given.model === undefined ? given : { ...given, model: modelOf(given.model) }
          const principal = Context.get(fiber.context, CurrentPrincipal)
          const own = credentialValues(principal)
          const needsLookUp =
            declared.planId !== undefined ||
            declared.agentId !== undefined ||
            declared.applicationId !== undefined ||
            own.agentId !== undefined
          // Most requests name nothing that has to be looked up.
          return needsLookUp || principal.tenantId === undefined
            ? lookUp(principal, declared, agents.activeTenantOf)
            : Effect.succeed({ tenantId: principal.tenantId, dimensions: { ...declared, ...own }, plan: undefined })
        }),
      /** The same for what was spent already: its agent need not be active any more. */
      resolveSpent: (given: DeclaredAttribution): Effect.Effect<BudgetSubject, SpentAttributionError> =>
        Effect.flatMap(CurrentPrincipal, (principal) =>
          lookUp(
            principal,
            given.model === undefined ? given : { ...given, model: modelOf(given.model) },
            agents.tenantOf
          )
        )
    }
  })
}) {
  static readonly layer = Layer.effect(this, this.make).pipe(Layer.provide(CallPlans.layer))
}

const fixedByCredential = [
  ["agentId", "agent"],
  ["applicationId", "application"]
] as const

/** The declared values completed by those of the plan. A plan of another agent does not exist for the caller. */
const underPlan = (
  { name, tenantId }: Principal,
  plan: CallPlan,
  declared: Omit<DeclaredAttribution, "planId">
): Effect.Effect<Omit<DeclaredAttribution, "planId">, PlanNotFound | ValidationFailed> => {
  const agentId = declared.agentId ?? after(name, "agent:") ?? plan.agentId
  if (agentId !== plan.agentId || (tenantId !== undefined && tenantId !== plan.tenantId)) {
    return Effect.fail(new PlanNotFound({}))
  }
  if (declared.taskType !== undefined && declared.taskType !== plan.taskType) {
    const expected =
      plan.taskType === null ? "no task type, as its plan" : `the task type of its plan, ${plan.taskType}`
    return Effect.fail(
      new ValidationFailed({ errors: [{ path: ["payload", "taskType"], message: `Expected ${expected}` }] })
    )
  }
  return Effect.succeed({ ...declared, agentId: plan.agentId, taskType: plan.taskType ?? undefined })
}

const after = (name: string, prefix: string) => (name.startsWith(prefix) ? name.slice(prefix.length) : undefined)

/** The values that a credential fixes; a request cannot override them. */
const credentialValues = ({
  apiKeyId: combined,
  applicationId,
  name
}: Principal): Pick<Dimensions, "agentId" | "apiKeyId" | "applicationId"> => {
  const agentId = after(name, "agent:")
  const apiKeyId = after(name, "api-key:") ?? combined
  const own: { -readonly [Name in "agentId" | "apiKeyId" | "applicationId"]?: Dimensions[Name] } = {}
  if (agentId !== undefined) own.agentId = agentId
  if (apiKeyId !== undefined) own.apiKeyId = apiKeyId
  if (applicationId !== undefined) own.applicationId = applicationId
  return own
}

/** The caller as the ledger's rows name it. */
export const requester: Effect.Effect<Requester> = Effect.withFiber((fiber) =>
  Effect.succeed({
    principal: Context.get(fiber.context, CurrentPrincipal).name,
    repeatable: Context.get(fiber.context, CurrentRepeatable),
    seen: Context.get(fiber.context, CurrentPrecondition)?.seen
  })
)

/** The same with what entries of the audit log need. */
export const auditedRequester: Effect.Effect<Requester & { readonly audit: AuditOrigin }> = Effect.zipWith(
  requester,
  auditOrigin,
  (by, audit) => ({ ...by, audit })
)

/** Whether a caller may act on what another principal reserved. */
export const canActForOthers = ({ capabilities, kind }: Principal): boolean =>
  kind !== "agent" && capabilities.some((held) => covers(held, "budgets:write"))

/**
 * A filter with the caller's tenant in it, so that rows are found by their key: with row-level security alone the database
 * reads the rows of every tenant and drops them. Undefined where another tenant's rows are wanted.
 */
export const withinTenant = <Filter extends { readonly tenantId?: TenantId | undefined }>(
  { tenantId }: Principal,
  filter: Filter
): Filter | undefined => {
  if (tenantId === undefined) return filter
  return filter.tenantId === undefined || filter.tenantId === tenantId ? { ...filter, tenantId } : undefined
}

/** Whether a caller may see a counter of this scope: an agent must not learn what others spend. */
export const seesCounted = (
  { kind, name }: Principal,
  { agentId }: { readonly agentId?: string | number | undefined }
): boolean => kind !== "agent" || agentId === undefined || name === `agent:${agentId}`
