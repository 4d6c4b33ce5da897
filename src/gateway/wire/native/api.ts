import { Schema } from "effect"
import { HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { AgentNotActive, AgentNotFound } from "../../../agents/agents/domain.ts"
import {
  BudgetDenied,
  PlanNotActive,
  PlanNotFound,
  ReservationManaged,
  ReservationNotFound,
  ReservationNotOpen,
  ReservationTooSmall
} from "../../../budgets/ledger/domain.ts"
import { Access, LimitedByCaps, requires } from "../../../kernel/authority/access.ts"
import { endpoint } from "../../../kernel/http/endpoint.ts"
import { Overloaded, ValidationFailed } from "../../../kernel/problems/problems.ts"
import {
  IdempotencyInProgress,
  IdempotencyKeyInvalid,
  IdempotencyKeyReused
} from "../../../platform/idempotency/domain.ts"
import {
  ApprovalRequired,
  BudgetRateLimited,
  CostUnbounded,
  GatewayHealth,
  GatewayModel,
  ListedModel,
  ModelNotFound,
  ModelUnpriced,
  NamedProvider,
  ProviderNotFound,
  ProviderRefused,
  ProviderTest,
  ProviderTimeout,
  ProviderUnavailable,
  TurnBudgetExceeded
} from "../../configuration/domain.ts"
import { AlreadyCompleted } from "../../errors/domain.ts"
import { EmbeddingAnswer, EmbeddingRequest, LlmAnswer, LlmEstimate, LlmRequest } from "./request-domain.ts"

const anyUse = requires("llm:read", { or: ["llm:complete", "llm:embed", "llm:admin", "llm:write"] })
const admin = requires("llm:admin", { systemOnly: true })
const callBodyBytes = 33_554_432

export class LlmApi extends HttpApiGroup.make("llm")
  .add(
    endpoint.get("models", "/models", {
      summary: "List models",
      description:
        "Every available model: those of the configuration, those that the catalogue lists for a configured provider, and `loopback-1`, which needs no account. A model can also be requested as `<provider>/<the provider's name for it>`.",
      access: anyUse,
      success: Schema.Array(GatewayModel)
    }),
    endpoint.get("health", "/health", {
      summary: "Get the health of the providers",
      description: "A provider without a call in the last minute is checked first, by listing its models.",
      access: anyUse,
      success: GatewayHealth
    }),
    endpoint.post("testProvider", "/providers/test", {
      summary: "Test a provider",
      description:
        "Requests the provider's list of models, which costs nothing; 200 also when that fails. A configured provider is tested with its stored key, only for the service account and API keys of the installation. An address is tested with the key of the request, also for people who are signed in; it must be of the public internet, unless Llm:Gateway:AllowPrivateAddresses.",
      access: admin,
      payload: NamedProvider,
      success: ProviderTest,
      error: [ProviderNotFound, ValidationFailed]
    }),
    endpoint.post("listModels", "/providers/list-models", {
      summary: "List a provider's models",
      description:
        "As the provider lists them, each with what the catalogue knows of it; the same rules as of the test.",
      access: admin,
      payload: NamedProvider,
      success: Schema.Array(ListedModel),
      error: [ProviderNotFound, ProviderTimeout, ProviderUnavailable, ValidationFailed]
    })
  )
  .middleware(Access)
  .prefix("/api/llm")
  .annotateMerge(OpenApi.annotations({ title: "LLM gateway", description: "Models and providers of the gateway." })) {}

const callProblems = [
  AgentNotActive,
  AgentNotFound,
  AlreadyCompleted,
  ApprovalRequired,
  BudgetDenied,
  BudgetRateLimited,
  CostUnbounded,
  IdempotencyInProgress,
  IdempotencyKeyInvalid,
  IdempotencyKeyReused,
  ModelNotFound,
  ModelUnpriced,
  Overloaded,
  PlanNotActive,
  PlanNotFound,
  ProviderRefused,
  ProviderTimeout,
  ProviderUnavailable,
  ReservationManaged,
  ReservationNotFound,
  ReservationNotOpen,
  ReservationTooSmall,
  TurnBudgetExceeded,
  ValidationFailed
] as const

/** Does not use the Idempotency middleware: responses are not stored, so a repetition reports the cost instead. */
export class LlmCallsApi extends HttpApiGroup.make("llmCalls")
  .add(
    endpoint.post("complete", "/complete", {
      summary: "Complete a conversation",
      description:
        "Served by any provider of the model, and metered by every budget cap that applies to the caller. With `stream` the answer is Server-Sent Events: `delta` {text}, `tool_call` {index, id, name, arguments}, `usage` (with costUsd and reservationId), then `done` {finishReason} or `error`; a denial is a status before the first byte. With `dryRun` the answer is what the call may cost at most. Under an Idempotency-Key the call is made once: nothing of its answer is kept, so a repetition is 409 and has the actual cost.",
      access: requires("llm:complete", { byGatewayPolicy: true }),
      answersIn: ["application/json", "text/event-stream"],
      maxBodyBytes: callBodyBytes,
      payload: LlmRequest,
      success: [
        LlmAnswer,
        LlmEstimate,
        HttpApiSchema.StreamSse({
          events: Schema.Struct({
            id: Schema.optionalKey(Schema.String),
            event: Schema.Literals(["delta", "tool_call", "usage", "done", "error"]),
            data: Schema.String
          })
        })
      ],
      error: callProblems
    }),
    endpoint.post("embed", "/embed", {
      summary: "Embed texts",
      description:
        "Up to 2,048 texts as vectors, metered like completions. Under an Idempotency-Key the call is made once, as there.",
      access: requires("llm:embed", { byGatewayPolicy: true }),
      maxBodyBytes: callBodyBytes,
      payload: EmbeddingRequest,
      success: EmbeddingAnswer,
      error: callProblems
    })
  )
  .middleware(Access)
  .prefix("/api/llm")
  .annotateEndpoints(LimitedByCaps, true)
  .annotateMerge(
    OpenApi.annotations({ title: "LLM calls", description: "Completions and embeddings in the gateway's own words." })
  ) {}
