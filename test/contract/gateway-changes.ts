import { Effect } from "effect"
import { makeBrokenBound } from "../support/gateway.ts"
import { type TestService } from "../support/service.ts"
import { type Change, type ExpectedEntry } from "./changes.ts"

type Service = TestService["Service"]

const entry = (
  actionType: string,
  kept: ExpectedEntry["kept"],
  entityType: string = "GatewayConfiguration"
): ExpectedEntry => ({
  actionType,
  entityType,
  entityId: "llm-gateway",
  kept
})

const document = { routing: { retries: 1 } }
const write = (service: Service) => service.call("PUT", "/api/llm/admin/config", { body: document })

const catalogue = { source: "a test", asOf: "2026-11-22", models: [] }

/** How to call the operations of the gateway that change something. */
export const gatewayChanges: Readonly<Record<string, (service: Service) => Effect.Effect<Change>>> = {
  "llmAdmin.putConfiguration": (service) =>
    Effect.as(write(service), {
      body: document,
      entries: () => [entry("GatewayConfigurationUpdated", "both")]
    }),
  "llmAdmin.rollback": (service) =>
    Effect.as(write(service), {
      body: { version: 1 },
      entries: () => [entry("GatewayConfigurationRolledBack", "both")]
    }),
  "llmAdmin.putCatalogue": (service) =>
    Effect.as(service.call("PUT", "/api/llm/admin/catalogue", { body: catalogue }), {
      body: catalogue,
      entries: () => [entry("GatewayCatalogueUpdated", "both", "GatewayCatalogue")]
    }),
  "brokenBounds.update": (service) =>
    Effect.map(makeBrokenBound(service), (id) => ({
      parameters: { id },
      body: { status: "acknowledged", reason: "The price was missing" },
      entries: () => [{ ...entry("GatewayTargetBoundAcknowledged", "both", "GatewayTarget"), entityId: id }]
    }))
}

const loopback = () => Effect.succeed({ body: { providerId: "loopback" } })

/** Those that leave no entry, each with the reason. */
export const gatewayWithoutEntry = {
  "llm.testProvider": { reason: "it changes nothing", request: loopback },
  "llm.listModels": { reason: "it changes nothing", request: loopback },
  "llmCalls.complete": {
    reason: "its charge is its record",
    request: () => Effect.succeed({ body: { model: "loopback-1", messages: [{ role: "user", content: "Hello" }] } })
  },
  "llmCalls.embed": {
    reason: "its charge is its record",
    request: () => Effect.succeed({ body: { model: "loopback-1", input: "Hello" } })
  },
  "llmAdmin.reload": {
    reason: "what it reads was written by somebody, whose entry is there",
    request: () => Effect.succeed({})
  }
}
