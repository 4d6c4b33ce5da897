import { Effect } from "effect"
import { assertionOf, grant, makeAgent, makeKeyPair, registration, type TestAgent, tokenOf } from "../support/agents.ts"
import { make } from "../support/scenarios.ts"
import { type TestService } from "../support/service.ts"
import { type Change, type ExpectedEntry } from "./changes.ts"

type Service = TestService["Service"]

const entry = (
  entityType: string,
  actionType: string,
  entityId: string,
  kept: ExpectedEntry["kept"]
): ExpectedEntry => ({ entityType, actionType, entityId, kept })

const makeTemplate = (service: Service) => make(service, "/api/agents/templates", registration())

const issued = (actionType: string, about: Omit<Change, "entries">): Change => ({
  ...about,
  entries: ({ body }) => [entry("AgentCredential", actionType, body.credentialId, "after")]
})

/** Two agents of which the second may act for the first. */
const makePair = Effect.fnUntraced(function* (service: Service) {
  const subject = yield* makeAgent(service)
  const actor = yield* makeAgent(service)
  return { subject, actor, grantId: (yield* grant(service, actor, subject)).id as string }
})

const tokenBody = (service: Service, agent: TestAgent) =>
  Effect.map(assertionOf(service, agent), (clientAssertion) => ({ agentId: agent.id, clientAssertion }))

/** How to call every operation about agents that changes something, by its operationId. */
export const agentChanges: Readonly<Record<string, (service: Service) => Effect.Effect<Change>>> = {
  "agents.register": () =>
    Effect.succeed({
      body: registration(),
      entries: ({ body }) => [entry("Agent", "AgentRegistered", body.id, "after")]
    }),
  "agents.update": (service) =>
    Effect.map(makeAgent(service), ({ id }) => ({
      parameters: { id },
      body: { status: "suspended" },
      entries: () => [entry("Agent", "AgentUpdated", id, "both")]
    })),
  "agents.retire": (service) =>
    Effect.map(makeAgent(service), ({ id }) => ({
      parameters: { id },
      entries: () => [entry("Agent", "AgentRetired", id, "both")]
    })),
  "agentTemplates.create": () =>
    Effect.succeed({
      body: registration(),
      entries: ({ body }) => [entry("AgentTemplate", "AgentTemplateCreated", body.id, "after")]
    }),
  "agentTemplates.update": (service) =>
    Effect.map(makeTemplate(service), ({ id }) => ({
      parameters: { id },
      body: { scopeCeiling: [] },
      entries: () => [entry("AgentTemplate", "AgentTemplateUpdated", id, "both")]
    })),
  "agentTemplates.delete": (service) =>
    Effect.map(makeTemplate(service), ({ id }) => ({
      parameters: { id },
      entries: () => [entry("AgentTemplate", "AgentTemplateDeleted", id, "before")]
    })),
  "agentKeys.register": (service) =>
    Effect.map(makeAgent(service), ({ id }) => {
      const { algorithm, kid, publicKeyPem } = makeKeyPair()
      return {
        parameters: { id },
        body: { algorithm, kid, publicKeyPem },
        entries: ({ body }) => [entry("AgentKey", "AgentKeyRegistered", body.id, "after")]
      }
    }),
  "agentKeys.revoke": (service) =>
    Effect.map(makeAgent(service), ({ id, keyId }) => ({
      parameters: { id, keyId },
      entries: () => [entry("AgentKey", "AgentKeyRevoked", keyId, "both")]
    })),
  "delegations.create": Effect.fnUntraced(function* (service) {
    const { actor, subject } = yield* makePair(service)
    return {
      parameters: { id: actor.id },
      body: { subject: subject.id, subjectType: "agent", scopes: ["llm:complete"] },
      entries: ({ body }) => [entry("Delegation", "DelegationCreated", body.id, "after")]
    }
  }),
  "delegations.revoke": (service) =>
    Effect.map(makePair(service), ({ actor, grantId }) => ({
      parameters: { id: actor.id, grantId },
      entries: () => [entry("Delegation", "DelegationRevoked", grantId, "both")]
    })),
  "agentCredentials.issue": (service) =>
    Effect.map(makeAgent(service), ({ id }) => issued("AgentCredentialIssued", { parameters: { id }, body: {} })),
  "agentCredentials.revoke": Effect.fnUntraced(function* (service) {
    const { credentialId } = yield* tokenOf(service, yield* makeAgent(service))
    return {
      parameters: { credentialId },
      entries: () => [entry("AgentCredential", "AgentCredentialRevoked", credentialId, "both")]
    }
  }),
  "agentTokens.token": Effect.fnUntraced(function* (service) {
    const agent = yield* makeAgent(service)
    return issued("AgentCredentialIssued", { by: `agent:${agent.id}`, body: yield* tokenBody(service, agent) })
  }),
  "agentTokens.exchange": Effect.fnUntraced(function* (service) {
    const { actor, subject } = yield* makePair(service)
    const { accessToken: subjectToken } = yield* tokenOf(service, subject)
    return issued("AgentCredentialExchanged", {
      by: `agent:${actor.id}`,
      body: { ...(yield* tokenBody(service, actor)), subjectToken }
    })
  })
}
