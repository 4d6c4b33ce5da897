import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import { makeRegistration } from "../support/registrations.ts"
import { serviceLayer, TestService } from "../support/service.ts"
import { compatibleOperations, documented, examplePath, oauthOperations } from "./document.ts"
import { faultsOf } from "./validator.ts"

const registration = documented.filter(({ operationId }) => operationId.startsWith("registration."))
const foreign = [...compatibleOperations, ...oauthOperations, ...registration]

layer(serviceLayer({ Applications__OpenRegistration: "true" }), {
  excludeTestServices: true,
  timeout: "60 seconds"
})("preconditions in formats of others", (it) => {
  for (const operation of foreign) {
    it.effect(`${operation.operationId} does nothing for a tag, which nothing there has`, () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const [contentType = ""] = Object.keys(operation.requestBody?.content ?? {})
        const isForm = contentType.includes("urlencoded")
        for (const tag of ['"1"', 'W/"1"', '"1", *', "1"]) {
          const answer = yield* service.call(operation.method, examplePath(operation), {
            headers: { "if-match": tag, ...(contentType === "" ? {} : { "content-type": contentType }) },
            ...(contentType === "" ? {} : { body: isForm ? "" : {} })
          })
          assert.strictEqual(answer.status, 412, answer.text)
          const schema = operation.responses[412]?.content?.["application/json"]?.schema ?? assert.fail("undocumented")
          assert.deepStrictEqual(faultsOf(schema, answer.body), [])
        }
        const any = yield* service.call(operation.method, examplePath(operation), { headers: { "if-match": "*" } })
        assert.notStrictEqual(any.status, 412, any.text)
      })
    )
  }

  it.effect("a registration is neither changed nor deleted under a tag", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const client = yield* makeRegistration(service, ["llm:complete"])
      const before = yield* client.get
      const headers = { authorization: `Bearer ${client.registration_access_token}`, "if-match": '"1"' }
      for (const [method, call] of [
        ["PUT", { body: { client_name: "other" } }],
        ["DELETE", {}]
      ] as const) {
        const refused = yield* service.call(method, client.path, { key: null, headers, ...call })
        assert.strictEqual(refused.status, 412, refused.text)
      }
      assert.deepStrictEqual((yield* client.get).body, before.body)
      const deleted = yield* service.call("DELETE", client.path, {
        key: null,
        headers: { ...headers, "if-match": "*" }
      })
      assert.strictEqual(deleted.status, 204, deleted.text)
    })
  )
})
