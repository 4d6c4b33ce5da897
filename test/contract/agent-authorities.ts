import { Effect } from "effect"
import { makeAgent, makeKeyPair, registration } from "../support/agents.ts"
import { make } from "../support/scenarios.ts"
import { type TestService } from "../support/service.ts"
import { type Attempt } from "./authorities.ts"

type Service = TestService["Service"]

const beyond = ["dashboard:read", "trial-users:write", "sessions:*"]
const less = ["dashboard:read"]

const agent = (service: Service, scopeCeiling: ReadonlyArray<string>) => makeAgent(service, { scopeCeiling })
const template = (service: Service, scopeCeiling: ReadonlyArray<string>) =>
  make(service, "/api/agents/templates", registration({ scopeCeiling }))

const about = (id: string, body?: unknown) => ({ parameters: { id }, ...(body === undefined ? {} : { body }) })

const delegation = (service: Service) =>
  Effect.map(agent(service, less), ({ id }) => ({ subject: id, subjectType: "agent", scopes: beyond }))

/** Attempts to give more than one has by way of agents. */
export const agentAttempts: ReadonlyArray<Attempt> = [
  {
    operationId: "agents.register",
    about: "an agent with more",
    prepare: () => Effect.succeed({ body: registration({ scopeCeiling: beyond }) })
  },
  {
    operationId: "agents.update",
    about: "an agent that had more",
    prepare: (service) => Effect.map(agent(service, beyond), ({ id }) => about(id, { scopeCeiling: less }))
  },
  {
    operationId: "agents.update",
    about: "an agent that would get more",
    prepare: (service) => Effect.map(agent(service, less), ({ id }) => about(id, { scopeCeiling: beyond }))
  },
  {
    operationId: "agents.retire",
    about: "an agent with more",
    prepare: (service) => Effect.map(agent(service, beyond), ({ id }) => about(id))
  },
  {
    operationId: "agentTemplates.create",
    about: "a template with more",
    prepare: () => Effect.succeed({ body: registration({ scopeCeiling: beyond }) })
  },
  {
    operationId: "agentTemplates.update",
    about: "a template that had more",
    prepare: (service) => Effect.map(template(service, beyond), ({ id }) => about(id, { scopeCeiling: [] }))
  },
  {
    operationId: "agentTemplates.update",
    about: "a template that would get more",
    prepare: (service) => Effect.map(template(service, less), ({ id }) => about(id, { scopeCeiling: beyond }))
  },
  {
    operationId: "agentTemplates.delete",
    about: "a template with more",
    prepare: (service) => Effect.map(template(service, beyond), ({ id }) => about(id))
  },
  {
    operationId: "agentKeys.register",
    about: "a key of an agent with more",
    prepare: (service) =>
      Effect.map(agent(service, beyond), ({ id }) => {
        const { algorithm, kid, publicKeyPem } = makeKeyPair()
        return about(id, { algorithm, kid, publicKeyPem })
      })
  },
  {
    operationId: "agentKeys.revoke",
    about: "a key of an agent with more",
    prepare: (service) => Effect.map(agent(service, beyond), ({ id, keyId }) => ({ parameters: { id, keyId } }))
  },
  {
    operationId: "delegations.create",
    about: "a grant with more",
    prepare: Effect.fnUntraced(function* (service) {
      const { id } = yield* agent(service, beyond)
      return about(id, yield* delegation(service))
    })
  },
  {
    operationId: "delegations.revoke",
    about: "a grant with more",
    prepare: Effect.fnUntraced(function* (service) {
      const { id } = yield* agent(service, beyond)
      const { id: grantId } = yield* make(service, `/api/agents/${id}/delegations`, yield* delegation(service))
      return { parameters: { id, grantId } }
    })
  },
  {
    operationId: "agentCredentials.issue",
    about: "a credential with more",
    prepare: (service) => Effect.map(agent(service, beyond), ({ id }) => about(id, {}))
  }
]
