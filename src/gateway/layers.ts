import { Layer } from "effect"
import { GatewayAuthentication, GatewayCredentialCheckLayer } from "./authentication/gateway-authentication.ts"
import { BatchInputs } from "./batches/batch-input.ts"
import { OpenAiFileBatches } from "./batches/file-batches.ts"
import { FileUploads } from "./batches/file-uploads.ts"
import { KeptFiles } from "./batches/files.ts"
import { KeptThings } from "./batches/kept-things.ts"
import { MessageBatches } from "./batches/message-batches.ts"
import { BatchPollerLayer } from "./batches/poller.ts"
import { BatchesRepository } from "./batches/repository.ts"
import { Batches } from "./batches/service.ts"
import { BrokenBoundsHandlers } from "./broken-bounds/handlers.ts"
import { BrokenBounds } from "./broken-bounds/service.ts"
import { LlmAdminHandlers } from "./configuration/handlers.ts"
import { GatewayConfiguration } from "./configuration/service.ts"
import { RequestIds } from "./conversations/request-ids.ts"
import { Conversations } from "./conversations/service.ts"
import { TurnStates } from "./conversations/turn-states.ts"
import { WorkloadHandlers } from "./credentials/issuer/handlers.ts"
import { WorkloadIssuer } from "./credentials/issuer/workload-issuer.ts"
import { Admission } from "./metering/admission.ts"
import { BudgetReservations, ReservationRenewal } from "./metering/budget-reservations.ts"
import { CataloguePricesLayer, ModelNamesLayer } from "./metering/prices.ts"
import { ProviderCounts } from "./metering/provider-counts.ts"
import { TokenCounts } from "./metering/token-counts.ts"
import { CallIdempotency } from "./pipeline/call-idempotency.ts"
import { CallPipeline } from "./pipeline/call-pipeline.ts"
import { MessageCounts } from "./pipeline/message-counts.ts"
import { ResponseCache } from "./pipeline/response-cache.ts"
import { UploadFiles } from "./pipeline/upload-files.ts"
import { Breakers } from "./routing/breakers.ts"
import { Bulkheads } from "./routing/bulkheads.ts"
import { ProviderHealth, Router } from "./routing/router.ts"
import { CallSessions } from "./routing/sessions.ts"
import { CacheSavings } from "./savings/service.ts"
import { TranscriptsHandlers } from "./transcripts/handlers.ts"
import { Transcripts } from "./transcripts/service.ts"
import { Completions } from "./wire/native/completions.ts"
import { LlmCallsHandlers, LlmHandlers } from "./wire/native/handlers.ts"
import { Gateway } from "./wire/native/service.ts"
import { NativeResponses } from "./wire/openai-responses/native.ts"
import { Responses } from "./wire/openai-responses/service.ts"
import { VendorRoutesLayer } from "./wire/vendor/routes.ts"

/** The gateway's configuration, provider health and prices; the ledger depends on them. */
export const layerCatalogue = Layer.merge(CataloguePricesLayer, ModelNamesLayer).pipe(
  Layer.provideMerge(
    Layer.mergeAll(GatewayConfiguration.layer, Breakers.layer, ProviderHealth.layer, WorkloadIssuer.layer)
  )
)

const Metered = Admission.layer.pipe(
  Layer.provideMerge(Layer.mergeAll(BudgetReservations.layer, TokenCounts.layer, ProviderCounts.layer)),
  Layer.provide(ReservationRenewal.layer)
)

/** Files and batches at providers. */
const Batched = Layer.mergeAll(OpenAiFileBatches.layer, MessageBatches.layer, BatchPollerLayer).pipe(
  Layer.provideMerge(Layer.mergeAll(Batches.layer, FileUploads.layer, KeptFiles.layer)),
  Layer.provideMerge(Layer.mergeAll(BatchInputs.layer, KeptThings.layer, BatchesRepository.layer))
)

/** The gateway's calls, which depend on the ledger. */
export const layer = Layer.mergeAll(
  Batched,
  Gateway.layer,
  Completions.layer,
  Responses.layer.pipe(Layer.provideMerge(NativeResponses.layer)),
  GatewayCredentialCheckLayer
).pipe(
  Layer.provideMerge(
    Layer.mergeAll(CallPipeline.layer, GatewayAuthentication.layer, MessageCounts.layer, Conversations.layer)
  ),
  Layer.provideMerge(
    Layer.mergeAll(
      Router.layer,
      Metered,
      CallIdempotency.layer,
      ResponseCache.layer,
      CacheSavings.layer,
      RequestIds.layer,
      CallSessions.layer,
      Transcripts.layer,
      TurnStates.layer,
      UploadFiles.layer
    )
  ),
  Layer.provideMerge(Layer.merge(Bulkheads.layer, BrokenBounds.layer))
)

export const handlers = Layer.mergeAll(
  LlmHandlers,
  LlmCallsHandlers,
  LlmAdminHandlers,
  TranscriptsHandlers,
  BrokenBoundsHandlers,
  WorkloadHandlers
)

export const routes = VendorRoutesLayer
