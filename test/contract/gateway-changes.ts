import { Effect } from "effect"
import { type TestService } from "../support/service.ts"
import { type Change, type ExpectedEntry } from "./changes.ts"

type Service = TestService["Service"]

const entry = (actionType: string, kept: ExpectedEntry["kept"]): ExpectedEntry => ({
  actionType,
  entityType: "GatewayConfiguration",
  entityId: "llm-gateway",
  kept
})

const document = { routing: { retries: 1 } }
const write = (service: Service) => service.call("PUT", "/api/llm/admin/config", { body: document })

/** What a call leaves: what was kept free for it, and what it did cost. */
const spends = (body: object): Change => ({
  body: { model: "loopback-1", ...body },
  entries: ({ body: { reservationId: entityId } }) =>
    ["SpendReserved", "SpendSettled"].map((actionType) => ({
      actionType,
      entityType: "Reservation",
      entityId,
      kept: "after"
    }))
})

/** How to call the operations of the gateway that change something. */
export const gatewayChanges: Readonly<Record<string, (service: Service) => Effect.Effect<Change>>> = {
  "llmCalls.complete": () => Effect.succeed(spends({ messages: [{ role: "user", content: "Hello" }] })),
  "llmCalls.embed": () => Effect.succeed(spends({ input: "Hello" })),
  "llmAdmin.putConfiguration": (service) =>
    Effect.as(write(service), {
      body: document,
      entries: () => [entry("GatewayConfigurationUpdated", "both")]
    }),
  "llmAdmin.rollback": (service) =>
    Effect.as(write(service), {
      body: { version: 1 },
      entries: () => [entry("GatewayConfigurationRolledBack", "both")]
    })
}

const loopback = () => Effect.succeed({ body: { providerId: "loopback" } })

/** Those that leave no entry, each with the reason. */
export const gatewayWithoutEntry = {
  "llm.testProvider": { reason: "it changes nothing", request: loopback },
  "llm.listModels": { reason: "it changes nothing", request: loopback },
  "llmAdmin.reload": {
    reason: "what it reads was written by somebody, whose entry is there",
    request: () => Effect.succeed({})
  }
}
