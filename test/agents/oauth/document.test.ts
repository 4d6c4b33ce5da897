import { assert, describe, it, layer } from "@effect/vitest"
import { Effect } from "effect"
import { type Json, type Operation, oauthOperations } from "../../contract/document.ts"
import { faultsOf } from "../../contract/validator.ts"
import { assertionOf, grant, makeAgent, tokenOf } from "../../support/agents.ts"
import { makeKey } from "../../support/authority.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

const formType = "application/x-www-form-urlencoded"
const formOf = ({ requestBody }: Operation) => requestBody?.content[formType] ?? assert.fail("no form")
const examplesOf = (operation: Operation) =>
  Object.values(formOf(operation).examples ?? {}).map(({ value }) => value as Readonly<Record<string, string>>)
const answerSchema = ({ responses }: Operation, status: number): Json =>
  responses[String(status)]?.content?.["application/json"]?.schema ?? assert.fail(`${status} is not in the document`)

describe.each(oauthOperations.map((operation) => [operation.operationId, operation] as const))(
  "%s in the document",
  (_, operation) => {
    it("has examples that its own schema lets through", () => {
      const examples = examplesOf(operation)
      assert.isNotEmpty(examples)
      for (const example of examples) assert.deepStrictEqual(faultsOf(formOf(operation).schema, example), [])
    })
  }
)

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("the document of /oauth2", (it) => {
  it.effect("names all that the metadata names", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const { body } = yield* service.call("GET", "/.well-known/oauth-authorization-server", { key: null })
      const endpoints = [body.token_endpoint, body.introspection_endpoint, body.revocation_endpoint]
      assert.deepStrictEqual(
        oauthOperations.map(({ method, path }) => `${method} ${path}`),
        endpoints.map((endpoint) => `POST ${new URL(endpoint).pathname}`)
      )
    })
  )

  for (const operation of oauthOperations) {
    it.effect(`${operation.operationId} is served as it says, and refuses as it says`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const agent = yield* makeAgent(service)
        const subject = yield* makeAgent(service)
        yield* grant(service, agent, subject)
        const { accessToken } = yield* tokenOf(service, subject)
        const post = (form: Readonly<Record<string, string>>, headers: Record<string, string> = {}) =>
          service.call("POST", operation.path, {
            key: null,
            body: new URLSearchParams(form).toString(),
            headers: { "content-type": formType, ...headers }
          })
        const isToken = operation.path.endsWith("/token")
        const known = { "x-api-key": service.serviceKey }
        for (const example of examplesOf(operation)) {
          const values: Readonly<Record<string, string>> = {
            client_assertion: isToken ? yield* assertionOf(service, agent) : "",
            subject_token: accessToken,
            token: accessToken
          }
          const form = Object.fromEntries(Object.entries(example).map(([name, value]) => [name, values[name] ?? value]))
          const served = yield* post(form, isToken ? {} : known)
          assert.strictEqual(served.status, 200, served.text)
          assert.deepStrictEqual(faultsOf(answerSchema(operation, 200), served.body), [])
        }
        const { key: powerless } = yield* makeKey(service, ["roles:read"])
        const refusals: ReadonlyArray<readonly [Record<string, string>, Record<string, string>, number]> = [
          [{}, {}, 400],
          [{ grant_type: "client_credentials", token: "none" }, {}, 401],
          [{ token: "x".repeat(20_000) }, {}, 413],
          ...(isToken ? [] : ([[{ token: "none" }, { "x-api-key": powerless }, 403]] as const))
        ]
        for (const [form, headers, status] of refusals) {
          const refused = yield* post(form, headers)
          assert.strictEqual(refused.status, status, refused.text)
          assert.deepStrictEqual(faultsOf(answerSchema(operation, status), refused.body), [])
        }
      })
    )
  }
})
