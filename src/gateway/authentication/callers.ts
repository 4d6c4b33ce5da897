import { Cache, Context, Effect, Exit, Layer, Option } from "effect"
import { type HttpServerRequest } from "effect/http"
import { AgentId } from "../../identity/agents/domain.ts"
import { Agents } from "../../identity/agents/service.ts"
import { asSystem, Audit } from "../../audit/log/service.ts"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { AgentTokens, ApiKeyCredentials, apiKeyRefusals } from "../../access/credentials.ts"
import { bearerToken } from "../../access/request-credentials.ts"
import { anonymous, CurrentPrincipal, type Principal, serviceAccount } from "../../kernel/principal.ts"
import { RateLimits } from "../../access/rate-limits.ts"
import { ServiceAccount } from "../../access/service-account.ts"
import { type Capability, covers, intersection } from "../../kernel/capability.ts"
import { CallPlans } from "../../budgets/attribution/service.ts"
import { PlanId, ReservationId } from "../../budgets/ledger/domain.ts"
import { ReservationQueries } from "../../budgets/reservations/queries.ts"
import { CurrentRequest, headersOf } from "../../platform/http/request.ts"
import { SettingsError } from "../../platform/settings/settings-reader.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { type CallRefused, refused, refusedFor, retryAfter } from "../errors/refusal.ts"

/** A reservation that a call is to be made with. */
export interface Prepared {
  readonly id: ReservationId
  readonly amountNanoUsd: bigint
}

/** Who calls the gateway, and what its agent brings along. */
export interface GatewayCaller {
  readonly principal: Principal
  readonly agentId: AgentId | undefined
  readonly planId: PlanId | undefined
  readonly taskType: string | undefined
  readonly prepared: Prepared | undefined
  readonly perTurnNanoUsd: bigint | null
}

/** What a call says of itself beside its credential. */
export interface DeclaredCall {
  readonly agentId?: string | undefined
  readonly planId?: string | undefined
  readonly taskType?: string | undefined
  readonly reservationId?: string | undefined
}

/** Who may call the gateway, in the words of every SDK: keys and agents' tokens, in either header. */
export class Callers extends Context.Service<
  Callers,
  {
    identify(
      request: HttpServerRequest.HttpServerRequest,
      /** Of which each is enough. */
      capabilities: readonly [Capability, ...ReadonlyArray<Capability>]
    ): Effect.Effect<GatewayCaller, CallRefused>
    /** Who calls by a credential that the gateway takes; undefined where none came. */
    admit(request: HttpServerRequest.HttpServerRequest): Effect.Effect<Principal | undefined, CallRefused>
    /** The agent that a caller is, or declares, with what it brings along. */
    agentOf(principal: Principal, declared: DeclaredCall): Effect.Effect<GatewayCaller, CallRefused>
  }
>()("app/llm/Callers") {
  static readonly layer = Layer.effect(
    Callers,
    Effect.gen(function* () {
      const account = yield* ServiceAccount
      const agents = yield* Agents
      const audit = yield* Audit
      const callPlans = yield* CallPlans
      const changes = yield* AuthCacheInvalidation
      const keys = yield* ApiKeyCredentials
      const limits = yield* RateLimits
      const reservations = yield* ReservationQueries
      const tokens = yield* AgentTokens
      const { environment, llm, sources } = yield* Settings
      const policy = llm.gateway.auth
      if (policy === "None" && environment === "Production") {
        return yield* new SettingsError({
          faults: [
            {
              name: "Llm:Gateway:Auth",
              source: sources.get("Llm:Gateway:Auth") ?? "default",
              reason: "None is for Development only"
            }
          ]
        })
      }

      // As keys are: remembered for a second, and read again after any change of authority.
      const bounds = yield* Cache.makeWith((id: AgentId) => Effect.option(asSystem(agents.bounded(id))), {
        capacity: 10_000,
        timeToLive: (exit) => (Exit.isSuccess(exit) && Option.isSome(exit.value) ? "1 second" : 0)
      })
      yield* changes.onChange(Cache.invalidateAll(bounds))

      const reject = Effect.fnUntraced(function* (message: string) {
        const request = yield* CurrentRequest
        yield* Effect.mapError(limits.anonymous(request?.ipAddress ?? "unknown"), ({ retryAfterSeconds }) =>
          refused(
            429,
            "rate_limit_exceeded",
            "Too many requests without a valid credential.",
            retryAfter(retryAfterSeconds)
          )
        )
        return yield* refused(401, "invalid_api_key", message)
      })

      const checkKey = (key: string) =>
        Effect.catch(keys.check(key), (reason) =>
          Effect.andThen(
            audit.refused({ action: apiKeyRefusals.ApiKeyRefused, target: key.slice(0, 16), reason }),
            reject("The credential is not valid.")
          )
        )
      const checkToken = (token: string) =>
        Effect.catch(tokens.check(token), (refusal) =>
          Effect.andThen(audit.refused(refusal), reject("The credential is not valid."))
        )
      const check = (credential: string): Effect.Effect<Principal, CallRefused> =>
        isAgentToken(credential)
          ? checkToken(credential)
          : Effect.flatMap(account.owns(credential), (owns) =>
              owns ? Effect.succeed(serviceAccount) : checkKey(credential)
            )

      const alone = (only: Principal): Effect.Effect<Principal, CallRefused> => {
        if (policy === "ApiKeyAndAgentToken") return reject("Both a key and an agent's token are asked for.")
        const isAgent = only.kind === "agent"
        return policy === (isAgent ? "ApiKey" : "AgentToken")
          ? reject(isAgent ? "An API key is asked for." : "An agent's token is asked for.")
          : Effect.succeed(only)
      }

      const together = (first: Principal, second: Principal): Effect.Effect<Principal, CallRefused> => {
        if (policy !== "ApiKeyAndAgentToken") {
          return second.name === first.name ? alone(first) : reject("The two credentials are of two callers.")
        }
        const agent = [first, second].find(({ kind }) => kind === "agent")
        const other = [first, second].find(({ kind }) => kind !== "agent")
        if (agent === undefined || other === undefined) return alone(first)
        if (other.tenantId !== undefined && other.tenantId !== agent.tenantId) {
          return reject("The key and the agent are of two tenants.")
        }
        return Effect.succeed({
          ...agent,
          capabilities: intersection(agent.capabilities, other.capabilities),
          applicationId: agent.applicationId ?? other.applicationId,
          ...(other.kind === "api-key" ? { apiKeyId: other.name.slice("api-key:".length) } : {})
        })
      }

      const principalOf = (request: HttpServerRequest.HttpServerRequest): Effect.Effect<Principal, CallRefused> => {
        const { authorization, "x-api-key": key } = headersOf(request)
        const bearer = authorization === undefined ? undefined : bearerToken(authorization)
        if (authorization !== undefined && bearer === undefined) {
          return reject("Authorization takes one bearer token: Bearer <token>.")
        }
        const [first, second] = [...new Set([key, bearer])].filter((one) => one !== undefined && one !== "")
        if (first === undefined) {
          return policy === "None"
            ? Effect.succeed({ ...anonymous, capabilities: ["llm:*"] })
            : reject("No credential was sent: give a key, as the SDK's API key.")
        }
        if (second === undefined) return Effect.flatMap(check(first), alone)
        return Effect.flatMap(Effect.all([check(first), check(second)]), ([one, other]) => together(one, other))
      }

      const reservationNamed = Effect.fnUntraced(function* (principal: Principal, reservationId: string) {
        if (!uuid.test(reservationId)) {
          const message = "reservationId: Expected the id of a reservation"
          return yield* refused(400, "invalid_request", message, {}, "reservationId")
        }
        return yield* reservations.find(ReservationId.make(reservationId)).pipe(
          Effect.provideService(CurrentPrincipal, principal),
          Effect.mapError((problem) => refusedFor(problem))
        )
      })

      const planNamed = Effect.fnUntraced(function* (planId: string) {
        if (!uuid.test(planId)) {
          return yield* refused(400, "invalid_request", "planId: Expected the id of a plan", {}, "planId")
        }
        return yield* Effect.mapError(callPlans.get(PlanId.make(planId)), () => noPlan)
      })

      /** Which agent is charged, with which task type; what it declares must be so. */
      const declaredAgent = Effect.fnUntraced(function* (
        principal: Principal,
        { agentId, planId: underPlan, reservationId, taskType }: DeclaredCall
      ) {
        const reservation = reservationId === undefined ? undefined : yield* reservationNamed(principal, reservationId)
        const prepared = reservation && { id: reservation.id, amountNanoUsd: reservation.amount }
        // A call is for whom its reservation is, and draws on the same plan, unless it says otherwise.
        const named = agentId ?? reservation?.agentId ?? undefined
        const planId = underPlan ?? reservation?.planId ?? undefined
        const own = principal.kind === "agent" ? principal.name.slice("agent:".length) : undefined
        if (own !== undefined && named !== undefined && named !== own) {
          return yield* refused(403, "forbidden", "The credential is another agent's.")
        }
        const plan = planId === undefined ? undefined : yield* planNamed(planId)
        const id = own ?? named ?? plan?.agentId
        if (id === undefined) return { ...nobody, principal, taskType, prepared }
        if (!uuid.test(id))
          return yield* refused(400, "invalid_request", "agentId: Expected the id of an agent", {}, "agentId")
        if (plan !== undefined && (plan.agentId !== id || (principal.tenantId ?? plan.tenantId) !== plan.tenantId)) {
          return yield* noPlan
        }
        const agent = Option.getOrUndefined(yield* Cache.get(bounds, AgentId.make(id)))
        if (agent === undefined || (principal.tenantId ?? agent.tenantId) !== agent.tenantId)
          return yield* refused(404, "agent_not_found", "No agent has this id.")
        if (plan !== undefined && taskType !== undefined && taskType !== plan.taskType) {
          const expected = plan.taskType === null ? "The plan has no task type." : `The plan's is ${plan.taskType}.`
          return yield* refused(400, "task_type_not_allowed", expected, {}, "taskType")
        }
        const task = (plan === undefined ? (taskType ?? agent.defaultTaskType) : plan.taskType) ?? undefined
        if (task !== undefined && agent.allowedTaskTypes.length > 0 && !agent.allowedTaskTypes.includes(task)) {
          return yield* refused(
            400,
            "task_type_not_allowed",
            `The agent may not do tasks of type ${task}.`,
            {},
            "taskType"
          )
        }
        return {
          principal,
          agentId: agent.id,
          planId: plan?.id,
          taskType: task,
          prepared,
          perTurnNanoUsd: agent.perTurnBudget ?? null
        }
      })

      const agentOf = (principal: Principal, declared: DeclaredCall): Effect.Effect<GatewayCaller, CallRefused> => {
        const { agentId, planId, reservationId, taskType } = declared
        if (taskType !== undefined && (taskType === "" || taskType.length > longestTaskType)) return oddTaskType
        const isPlain = (agentId ?? planId ?? reservationId) === undefined && principal.kind !== "agent"
        return isPlain ? Effect.succeed({ ...nobody, principal, taskType }) : declaredAgent(principal, declared)
      }

      /** Whether a request brings something that the gateway takes, and no sign-in. */
      const bringsCredential = Effect.fnUntraced(function* (headers: Readonly<Record<string, string | undefined>>) {
        const { authorization, cookie, "x-api-key": key } = headers
        if (key !== undefined && key !== "") return true
        if (authorization === undefined) return policy === "None" && cookie === undefined
        const bearer = bearerToken(authorization)
        if (bearer === undefined) return true
        return isAgentToken(bearer) || bearer.startsWith("amk_") || (yield* account.owns(bearer))
      })

      return Callers.of({
        agentOf,
        admit: Effect.fnUntraced(function* (request) {
          return (yield* bringsCredential(headersOf(request))) ? yield* principalOf(request) : undefined
        }),
        identify: (request, capabilities) =>
          Effect.flatMap(principalOf(request), (principal) => {
            if (!principal.capabilities.some((held) => capabilities.some((needed) => covers(held, needed)))) {
              return refused(403, "forbidden", `The caller lacks ${capabilities[0]}.`)
            }
            const {
              "x-agent-id": agentId,
              "x-plan-id": planId,
              "x-reservation-id": reservationId,
              "x-task-type": taskType
            } = headersOf(request)
            return agentOf(principal, { agentId, planId, reservationId, taskType })
          })
      })
    })
  ).pipe(Layer.provide(CallPlans.layer))
}

/** What a caller brings along that is no agent's. */
const nobody = { agentId: undefined, planId: undefined, prepared: undefined, perTurnNanoUsd: null }

const noPlan = refused(404, "plan_not_found", "The agent has no plan with this id.")

const longestTaskType = 200
const oddTaskType = refused(
  400,
  "invalid_request",
  `taskType: Expected 1 to ${longestTaskType} characters`,
  {},
  "taskType"
)

const uuid = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/

/** Agents' tokens are signed, in three parts, of which the first is an object; a key of an operator's may have dots. */
const isAgentToken = (credential: string): boolean => credential.startsWith("ey") && credential.split(".").length === 3
