import { Effect } from "effect"
import { makeAgent } from "../support/agents.ts"
import { make } from "../support/scenarios.ts"
import { type TestService } from "../support/service.ts"
import { type Change, type ExpectedEntry } from "./changes.ts"

type Service = TestService["Service"]

const entry = (actionType: string, entityId: string): ExpectedEntry => ({
  entityType: "Plan",
  actionType,
  entityId,
  kept: "after"
})

/** Changes a plan of its own. */
const changes =
  (actionType: string, body?: unknown) =>
  (service: Service): Effect.Effect<Change> =>
    Effect.gen(function* () {
      const { id: agentId } = yield* makeAgent(service)
      const { id: planId } = yield* make(service, `/api/agents/${agentId}/plans`, { budgetUsd: 1 })
      return {
        parameters: { agentId, planId },
        ...(body === undefined ? {} : { body }),
        entries: () => [entry(actionType, planId)]
      }
    })

/** How to call every operation about plans that changes something, by its operationId. */
export const planChanges: Readonly<Record<string, (service: Service) => Effect.Effect<Change>>> = {
  "plans.start": (service) =>
    Effect.map(makeAgent(service), ({ id }) => ({
      parameters: { agentId: id },
      body: { budgetUsd: 0.25 },
      entries: ({ body }) => [entry("PlanStarted", body.id)]
    })),
  "plans.extend": changes("PlanExtended", { additionalUsd: 0.25 }),
  "plans.complete": changes("PlanCompleted"),
  "plans.abort": changes("PlanAborted")
}

export const plansWithoutEntry = {
  "plans.heartbeat": {
    reason:
      "a heartbeat is frequent and its own record is heartbeatBy; one that revives a plan is tested in test/plans",
    request: (service: Service) =>
      Effect.map(changes("")(service), ({ parameters }) => (parameters === undefined ? {} : { parameters }))
  }
}
