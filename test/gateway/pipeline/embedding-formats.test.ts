import { assert, layer } from "@effect/vitest"
import { Effect } from "effect"
import OpenAI from "openai"
import { configure, model, provider, spender } from "../../support/gateway.ts"
import { json, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("embeddings", (it) => {
  it.effect("of a provider that answers with numbers, though base64 was asked for, are read by OpenAI's SDK", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(({ body }, response) =>
        json(response, 200, {
          object: "list",
          model: body.model,
          data: [0, 1].map((index) => ({ object: "embedding", index, embedding: [index, 0.5, -0.25] })),
          usage: { prompt_tokens: 7, total_tokens: 7 }
        })
      )
      const vectors = model("vectors", ["oa"], { kind: "embedding" })
      yield* configure(service, [provider("oa", standIn)], [vectors])
      const { key } = yield* spender(service, [])
      const client = new OpenAI({ baseURL: `${service.url}/v1`, apiKey: key, maxRetries: 0 })
      const input = ["a", "b"]
      const implied = yield* Effect.promise(() => client.embeddings.create({ model: "vectors", input }))
      const asked = yield* Effect.promise(() =>
        client.embeddings.create({ model: "vectors", input, encoding_format: "float" })
      )
      for (const { data } of [implied, asked]) {
        assert.deepStrictEqual(
          data.map(({ embedding }) => Array.from(embedding)),
          [
            [0, 0.5, -0.25],
            [1, 0.5, -0.25]
          ]
        )
      }
    }).pipe(Effect.scoped)
  )
})
