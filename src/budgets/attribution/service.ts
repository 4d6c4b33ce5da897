import { Context, Effect, Layer } from "effect"
import { type AgentId, type AgentNotActive, type AgentNotFound } from "../../identity/agents/domain.ts"
import { Agents } from "../../identity/agents/service.ts"
import { type ApplicationId, type ApplicationNotFound } from "../../applications/applications/domain.ts"
import { Applications } from "../../applications/applications/service.ts"
import { type AuditOrigin } from "../../audit/log/domain.ts"
import { auditOrigin } from "../../audit/log/service.ts"
import { CurrentPrincipal, Forbidden, type Principal } from "../../kernel/principal.ts"
import { CurrentRepeatable } from "../../platform/idempotency/domain.ts"
import { covers } from "../../kernel/capability.ts"
import { type TenantId } from "../../kernel/identifier.ts"
import { ValidationFailed } from "../../kernel/problems.ts"
import { Tenants } from "../../identity/tenants/service.ts"
import { type Dimensions } from "../ledger/cap-index.ts"
import { CallPlans } from "./call-plans.ts"
import { type PlanId } from "../ledger/domain.ts"
import { type CallPlan } from "../ledger/plan-repository.ts"
import { PlanNotFound } from "../ledger/problem-domain.ts"
import { type Requester } from "../ledger/request.ts"

/** What a caller declares of what it spends for. */
export interface DeclaredAttribution extends Omit<Dimensions, "agentId" | "apiKeyId"> {
  readonly agentId?: AgentId | undefined
  readonly planId?: PlanId | undefined
}

/** What a spend counts for: the tenant, the values that scopes of caps name, and the plan that it draws on. */
export interface BudgetSubject {
  readonly tenantId: TenantId
  readonly dimensions: Dimensions
  readonly plan?: CallPlan | undefined
}

type AttributionError =
  | AgentNotActive
  | AgentNotFound
  | ApplicationNotFound
  | PlanNotFound
  | Forbidden
  | ValidationFailed

/** Who spends: what the credential says, and what the caller may add to it. */
export class Attribution extends Context.Service<
  Attribution,
  {
    /** What a spend of the caller counts for; under a plan it is of the plan's agent and task type. */
    resolve(declared: DeclaredAttribution): Effect.Effect<BudgetSubject, AttributionError>
  }
>()("app/budgets/Attribution") {
  static readonly layer = Layer.effect(
    Attribution,
    Effect.gen(function* () {
      const agents = yield* Agents
      const applications = yield* Applications
      const callPlans = yield* CallPlans
      const tenants = yield* Tenants
      let known: TenantId | undefined
      // The default tenant stays the default one, so it is asked for once.
      const defaultTenant = Effect.suspend(() =>
        known === undefined
          ? Effect.tap(tenants.defaultId, (id) => Effect.sync(() => (known = id)))
          : Effect.succeed(known)
      )

      const spender = Effect.fnUntraced(function* (
        principal: Principal,
        { planId, ...given }: DeclaredAttribution
      ): Effect.fn.Return<BudgetSubject, AttributionError> {
        const plan = planId === undefined ? undefined : yield* callPlans.get(planId)
        const declared = plan === undefined ? given : yield* underPlan(principal, plan, given)
        const own = ownValues(principal)
        for (const name of ["agentId", "applicationId"] as const) {
          if (own[name] !== undefined && declared[name] !== undefined && declared[name] !== own[name]) {
            return yield* new Forbidden({ missing: [], detail: `The credential is of another ${name}.` })
          }
        }
        if (own.applicationId === undefined && declared.applicationId !== undefined) {
          yield* applications.known(declared.applicationId as ApplicationId)
        }
        const dimensions = { ...declared, ...own }
        const agentId = declared.agentId ?? own.agentId
        const tenantId =
          agentId === undefined
            ? (principal.tenantId ?? (yield* defaultTenant))
            : yield* agents.activeTenantOf(agentId as AgentId)
        return { tenantId, dimensions, plan }
      })

      return Attribution.of({
        resolve: (declared) =>
          Effect.withFiber((fiber): Effect.Effect<BudgetSubject, AttributionError> => {
            const principal = Context.get(fiber.context, CurrentPrincipal)
            const own = ownValues(principal)
            const isAsked =
              declared.planId !== undefined ||
              declared.agentId !== undefined ||
              declared.applicationId !== undefined ||
              own.agentId !== undefined
            // Most name nothing that has to be looked up.
            return isAsked || principal.tenantId === undefined
              ? spender(principal, declared)
              : Effect.succeed({ tenantId: principal.tenantId, dimensions: { ...declared, ...own }, plan: undefined })
          })
      })
    })
  ).pipe(Layer.provide(CallPlans.layer))
}

/** What a caller declares, with what the plan says of it; a plan of another agent is none to the caller. */
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

/** What a credential is of; it says that by itself, and no caller says otherwise. */
const ownValues = ({
  apiKeyId: besides,
  applicationId,
  name
}: Principal): Pick<Dimensions, "agentId" | "apiKeyId" | "applicationId"> => {
  const agentId = after(name, "agent:")
  const apiKeyId = after(name, "api-key:") ?? besides
  const own: { -readonly [Name in "agentId" | "apiKeyId" | "applicationId"]?: Dimensions[Name] } = {}
  if (agentId !== undefined) own.agentId = agentId
  if (apiKeyId !== undefined) own.apiKeyId = apiKeyId
  if (applicationId !== undefined) own.applicationId = applicationId
  return own
}

/** The caller as rows name it. */
export const requester: Effect.Effect<Requester> = Effect.withFiber((fiber) =>
  Effect.succeed({
    principal: Context.get(fiber.context, CurrentPrincipal).name,
    repeatable: Context.get(fiber.context, CurrentRepeatable)
  })
)

/** The same, and as entries of the audit log name it. */
export const auditedRequester: Effect.Effect<Requester & { readonly audit: AuditOrigin }> = Effect.zipWith(
  requester,
  auditOrigin,
  (by, audit) => ({ ...by, audit })
)

/** Whether a caller may act on what another principal reserved. */
export const canActForOthers = ({ capabilities, kind }: Principal): boolean =>
  kind !== "agent" && capabilities.some((held) => covers(held, "budgets:write"))

/**
 * What a list is asked for, with the caller's tenant in it, so that rows are found by their key: row-level security alone
 * reads everybody's and drops them. Nothing, where another tenant's are asked for.
 */
export const withinTenant = <Filter extends { readonly tenantId?: TenantId | undefined }>(
  { tenantId }: Principal,
  filter: Filter
): Filter | undefined => {
  if (tenantId === undefined) return filter
  return filter.tenantId === undefined || filter.tenantId === tenantId ? { ...filter, tenantId } : undefined
}

/** Whether a caller sees what is counted under a scope: an agent knows nothing of what others spend. */
export const seesCounted = (
  { kind, name }: Principal,
  { agentId }: { readonly agentId?: string | number | undefined }
): boolean => kind !== "agent" || agentId === undefined || name === `agent:${agentId}`
