import { assert, describe, it, layer } from "@effect/vitest"
import { Effect, Schema } from "effect"
import { Capability } from "../../../src/kernel/authority/capability.ts"
import { dereferenced, compatibleOperations, type Json, type Operation } from "../../contract/document.ts"
import { faultsOf } from "../../contract/validator.ts"
import { makeKey } from "../../support/authority.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

/** The example of a form, whose files are texts. */
const formOf = ({ requestBody }: Operation) => {
  const form = requestBody?.content["multipart/form-data"]
  if (form === undefined) return undefined
  const properties = dereferenced(form.schema).properties as Record<string, { readonly contentMediaType?: string }>
  const parts = Object.entries(form.example as Record<string, string>).map(([name, value]) => {
    const filename = properties[name]?.contentMediaType === undefined ? "" : '; filename="a"'
    return `--b\r\ncontent-disposition: form-data; name="${name}"${filename}\r\n\r\n${value}\r\n`
  })
  return { body: `${parts.join("")}--b--\r\n`, headers: { "content-type": "multipart/form-data; boundary=b" } }
}
const bodyOf = ({ requestBody }: Operation) => requestBody?.content["application/json"]?.example
/** The path of an operation, for a response that is stored if it needs one. */
const pathFor = Effect.fnUntraced(function* ({ path }: Operation) {
  if (!path.includes("{id}")) return path.replace("{model}", "loopback-1")
  if (!path.startsWith("/v1/responses")) return path.replace("{id}", "unknown")
  const service = yield* TestService
  const made = yield* service.call("POST", "/v1/responses", { body: { model: "loopback-1", input: "Hello" } })
  return path.replace("{id}", made.body.id)
})
/** What a model that is not a provider's own response cannot do, and what there are no files and no batches for. */
const refused = new Map<string, number>(
  Object.entries({
    compactResponse: 400,
    cancelResponse: 400,
    uploadFile: 400,
    file: 404,
    deleteFile: 404,
    fileContent: 404,
    createBatch: 404,
    batch: 404,
    cancelBatch: 404,
    createMessageBatch: 400,
    messageBatch: 404,
    cancelMessageBatch: 404,
    deleteMessageBatch: 404,
    messageBatchResults: 404
  }).map(([name, status]) => [`compatibility.${name}`, status])
)
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
            "POST /v1/completions",
            "POST /v1/responses",
            "POST /v1/responses/input_tokens",
            "POST /v1/responses/compact",
            "GET /v1/responses/{id}",
            "DELETE /v1/responses/{id}",
            "GET /v1/responses/{id}/input_items",
            "POST /v1/responses/{id}/cancel",
            "POST /v1/embeddings",
            "POST /v1/rerank",
            "POST /v2/rerank",
            "POST /v1/audio/speech",
            "POST /v1/moderations",
            "POST /v1/images/generations",
            "POST /v1/images/edits",
            "POST /v1/audio/transcriptions",
            "POST /v1/audio/translations",
            "POST /v1/messages",
            "POST /v1/messages/count_tokens",
            "POST /v1/files",
            "GET /v1/files",
            "GET /v1/files/{id}",
            "DELETE /v1/files/{id}",
            "GET /v1/files/{id}/content",
            "POST /v1/batches",
            "GET /v1/batches",
            "GET /v1/batches/{id}",
            "POST /v1/batches/{id}/cancel",
            "POST /v1/messages/batches",
            "GET /v1/messages/batches",
            "GET /v1/messages/batches/{id}",
            "DELETE /v1/messages/batches/{id}",
            "POST /v1/messages/batches/{id}/cancel",
            "GET /v1/messages/batches/{id}/results",
            "GET /v1/models",
            "GET /v1/models/{model}",
            "POST /v1beta/models/{model}:generateContent",
            "POST /v1beta/models/{model}:streamGenerateContent",
            "POST /v1beta/models/{model}:countTokens",
            "POST /v1beta/models/{model}:embedContent",
            "POST /v1beta/models/{model}:batchEmbedContents",
            "GET /v1beta/models",
            "GET /v1beta/models/{model}"
          ]
        )
      })
    )

    it.effect("serves Google's below /v1, too, with the key in each place that is declared", () =>
      Effect.gen(function* () {
        const service = yield* TestService
        const { key } = yield* makeKey(service, ["llm:*"])
        const ofGoogle = compatibleOperations.filter(({ operationId }) => operationId.includes(".gemini"))
        assert.lengthOf(ofGoogle, 7)
        for (const operation of ofGoogle) {
          const { security } = operation
          assert.deepStrictEqual(
            security.flatMap((one) => Object.keys(one)),
            ["googleApiKey", "googleApiKeyInQuery", "apiKey", "bearer"]
          )
          const path = yield* pathFor(operation)
          for (const [url, headers] of [
            [path, { "x-goog-api-key": key }],
            [`${path}?key=${key}`, {}],
            [path.replace("v1beta", "v1"), { "x-goog-api-key": key }],
            [`${path.replace("v1beta", "v1")}?key=${key}`, {}]
          ] as const) {
            const body = bodyOf(operation)
            const call = { key: null, headers, ...(body === undefined ? {} : { body: body as object }) }
            const served = yield* service.call(operation.method, url, call)
            assert.strictEqual(served.status, 200, `${url} ${served.text}`)
          }
        }
      })
    )

    for (const operation of compatibleOperations) {
      it.effect(`${operation.operationId} is served as it says, and refuses in the shape that it says`, () =>
        Effect.gen(function* () {
          const service = yield* TestService
          const path = yield* pathFor(operation)
          const call = (key?: string | null) =>
            service.call(operation.method, path, {
              ...(key === undefined ? {} : { key }),
              ...(operation.requestBody === undefined ? {} : (formOf(operation) ?? { body: bodyOf(operation) }))
            })
          const served = yield* call()
          assert.strictEqual(served.status, refused.get(operation.operationId) ?? 200, served.text)
          const wrong = yield* service.call("PUT", path)
          assert.strictEqual(wrong.status, 405)
          assert.include(wrong.headers.get("allow"), operation.method)
          const { key: powerless } = yield* makeKey(service, ["roles:read"])
          for (const [key, status] of [
            [null, 401],
            ["amk_nobody", 401],
            [powerless, 403]
          ] as const) {
            const denied = yield* call(key)
            assert.strictEqual(denied.status, status, denied.text)
            assert.deepStrictEqual(faultsOf(errorSchemaOf(operation, status), denied.body), [])
          }
        })
      )
    }
  }
)
