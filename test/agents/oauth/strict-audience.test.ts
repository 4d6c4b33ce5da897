import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import {
  assertInvalidClient,
  assertionOf,
  exchange,
  grant,
  issuerOf,
  makeAgent,
  tokenOf
} from "../../support/agents.ts"
import { type Answer, serviceLayer, TestService } from "../../support/service.ts"

type Service = TestService["Service"]

const assertionType = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"

const form = (service: Service, path: string, body: Record<string, string>) =>
  service.call("POST", path, {
    key: null,
    body: new URLSearchParams(body).toString(),
    headers: { "content-type": "application/x-www-form-urlencoded" }
  })

/** Every endpoint that takes an assertion, and how it is asked. */
const endpoints: ReadonlyArray<
  readonly [string, (service: Service, agentId: string, assertion: string, token: string) => Effect.Effect<Answer>]
> = [
  [
    "/api/agents/token",
    (service, agentId, clientAssertion) =>
      service.call("POST", "/api/agents/token", { key: null, body: { agentId, clientAssertion } })
  ],
  [
    "/api/agents/token/exchange",
    (service, agentId, clientAssertion, subjectToken) =>
      service.call("POST", "/api/agents/token/exchange", {
        key: null,
        body: { agentId, clientAssertion, subjectToken }
      })
  ],
  [
    "/oauth2/token",
    (service, client_id, client_assertion) =>
      form(service, "/oauth2/token", {
        grant_type: "client_credentials",
        client_id,
        client_assertion,
        client_assertion_type: assertionType
      })
  ],
  ...["/oauth2/introspect", "/oauth2/revoke"].map(
    (path) =>
      [
        path,
        (service: Service, client_id: string, client_assertion: string) =>
          form(service, path, {
            token: "no token",
            client_id,
            client_assertion,
            client_assertion_type: assertionType
          })
      ] as const
  )
]

/** What the endpoint answers to an assertion for an audience. */
const ask = Effect.fnUntraced(function* (
  [path, call]: (typeof endpoints)[number],
  audience: (issuer: string) => string
) {
  const service = yield* TestService
  const subject = yield* makeAgent(service)
  const agent = yield* makeAgent(service)
  yield* grant(service, agent, subject)
  const { accessToken } = yield* tokenOf(service, subject)
  const aud = audience(yield* Effect.promise(() => issuerOf(service)))
  const answer = yield* call(service, agent.id, yield* assertionOf(service, agent, { aud }), accessToken)
  if (path === "/api/agents/token/exchange") yield* exchange(service, agent, accessToken)
  return answer
})

const assertRefused = ([path]: (typeof endpoints)[number], answer: Answer) => {
  if (path.startsWith("/api/")) return assertInvalidClient(answer)
  assert.strictEqual(answer.status, 401, answer.text)
  assert.strictEqual(answer.body.error, "invalid_client")
}

for (const strict of [false, true]) {
  layer(serviceLayer({ Agents__StrictAudience: String(strict) }), { excludeTestServices: true, timeout: "60 seconds" })(
    `with Agents:StrictAudience=${strict}`,
    (it) => {
      for (const endpoint of endpoints) {
        const [path] = endpoint
        it.effect(`RFC7523bis §3 aud the issuer, at ${path}: taken`, () =>
          Effect.map(
            ask(endpoint, (issuer) => issuer),
            ({ status, text }) => assert.strictEqual(status, 200, text)
          )
        )
        it.effect(`aud the endpoint that is called, ${path}: ${strict ? "refused" : "taken"}`, () =>
          Effect.map(
            ask(endpoint, (issuer) => `${issuer}${path}`),
            (answer) => (strict ? assertRefused(endpoint, answer) : assert.strictEqual(answer.status, 200, answer.text))
          )
        )
        it.effect(`aud another endpoint than ${path}: refused`, () =>
          Effect.map(
            ask(endpoint, (issuer) => `${issuer}${path === "/oauth2/token" ? "/api/agents/token" : "/oauth2/token"}`),
            (answer) => assertRefused(endpoint, answer)
          )
        )
      }
    }
  )
}
