import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Capability } from "../../../src/kernel/authority/capability.ts"
import { dereferenced, compatibleOperations, type Json, type Operation } from "../../contract/document.ts"
import { faultsOf } from "../../contract/validator.ts"
import { makeKey } from "../../support/authority.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

const bodyOf = ({ requestBody }: Operation) => requestBody?.content["application/json"]?.example
const pathFor = ({ path }: Operation) => path.replace("{model}", "loopback-1")
const errorSchemaOf = ({ responses }: Operation, status: number): Json =>
  dereferenced(responses[String(status)]?.content?.["application/json"]?.schema ?? assert.fail(`no ${status}`))

describe.each(compatibleOperations.map((operation) => [operation.operationId, operation] as const))(
  "%s in the document",
  (_, operation) => {
    it("is described, and says who may call it", () => {
      assert.isNotEmpty(operation.summary)
      assert.isNotEmpty(operation.description)
      assert.isTrue(Schema.is(Capability)(operation["x-required-capability"]))
      assert.isNotEmpty(operation.security)
    })

    it("has an example that its own schema lets through", () => {
      const media = operation.requestBody?.content["application/json"]
      if (media !== undefined) assert.deepStrictEqual(faultsOf(media.schema, media.example), [])
    })
  }
)

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })(
  "the document of the SDKs' endpoints",
  (it) => {
    it.effect("names all of them", () =>
      Effect.sync(() => {
        assert.deepStrictEqual(
          compatibleOperations.map(({ method, path }) => `${method} ${path}`),
          [
            "POST /v1/chat/completions",
            "POST /v1/embeddings",
            "POST /v1/messages",
            "POST /v1/messages/count_tokens",
            "GET /v1/models",
            "GET /v1/models/{model}"
          ]
        )
      })
    )

    for (const operation of compatibleOperations) {
      it.effect(`${operation.operationId} is served as it says, and refuses in the shape that it says`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const call = (key?: string | null) =>
            service.call(operation.method, pathFor(operation), {
              ...(key === undefined ? {} : { key }),
              ...(operation.method === "POST" ? { body: bodyOf(operation) } : {})
            })
          const served = yield* call()
          assert.strictEqual(served.status, 200, served.text)
          const other = operation.method === "POST" ? "PUT" : "DELETE"
          const wrong = yield* service.call(other, pathFor(operation).replace("/loopback-1", ""))
          assert.strictEqual(wrong.status, 405)
          assert.include(wrong.headers.get("allow"), operation.method)
          const { key: powerless } = yield* makeKey(service, ["roles:read"])
          for (const [key, status] of [
            [null, 401],
            ["amk_nobody", 401],
            [powerless, 403]
          ] as const) {
            const refused = yield* call(key)
            assert.strictEqual(refused.status, status, refused.text)
            assert.deepStrictEqual(faultsOf(errorSchemaOf(operation, status), refused.body), [])
          }
        })
      )
    }
  }
)
