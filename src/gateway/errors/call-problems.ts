import { type AgentNotActive, AgentNotFound } from "../../identity/agents/domain.ts"
import { Forbidden, RateLimited } from "../../kernel/principal.ts"
import {
  IdempotencyInProgress,
  IdempotencyKeyInvalid,
  IdempotencyKeyReused
} from "../../platform/idempotency/domain.ts"
import { Overloaded, ValidationFailed } from "../../kernel/problems.ts"
import { type TransferError } from "../../budgets/reservations/transfers.ts"
import { BudgetDenied, PlanNotFound } from "../../budgets/ledger/domain.ts"
import {
  ApprovalRequired,
  CostUnbounded,
  ModelNotFound,
  ModelUnpriced,
  ProviderRefused,
  ProviderTimeout,
  ProviderUnavailable,
  TurnBudgetExceeded
} from "../configuration/domain.ts"
import { type CallRefused } from "./refusal.ts"
import { type AlreadyCompleted } from "./repeat-domain.ts"

/** Why a call in the gateway's own words gets no answer. */
export type CallProblem =
  | TransferError
  | AgentNotActive
  | AgentNotFound
  | AlreadyCompleted
  | ApprovalRequired
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

/** A refusal as a problem; what caps say is told as the ledger says it. */
export const problemOf = ({ error, headers = {}, problem }: CallRefused): CallProblem => {
  const { code, message: detail, param, status } = error
  if (problem instanceof BudgetDenied) return status === 402 ? problem : rateLimited(headers)
  if (problem !== undefined) return problem
  switch (code) {
    case "model_not_found":
      return new ModelNotFound({ detail })
    case "model_unpriced":
      return new ModelUnpriced({ detail })
    case "cost_unbounded":
      return new CostUnbounded({ detail })
    case "approval_required":
      return new ApprovalRequired({ reservationId: headers["x-reservation-id"] ?? "" })
    case "request_exceeds_budget":
      return new TurnBudgetExceeded({ detail })
    case "agent_not_found":
      return new AgentNotFound({})
    case "idempotency_in_progress":
      return new IdempotencyInProgress({})
    case "idempotency_key_invalid":
      return new IdempotencyKeyInvalid({})
    case "idempotency_key_reused":
      return new IdempotencyKeyReused({})
    case "plan_not_found":
      return new PlanNotFound({})
    case "forbidden":
      return new Forbidden({ missing: [], detail })
    case "invalid_request":
    case "model_not_supported":
    case "task_type_not_allowed":
      return new ValidationFailed({ errors: [{ path: ["payload", ...(param ?? "").split(".")], message: detail }] })
  }
  if (status === 429) return rateLimited(headers)
  if (status === 503) return new Overloaded({ detail })
  if (status === 504) return new ProviderTimeout({ detail })
  return status >= 500 ? new ProviderUnavailable({ detail }) : new ProviderRefused({ detail })
}

const rateLimited = (headers: Readonly<Record<string, string>>) =>
  new RateLimited({
    retryAfterSeconds: Number(headers["retry-after"] ?? 1),
    detail: "A cap, or the provider, lets no more calls through now."
  })
