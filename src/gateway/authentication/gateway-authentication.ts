import { Cache, Clock, Context, Effect, Exit, Layer, Option, Schema } from "effect"
import { type Headers, type HttpServerRequest } from "effect/http"
import { accessActions, credentialLate } from "../../access/access.ts"
import { AuthCacheInvalidation } from "../../access/auth-cache-invalidation.ts"
import { isAgentToken } from "../../access/authentication.ts"
import { bearerToken, keyInAuthorization } from "../../access/authorization-header.ts"
import { CapabilityUses } from "../../access/capability-uses.ts"
import { AgentTokenCheck, ApiKeyCheck, GatewayCredentialCheck } from "../../access/credential-checks.ts"
import { RateLimits } from "../../access/rate-limits.ts"
import { Rejections } from "../../access/rejections.ts"
import { ServiceAccount } from "../../access/service-account.ts"
import { AgentId, AgentNotFound } from "../../agents/agents/domain.ts"
import { Agents } from "../../agents/agents/service.ts"
import { type ApplicationNotFound } from "../../applications/applications/domain.ts"
import { asSystem, Audit, type Refusal } from "../../audit/log/service.ts"
import { Attribution, type AttributionError, type DeclaredAttribution } from "../../budgets/attribution/service.ts"
import { Label, PlanId, ReservationId } from "../../budgets/ledger/domain.ts"
import { ledgerLate } from "../../budgets/ledger/problems.ts"
import { type BudgetSubject } from "../../budgets/ledger/protocol-domain.ts"
import { ReservationQueries } from "../../budgets/reservations/queries.ts"
import { type Capability, covers, intersection } from "../../kernel/authority/capability.ts"
import {
  anonymous,
  CurrentPrincipal,
  Forbidden,
  type Principal,
  RateLimited,
  serviceAccount,
  Unauthenticated
} from "../../kernel/authority/principal.ts"
import { mismatchOf, requiresSomeTag, type VersionMismatch } from "../../kernel/http/precondition.ts"
import { uuidIn } from "../../kernel/identifier.ts"
import { UnsupportedMediaType } from "../../kernel/problems/problems.ts"
import { databaseDeadline } from "../../platform/http/deadline.ts"
import { CurrentRequest, headersOf, routeOf } from "../../platform/http/request.ts"
import { Settings } from "../../platform/settings/settings.ts"
import { Tenants } from "../../tenants/service.ts"
import { gatewayError, type GatewayError, invalidMember, retryAfter } from "../errors/gateway-error.ts"

/** An existing reservation that a call is to use. */
export interface ExistingReservation {
  readonly id: ReservationId
  readonly amountNanoUsd: bigint
}

/** The party that is charged for a call; resolved once, when the request arrives. */
export interface GatewayCaller {
  /** The tenant and the dimensions that caps count by, except for the model and its provider, and the plan. */
  readonly subject: BudgetSubject
  /** The reservation that the call is to use. */
  readonly reservation: ExistingReservation | undefined
  /** The agent's budget for one call. */
  readonly perTurnNanoUsd: bigint | null
}

/** The attribution that a request declares in addition to its credential. */
export interface DeclaredCall {
  readonly agentId?: string | undefined
  readonly planId?: string | undefined
  readonly taskType?: string | undefined
  readonly reservationId?: string | undefined
}

const severalKeys = Symbol("several keys")

/** Paths of Google's clients, which send their key in a header of their own, or in the query. */
const isOfGoogle = /^\/v1(?:beta)?\/models\b/

/** The protocol of a WebSocket that has a key: pages can set no header of it (OpenAI's clients for browsers). */
const keyProtocol = /(?:^|,)\s*openai-insecure-api-key\.([^\s,]+)/

/** The key of a request for a WebSocket in the place that pages have for it. */
export const keyInProtocols = ({ "sec-websocket-protocol": protocols = "" }: Headers.Headers): string | undefined =>
  keyProtocol.exec(protocols)?.[1]

/** The key of a request, in the header of any vendor's client, or in the query of Google's. */
const keyOf = (request: HttpServerRequest.HttpServerRequest): string | undefined | typeof severalKeys => {
  const headers = headersOf(request)
  const { "x-api-key": own, "x-goog-api-key": ofGoogle } = headers
  if (!isOfGoogle.test(request.url)) return own ?? keyInProtocols(headers)
  const at = request.url.indexOf("?")
  const inQuery = at < 0 ? [] : new URLSearchParams(request.url.slice(at)).getAll("key")
  const [key, ...others] = new Set([own, ofGoogle, ...inQuery].filter((one) => (one ?? "") !== ""))
  return others.length > 0 ? severalKeys : key
}

/** Who may call a path of a vendor's API, and how often. */
export interface VendorPath {
  /** Each of them is sufficient. */
  readonly capabilities: readonly [Capability, ...ReadonlyArray<Capability>]
  /** Caps limit what reserves budget, the principal's rate everything else. */
  readonly limitedBy: "caps" | "rate"
}

/** Why a credential is refused. */
export type CredentialError = GatewayError<RateLimited | Unauthenticated>

/** Authenticates requests by the gateway's policy: API keys and agent tokens, in either header. */
export class GatewayAuthentication extends Context.Service<
  GatewayAuthentication,
  {
    /** Serves a request to a vendor's path as its principal, within the limit of the path. */
    authenticated<A, E, R>(
      request: HttpServerRequest.HttpServerRequest,
      path: VendorPath,
      served: Effect.Effect<A, E, R>
    ): Effect.Effect<A, E | CredentialError | GatewayError<Forbidden | UnsupportedMediaType | VersionMismatch>, R>
    /** The principal of a credential that the gateway accepts; undefined without a credential. */
    admit(request: HttpServerRequest.HttpServerRequest): Effect.Effect<Principal | undefined, CredentialError>
    /** The party that is charged for a call of the current principal, with what the request declares. */
    attribute(declared: DeclaredCall): Effect.Effect<GatewayCaller, GatewayError>
  }
>()("app/gateway/GatewayAuthentication") {
  static readonly layer = Layer.effect(
    GatewayAuthentication,
    Effect.gen(function* () {
      const account = yield* ServiceAccount
      const agents = yield* Agents
      const attribution = yield* Attribution
      const audit = yield* Audit
      const changes = yield* AuthCacheInvalidation
      const keys = yield* ApiKeyCheck
      const limits = yield* RateLimits
      const rejections = yield* Rejections
      const reservations = yield* ReservationQueries
      const tenants = yield* Tenants
      const tokens = yield* AgentTokenCheck
      const uses = yield* CapabilityUses
      const credentialInTime = yield* databaseDeadline(credentialLate)
      const ledgerInTime = yield* databaseDeadline(ledgerLate)
      const { llm } = yield* Settings
      const policy = llm.gateway.auth
      // Cached like keys: for a second, and invalidated by any change of authority.
      const bounds = yield* Cache.makeWith((id: AgentId) => Effect.option(asSystem(agents.bounded(id))), {
        capacity: 10_000,
        timeToLive: (exit) => (Exit.isSuccess(exit) && Option.isSome(exit.value) ? "1 second" : 0)
      })
      yield* changes.onChange(Cache.invalidateAll(bounds))

      const reject = Effect.fnUntraced(function* (message: string, refusal?: Refusal) {
        yield* Effect.catch(rejections.reject(refusal), rateReached("Too many requests without a valid credential."))
        return yield* gatewayError(new Unauthenticated({ detail: message }))
      })

      const checkKey = (key: string) =>
        Effect.catch(keys.check(key), (refusal) => reject("The credential is not valid.", refusal))
      const checkToken = (token: string) =>
        Effect.catch(tokens.check(token), (refusal) => reject("The credential is not valid.", refusal))
      const check = (credential: string): Effect.Effect<Principal, CredentialError> =>
        isAgentToken(credential)
          ? checkToken(credential)
          : Effect.flatMapEager(account.owns(credential), (owns) =>
              owns ? Effect.succeed(serviceAccount) : checkKey(credential)
            )

      const alone = (only: Principal): Effect.Effect<Principal, CredentialError> => {
        if (policy === "ApiKeyAndAgentToken") return reject("Both a key and an agent's token are asked for.")
        const isAgent = only.kind === "agent"
        return policy === (isAgent ? "ApiKey" : "AgentToken")
          ? reject(isAgent ? "An API key is asked for." : "An agent's token is asked for.")
          : Effect.succeed(only)
      }

      const together = (first: Principal, second: Principal): Effect.Effect<Principal, CredentialError> => {
        if (policy !== "ApiKeyAndAgentToken") {
          return second.name === first.name ? alone(first) : reject("The two credentials are of two principals.")
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
          ...(other.kind === "api-key" ? { apiKeyId: other.name.slice("api-key:".length) } : {}),
          ...(other.synthetic === true ? { apiKeyId: other.apiKeyId, synthetic: true } : {})
        })
      }

      const principalOf = (request: HttpServerRequest.HttpServerRequest): Effect.Effect<Principal, CredentialError> => {
        const { authorization } = headersOf(request)
        const key = keyOf(request)
        if (key === severalKeys) return reject("Two keys that differ were sent; send one.")
        const bearer = authorization === undefined ? undefined : bearerToken(authorization)
        if (authorization !== undefined && bearer === undefined) {
          const misplaced = keyInAuthorization(authorization)
          const refuse = (refusal?: Refusal) => reject("Authorization takes one bearer token: Bearer <token>.", refusal)
          if (misplaced === undefined) return refuse()
          return Effect.matchEffect(keys.check(misplaced), { onFailure: refuse, onSuccess: () => refuse() })
        }
        const first = key || bearer
        const second = key && bearer && bearer !== key ? bearer : undefined
        if (first === undefined || first === "") {
          return policy === "None"
            ? Effect.map(tenants.defaultId, (tenantId) => ({ ...anonymous, capabilities: ["llm:*"], tenantId }))
            : reject("No credential was sent: set the SDK's API key, or send it in Authorization: Bearer or X-Api-Key.")
        }
        if (second === undefined) return Effect.flatMap(check(first), alone)
        return Effect.flatMap(Effect.all([check(first), check(second)]), ([one, other]) => together(one, other))
      }

      const reservationNamed = Effect.fnUntraced(function* (reservationId: string) {
        const id = uuidIn(reservationId)
        if (id === undefined) return yield* expectedId("reservationId", "a reservation")
        return yield* Effect.mapError(reservations.find(ReservationId.make(id)), (problem) => gatewayError(problem))
      })

      const resolve = (declared: DeclaredAttribution): Effect.Effect<BudgetSubject, GatewayError> =>
        Effect.catch(attribution.resolve(declared), (problem) =>
          // The gateway declares no application.
          problem._tag === "ApplicationNotFound" ? Effect.die(problem) : Effect.fail(attributionError(problem))
        )

      /** The same for a request of an agent, or one that names an agent, a plan or a reservation. */
      const attributeNamed = Effect.fnUntraced(function* ({ agentId, planId, reservationId, taskType }: DeclaredCall) {
        const found = reservationId === undefined ? undefined : yield* reservationNamed(reservationId)
        const reservation = found && { id: found.id, amountNanoUsd: found.amount }
        // A call belongs to the agent and the plan of its reservation, unless it declares others.
        const namedAgent = agentId === undefined ? (found?.agentId ?? undefined) : uuidIn(agentId)
        const namedPlan = planId === undefined ? (found?.planId ?? undefined) : uuidIn(planId)
        if (agentId !== undefined && namedAgent === undefined) return yield* expectedId("agentId", "an agent")
        if (planId !== undefined && namedPlan === undefined) return yield* expectedId("planId", "a plan")
        const subject = yield* resolve({
          ...(namedAgent === undefined ? {} : { agentId: AgentId.make(namedAgent) }),
          ...(namedPlan === undefined ? {} : { planId: PlanId.make(namedPlan) }),
          ...(taskType === undefined ? {} : { taskType })
        })
        const { dimensions, plan } = subject
        if (dimensions.agentId === undefined) return { subject, reservation, perTurnNanoUsd: null }
        const agent = Option.getOrUndefined(yield* Cache.get(bounds, AgentId.make(dimensions.agentId)))
        if (agent === undefined) return yield* noAgent
        const task = dimensions.taskType ?? (plan === undefined ? (agent.defaultTaskType ?? undefined) : undefined)
        if (task !== undefined && agent.allowedTaskTypes.length > 0 && !agent.allowedTaskTypes.includes(task)) {
          return yield* wrongTaskType(`The agent may not do tasks of type ${task}.`)
        }
        return {
          subject: { ...subject, dimensions: { ...dimensions, ...(task === undefined ? {} : { taskType: task }) } },
          reservation,
          perTurnNanoUsd: agent.perTurnBudget ?? null
        }
      })

      const attribute = (declared: DeclaredCall): Effect.Effect<GatewayCaller, GatewayError> =>
        Effect.withFiber((fiber) => {
          const { agentId, planId, reservationId, taskType } = declared
          if (taskType !== undefined && !isLabel(taskType)) return Effect.fail(noTaskType)
          const { kind } = Context.get(fiber.context, CurrentPrincipal)
          return (agentId ?? planId ?? reservationId) === undefined && kind !== "agent"
            ? Effect.map(resolve(taskType === undefined ? {} : { taskType }), (subject) => ({
                subject,
                reservation: undefined,
                perTurnNanoUsd: null
              }))
            : attributeNamed(declared)
        })

      /** Whether a request has a credential that the gateway accepts, rather than a sign-in. */
      const bringsCredential = Effect.fnUntraced(function* (headers: Readonly<Record<string, string | undefined>>) {
        const { authorization, cookie, "x-api-key": key } = headers
        if (key !== undefined && key !== "") return true
        if (authorization === undefined) return policy === "None" && cookie === undefined
        const bearer = bearerToken(authorization)
        if (bearer === undefined) return true
        return isAgentToken(bearer) || bearer.startsWith("amk_") || (yield* account.owns(bearer))
      })

      const forbidden = (target: string, lacking: Capability) => {
        const detail = `The caller lacks ${lacking}.`
        return Effect.andThen(
          audit.refused({ action: accessActions.AccessForbidden, target, reason: detail }),
          Effect.fail(gatewayError(new Forbidden({ missing: [lacking], detail })))
        )
      }

      const limited = <A, E, R>(
        { name }: Principal,
        { limitedBy }: VendorPath,
        served: Effect.Effect<A, E, R>
      ): Effect.Effect<A, E | CredentialError, R> =>
        Effect.catchIf(
          limitedBy === "caps"
            ? limits.unlessReserved(name, served)
            : Effect.flatMap(limits.principal(name), () => served),
          isRateLimited,
          principalRateReached
        )

      return GatewayAuthentication.of({
        attribute: (declared) => ledgerInTime(attribute(declared)),
        admit: Effect.fnUntraced(function* (request) {
          const headers = headersOf(request)
          if (!(yield* bringsCredential(headers))) return undefined
          const principal = yield* principalOf(request)
          return isForgeable(principal, request)
            ? yield* reject("Without a credential a request needs Content-Type: application/json.")
            : principal
        }),
        authenticated: <A, E, R>(
          request: HttpServerRequest.HttpServerRequest,
          path: VendorPath,
          served: Effect.Effect<A, E, R>
        ) =>
          Effect.withFiber((fiber) => {
            const info = Context.get(fiber.context, CurrentRequest)
            if (info !== undefined) info.requiredScopes = [path.capabilities[0]]
            const admitted = (
              principal: Principal
            ): Effect.Effect<A, E | GatewayError<Forbidden | UnsupportedMediaType | VersionMismatch>, R> => {
              if (isForgeable(principal, request)) return Effect.fail(notJson)
              const { capabilities } = path
              const used = capabilities.find((needed) => principal.capabilities.some((held) => covers(held, needed)))
              if (used === undefined) {
                const target = `${request.method} ${routeOf(fiber.context) ?? ""}`
                return forbidden(target, capabilities[0])
              }
              if (requiresSomeTag(headersOf(request))) return Effect.fail(noTag)
              uses.record(principal, used)
              return served
            }
            return Effect.flatMap(credentialInTime(principalOf(request)), (principal) => {
              if (info !== undefined) info.principal = principal.name
              const asPrincipal = Effect.provideService(admitted(principal), CurrentPrincipal, principal)
              return limited(principal, path, asPrincipal)
            })
          })
      })
    })
  )
}

const isRateLimited = (error: unknown): error is RateLimited => error instanceof RateLimited

/** A rate that was reached, as the vendors' SDKs read it. */
const rateReached = (detail: string) => (problem: RateLimited) =>
  Effect.zipWith(CurrentRequest, Clock.currentTimeMillis, (request, now) => {
    const headers = retryAfter(problem.retryAfterSeconds)
    const retryAfterSeconds = Number(headers["retry-after"])
    const { limit = 0 } = request?.rateLimit ?? {}
    return gatewayError(new RateLimited({ detail, retryAfterSeconds }), {
      headers,
      quota: { unit: "requests", limit: BigInt(limit), remaining: 0n, resetsAt: now + problem.retryAfterSeconds * 1000 }
    })
  }).pipe(Effect.flatMap(Effect.fail))

/** The rate of a principal was reached, which is for requests that reserve no budget. */
export const principalRateReached = rateReached(
  "The caller has no requests left for this minute, of those that reserve no budget (Api:RateLimit:PerMinute)."
)

/** The gateway's policy for the paths of the native format. */
export const GatewayCredentialCheckLayer = Layer.effect(
  GatewayCredentialCheck,
  Effect.map(GatewayAuthentication, (authentication) =>
    GatewayCredentialCheck.of({
      identify: (request) => Effect.mapError(authentication.admit(request), ({ problem }) => problem)
    })
  )
)

/** Another site's page can send any type but JSON without asking first, and without a credential nothing else stops it. */
const isForgeable = ({ kind }: Principal, request: HttpServerRequest.HttpServerRequest): boolean =>
  kind === "anonymous" && request.method === "POST" && !isJsonType(headersOf(request))

const isJsonType = (headers: Readonly<Record<string, string | undefined>>): boolean =>
  /^application\/json(?:\s*;.*)?$/i.test(headers["content-type"] ?? "")
const notJson = gatewayError(new UnsupportedMediaType({ detail: "Send Content-Type: application/json." }))

const noTag = gatewayError(mismatchOf(undefined))

const noAgent = gatewayError(new AgentNotFound({}), { message: "No agent has this id." })

/** The gateway's error for a request that cannot be attributed. */
const attributionError = (problem: Exclude<AttributionError, ApplicationNotFound>): GatewayError => {
  switch (problem._tag) {
    case "AgentNotFound":
      return noAgent
    case "ValidationFailed":
      return wrongTaskType(problem.errors[0]?.message ?? "")
    default:
      return gatewayError(problem)
  }
}

const expectedId = (member: string, what: string) => invalidMember(member, `${member}: Expected the id of ${what}`)

const wrongTaskType = (message: string) => invalidMember("taskType", message, "task_type_not_allowed")

const isLabel = Schema.is(Schema.toType(Label))
const noTaskType = invalidMember("taskType", "taskType: Expected 1 to 200 characters, and not only blank ones")
