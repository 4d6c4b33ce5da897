import { Schema } from "effect"
import { HttpApiGroup, HttpApiSchema, OpenApi } from "effect/http-api"
import { AgentNotFound } from "../../agents/agents/domain.ts"
import { ApplicationNotFound } from "../../applications/applications/domain.ts"
import { FlushSettlements } from "../../budgets/ledger/api.ts"
import { CounterFull, PlanNotFound, PriceUnknown } from "../../budgets/ledger/domain.ts"
import { Access, requires } from "../../kernel/authority/access.ts"
import { Forbidden, RateLimited } from "../../kernel/authority/principal.ts"
import { endpoint } from "../../kernel/http/endpoint.ts"
import { PageLimit } from "../../kernel/http/page.ts"
import { integerParameter } from "../../kernel/http/parameter.ts"
import { TenantId } from "../../kernel/identifier.ts"
import {
  MalformedJson,
  PayloadTooLarge,
  UnsupportedMediaType,
  ValidationFailed
} from "../../kernel/problems/problems.ts"
import { Idempotency } from "../../platform/idempotency/api.ts"
import {
  batchType,
  CloudEvent,
  EventReceipt,
  EventsExpired,
  EventTypePatterns,
  EventTypeView,
  maxBatchBytes,
  SequenceParameter,
  structuredType
} from "./domain.ts"

const read = requires("events:read")
const write = requires("events:write")

const selection = {
  types: Schema.optionalKey(EventTypePatterns),
  tenantId: Schema.optionalKey(TenantId)
}

export class CloudEventsApi extends HttpApiGroup.make("cloudEvents")
  .add(
    endpoint.get("list", "/", {
      summary: "Pull events",
      description:
        "Events in the order of their `sequence`, behind `after` or from the oldest that is kept. `nextCursor` is the `after` of the next request, also on an empty page; a page may be short although more events follow.",
      access: read,
      query: {
        after: Schema.optionalKey(SequenceParameter),
        limit: Schema.optionalKey(integerParameter(PageLimit)),
        ...selection
      },
      success: Schema.Struct({
        items: Schema.Array(CloudEvent),
        nextCursor: Schema.String.annotate({ examples: ["00000000000000000042"] })
      }),
      error: EventsExpired
    }),
    endpoint.get("types", "/types", {
      summary: "List event types",
      description: "Every type of this service's events, and that of reported usage.",
      access: read,
      success: Schema.Array(EventTypeView)
    }),
    endpoint.get("stream", "/stream", {
      summary: "Follow events",
      description:
        "Server-Sent Events: `id` is the sequence, `data` a CloudEvent. Begins behind `Last-Event-ID`, else with what comes next.",
      access: read,
      answersIn: ["text/event-stream"],
      query: selection,
      headers: { "last-event-id": Schema.optionalKey(SequenceParameter) },
      success: HttpApiSchema.StreamUint8Array({ contentType: "text/event-stream" }),
      error: [RateLimited, EventsExpired]
    }),
    endpoint.post("publish", "/", {
      summary: "Publish events",
      description:
        "Takes events of others in any mode of CloudEvents, of 64 KiB at most each and 1,000 in a batch, which is taken whole or not at all. 201 when any is new, 200 when all were published before under the same `source` and `id`. This service sets `tenantid`, `sequence`, `authtype` and `authid`. `com.application-manager.usage.recorded`, which needs `spend:write`, charges `data` in full: `{ actualUsd | usage, agentId?, planId?, model?, provider?, taskType?, userId? }`; caps now, usage and bills as of `time`.",
      access: write,
      maxBodyBytes: maxBatchBytes,
      payload: [
        CloudEvent.pipe(HttpApiSchema.asJson({ contentType: structuredType })),
        Schema.Array(CloudEvent).pipe(HttpApiSchema.asJson({ contentType: batchType }))
      ],
      success: [EventReceipt.pipe(HttpApiSchema.status(201)), EventReceipt],
      error: [
        Forbidden,
        ValidationFailed,
        MalformedJson,
        UnsupportedMediaType,
        PayloadTooLarge,
        AgentNotFound,
        ApplicationNotFound,
        PlanNotFound,
        PriceUnknown,
        CounterFull
      ]
    })
  )
  .middleware(Idempotency)
  .middleware(FlushSettlements)
  .middleware(Access)
  .prefix("/api/cloudevents")
  .annotateMerge(
    OpenApi.annotations({
      title: "Events",
      description: "Every audit entry as a CloudEvent, and the events of others."
    })
  ) {}
