import { Data, Effect } from "effect"
import { type AgentNotActive, type AgentNotFound } from "../../agents/agents/domain.ts"
import { type Refusal } from "../../audit/log/service.ts"
import { type TransferError } from "../../budgets/reservations/transfers.ts"
import { RateLimited, type Unauthenticated } from "../../kernel/authority/principal.ts"
import { type VersionMismatch } from "../../kernel/http/precondition.ts"
import { type Fault, problemType } from "../../kernel/problems/problem.ts"
import {
  type InternalError,
  type MalformedJson,
  type MethodNotAllowed,
  Overloaded,
  type PayloadTooLarge,
  type RouteNotFound,
  type UnsupportedMediaType,
  ValidationFailed
} from "../../kernel/problems/problems.ts"
import {
  type IdempotencyInProgress,
  type IdempotencyKeyInvalid,
  type IdempotencyKeyReused
} from "../../platform/idempotency/domain.ts"
import {
  type ApprovalRequired,
  type BudgetRateLimited,
  type CostUnbounded,
  ModelNotFound,
  type ModelUnpriced,
  ProviderRefused,
  ProviderTimeout,
  ProviderUnavailable,
  type TurnBudgetExceeded
} from "../configuration/domain.ts"
import { type DialectError, type Quota } from "../formats/errors.ts"
import { type ProviderFailure } from "../providers/provider.ts"
import { type AlreadyCompleted } from "./domain.ts"

/** Why a call fails, as the native API reports it. */
export type CallProblem =
  | TransferError
  | AgentNotActive
  | AgentNotFound
  | AlreadyCompleted
  | ApprovalRequired
  | BudgetRateLimited
  | CostUnbounded
  | IdempotencyInProgress
  | IdempotencyKeyInvalid
  | IdempotencyKeyReused
  | ModelNotFound
  | ModelUnpriced
  | Overloaded
  | ProviderRefused
  | ProviderTimeout
  | ProviderUnavailable
  | RateLimited
  | TurnBudgetExceeded
  | ValidationFailed

/** The same, with the problems that occur before the API's handlers and on the vendors' paths. */
export type GatewayProblem =
  | CallProblem
  | InternalError
  | MalformedJson
  | MethodNotAllowed
  | PayloadTooLarge
  | RouteNotFound
  | Unauthenticated
  | UnsupportedMediaType
  | VersionMismatch

/**
 * Why a request to the gateway fails: the one error type from the ledger to the wire. `problem` is the native format's
 * body; `error`, `headers` and `quota` are what the vendors' SDKs need in addition.
 */
export class GatewayError<out P extends GatewayProblem = CallProblem> extends Data.TaggedError("GatewayError")<{
  readonly problem: GatewayProblem
  readonly error: DialectError
  readonly headers: Readonly<Record<string, string>>
  /** What remains of the limit that was reached, if it counts requests or tokens. */
  readonly quota: Quota | undefined
  /** What the audit log keeps of it, where a cap denied the call. */
  readonly refusal?: Refusal | undefined
}> {
  declare readonly problem: P

  /** The message for spans and logs; a provider's own message may repeat the prompt. */
  override get message() {
    return this.error.code ?? String(this.error.status)
  }
}

/** Codes that differ from the slug of the problem. */
const codes: Readonly<Partial<Record<GatewayProblem["_tag"], string>>> = {
  BudgetRateLimited: "rate_limit_exceeded",
  MalformedJson: "invalid_json",
  MethodNotAllowed: "method_not_allowed",
  PayloadTooLarge: "request_too_large",
  ProviderTimeout: "provider-timeout",
  ProviderUnavailable: "provider-error",
  RateLimited: "rate_limit_exceeded",
  RouteNotFound: "unknown_url",
  TurnBudgetExceeded: "request_exceeds_budget",
  Unauthenticated: "invalid_api_key",
  ValidationFailed: "invalid_request"
}

const slugAt = problemType("").length

/** A problem as a failure of a call; status, message and code are the problem's, unless vendors expect others. */
export const gatewayError = <P extends GatewayProblem>(
  problem: P,
  {
    headers = {},
    quota,
    refusal,
    ...error
  }: Partial<DialectError & Pick<GatewayError, "headers" | "quota" | "refusal">> = {}
): GatewayError<P> =>
  new GatewayError<P>({
    problem,
    headers,
    quota,
    refusal,
    error: {
      status: problem.status,
      code: codes[problem._tag] ?? problem.type.slice(slugAt).replaceAll("-", "_"),
      message: problem.detail,
      ...error
    }
  })

/** An error for an invalid member of the request. */
export const invalidMember = (
  param: string | undefined,
  message: string,
  code = "invalid_request"
): GatewayError<ValidationFailed> =>
  gatewayError(new ValidationFailed({ errors: [{ path: ["payload", ...(param ?? "").split(".")], message }] }), {
    message,
    code,
    param
  })

/** The maximum number of faults in one error. */
const maxListed = 50

/** All faults in one message; `param` names the first. */
export const invalidMembers = (faults: ReadonlyArray<Fault>): GatewayError<ValidationFailed> => {
  const listed = faults
    .slice(0, maxListed)
    .map(({ message, path }) => (path.length === 0 ? message : `${path.join(".")}: ${message}`))
  if (faults.length > maxListed) listed.push(`and ${faults.length - maxListed} more`)
  return invalidMember(faults[0]?.path.join("."), listed.join("; "))
}

/** The longest time that the SDKs wait on their own. */
const maxRetryAfterSeconds = 60

export const retryAfter = (seconds: number): Readonly<Record<string, string>> => ({
  "retry-after": String(Math.min(maxRetryAfterSeconds, Math.max(1, Math.ceil(seconds))))
})

/** SDKs retry on their own unless this header forbids it. */
export const notRetryable = { "x-should-retry": "false" }

/** The ledger, or another part of the service, does not respond. */
export const overloaded = (detail: string, retryAfterSeconds: number): GatewayError<Overloaded> =>
  gatewayError(new Overloaded({ detail }), { headers: retryAfter(retryAfterSeconds) })

/** Fails a call whose ledger does not respond; the log has what was done there and why it failed. */
export const ledgerUnreachable = (what: string) => (defect: unknown) =>
  Effect.andThen(
    Effect.logError(`${what} cannot be asked`, defect),
    Effect.fail(overloaded("The ledger cannot be reached.", 2))
  )

export const rateLimited = (headers: Readonly<Record<string, string>>): RateLimited =>
  new RateLimited({
    retryAfterSeconds: Number(headers["retry-after"] ?? 1),
    detail: "A cap, or the provider, lets no more calls through now."
  })

export const unreadableAnswer = (provider: string): GatewayError =>
  gatewayError(new ProviderUnavailable({ detail: `The provider ${provider}'s answer cannot be read.` }))

const providerProblem = (
  { code, message: detail, param, status }: DialectError,
  headers: Readonly<Record<string, string>>
): CallProblem => {
  if (code === "model_not_found") return new ModelNotFound({ detail })
  if (code === "invalid_request" || code === "model_not_supported") return invalidMember(param, detail).problem
  if (status === 429) return rateLimited(headers)
  if (status === 503) return new Overloaded({ detail })
  if (status === 504) return new ProviderTimeout({ detail })
  return status >= 500 ? new ProviderUnavailable({ detail }) : new ProviderRefused({ detail })
}

/** Each vendor's headers about its limits on requests and tokens. */
const limitHeaders = new Set(
  ["limit", "remaining", "reset"].flatMap((what) =>
    ["requests", "tokens"]
      .map((unit) => `x-ratelimit-${what}-${unit}`)
      .concat(
        ["requests", "tokens", "input-tokens", "output-tokens"].map((unit) => `anthropic-ratelimit-${unit}-${what}`)
      )
  )
)

/** What vendors call the id of a request. */
const requestIds: ReadonlySet<string> = new Set(["x-request-id", "request-id", "x-amzn-requestid"])

/**
 * The provider's headers that callers receive: its limits, and its request id. Others name the operator's organization,
 * project or workspace, or say how its subscription stands.
 */
export const forwardedResponseHeaders = (
  headers: Readonly<Record<string, string>>
): Readonly<Record<string, string>> => {
  const forwarded: Record<string, string> = {}
  for (const name in headers) {
    const value = headers[name]!
    if (limitHeaders.has(name)) forwarded[name] = value
    if (requestIds.has(name)) forwarded["x-upstream-request-id"] = value
  }
  return forwarded
}

/** What the gateway itself says of a provider. */
const ownWords = /^The provider\b/

/** A failure's message with the name of the provider in it. */
const named = (message: string, provider: string): string =>
  ownWords.test(message)
    ? message.replace(ownWords, `The provider ${provider}`)
    : `The provider ${provider} failed: ${message}`

/** The failure of a provider, by its id, with the forwarded headers of its response. */
export const providerError = (
  { error: unnamed, headers = {}, retryAfterSeconds }: ProviderFailure,
  provider: string,
  more: GatewayError["headers"] = {}
): GatewayError => {
  const { message, status } = unnamed
  const error = { ...unnamed, message: status < 500 ? message : named(message, provider) }
  const forwarded = {
    ...more,
    ...forwardedResponseHeaders(headers),
    ...(retryAfterSeconds === undefined ? {} : retryAfter(retryAfterSeconds))
  }
  return gatewayError(providerProblem(error, forwarded), { ...error, headers: forwarded })
}
