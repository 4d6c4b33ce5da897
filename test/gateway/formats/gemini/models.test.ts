import { assert, describe, it } from "@effect/vitest"
import { Result, Schema } from "effect"
import {
  BatchEmbedRequest,
  embedAnswerToCommon,
  embedToCommon,
  commonToEmbed,
  commonToEmbedAnswer,
  usageOfEmbedAnswer
} from "../../../../src/gateway/formats/gemini-embeddings/translation.ts"
import {
  countedRequest,
  readCount,
  toCountAnswer,
  toCountRequest
} from "../../../../src/gateway/formats/gemini/counts.ts"
import { camelCasedRequest } from "../../../../src/gateway/formats/gemini/domain.ts"
import { geminiModels, readModels } from "../../../../src/gateway/formats/gemini/models.ts"
import { isGooglePath, providerPath, readPath } from "../../../../src/gateway/formats/gemini/paths.ts"
import { type Any } from "./forms.ts"

describe("paths", () => {
  it("name a model, which may have slashes and colons, and the method after the last colon", () => {
    for (const [path, model, method] of [
      ["/v1beta/models/gemini-3-flash:generateContent", "gemini-3-flash", "generateContent"],
      ["/v1/models/meta/llama-4:free:streamGenerateContent", "meta/llama-4:free", "streamGenerateContent"],
      ["/v1beta/models/meta%2Fllama%3Afree:countTokens", "meta/llama:free", "countTokens"],
      ["/v1beta/models/a%3AembedContent", "a", "embedContent"],
      ["/v1beta/models/generateContent:batchEmbedContents", "generateContent", "batchEmbedContents"]
    ] as const) {
      assert.deepStrictEqual(readPath("POST", path), { kind: "method", model, method }, path)
    }
    assert.deepStrictEqual(readPath("GET", "/v1beta/models/meta/llama:free"), {
      kind: "model",
      model: "meta/llama:free"
    })
    for (const path of ["/v1beta/models", "/v1/models/"])
      assert.deepStrictEqual(readPath("GET", path), { kind: "models" })
  })

  it("of other methods are unknown, and other paths are not Gemini's", () => {
    for (const path of [
      "/v1beta/models/m:predict",
      "/v1beta/models/m",
      "/v1beta/models/:generateContent",
      "/v1beta/models/m:constructor"
    ]) {
      assert.strictEqual(readPath("POST", path)?.kind, "unknown", path)
    }
    for (const path of [
      "/v2/models/m:generateContent",
      "/v1beta/modelsx",
      "/v1beta/files",
      "/v1beta/models/%E0%A4%A:generateContent"
    ]) {
      assert.isUndefined(readPath("POST", path), path)
    }
  })

  it("to providers keep slashes, and those of Google's clients are told from others", () => {
    assert.strictEqual(
      providerPath("models/gemini-3", "streamGenerateContent"),
      "/models/gemini-3:streamGenerateContent?alt=sse"
    )
    const path = providerPath("meta/llama 4:free", "countTokens")
    assert.deepStrictEqual(readPath("POST", `/v1beta${path}`), {
      kind: "method",
      model: "meta/llama 4:free",
      method: "countTokens"
    })
    for (const [url, isGoogle] of [
      ["/v1beta/anything", true],
      ["/v1/models?a=b&key=SECRET", true],
      ["/v1/models/a%2Fb?%6Bey=SECRET", true],
      ["/v1/models/a%3AcountTokens", true],
      ["/v1/models/ft:a:b", false],
      ["/v1/models?keys=1", false],
      ["/v1/responses/x?key=SECRET", false]
    ] as const) {
      assert.strictEqual(isGooglePath(url), isGoogle, url)
    }
  })
})

const model = (id: string) => ({ id, kind: "chat", contextTokens: 100, maxOutputTokens: null }) as const

const models = ["a", "b/c:d", "e"].map(model)

const page = (query: string): Any => Result.getOrThrow(geminiModels(models, new URLSearchParams(query)))

describe("models", () => {
  it("are listed in pages, and read from a provider's list", () => {
    const first = page("pageSize=2")
    assert.deepStrictEqual(first.models[1], {
      name: "models/b/c:d",
      version: "",
      displayName: "b/c:d",
      inputTokenLimit: 100,
      supportedGenerationMethods: ["generateContent", "countTokens"]
    })
    assert.strictEqual(first.nextPageToken, "b/c:d")
    const second = page("page_size=2&pageToken=b/c:d")
    assert.deepStrictEqual(
      second.models.map(({ name }: Any) => name),
      ["models/e"]
    )
    assert.notProperty(second, "nextPageToken")
    assert.lengthOf(page("pageSize=3").models, 3)
    for (const query of ["pageSize=x", "pageToken=z"]) {
      assert.isTrue(Result.isFailure(geminiModels(models, new URLSearchParams(query))), query)
    }
    const read = readModels({ models: [{ name: "models/x", input_token_limit: 5 }, {}, 7], nextPageToken: "" })
    assert.deepStrictEqual(read, {
      models: [{ id: "x", contextTokens: 5, maxOutputTokens: null }],
      nextPageToken: undefined
    })
    assert.isUndefined(readModels({ data: [] }))
  })
})

describe("counts", () => {
  it("are of a whole request, or of contents alone, and not of both", () => {
    const contents = [{ parts: [{ text: "x" }] }]
    const whole = { model: "models/m", contents, tools: [] }
    assert.deepStrictEqual(countedRequest({ contents }).body, { contents })
    assert.deepStrictEqual(countedRequest({ generate_content_request: whole }), { body: whole, faults: [] })
    assert.lengthOf(countedRequest({ contents, generateContentRequest: whole }).faults, 1)
    assert.deepStrictEqual(countedRequest(toCountRequest({ contents, tools: [] }, "m")).body, { ...whole, contents })
    assert.strictEqual(readCount(toCountAnswer(7)), 7)
    assert.deepStrictEqual(
      [readCount({ total_tokens: "9" }), readCount({}), readCount(null)],
      [9, undefined, undefined]
    )
  })
})

const decode = (body: object) =>
  Schema.decodeUnknownSync(BatchEmbedRequest)(camelCasedRequest(body as never).body).requests

describe("vectors", () => {
  it("are asked for as OpenAI does, and the same from Gemini", () => {
    const requests = [
      { content: { parts: [{ text: "A" }, { text: "B" }] }, taskType: "RETRIEVAL_QUERY", output_dimensionality: 3 },
      { content: { parts: { text: "C" } }, outputDimensionality: 3 }
    ]
    const common: Any = Result.getOrThrow(embedToCommon(decode({ requests }), { model: "m" }, ["requests"]))
    assert.deepStrictEqual(common, { model: "m", input: ["A\nB", "C"], encoding_format: "float", dimensions: 3 })
    assert.deepStrictEqual(Result.getOrThrow(commonToEmbed(common, { model: "g" })), {
      requests: ["A\nB", "C"].map((text) => ({
        model: "models/g",
        content: { parts: [{ text }] },
        outputDimensionality: 3
      }))
    })
    const odd = decode({
      requests: [{ content: { parts: [{ inlineData: {} }] } }, { content: {}, outputDimensionality: 3 }]
    })
    const refused = embedToCommon(odd, { model: "m" }, ["requests"])
    assert.deepStrictEqual(Result.isFailure(refused) && refused.failure.map(({ path }) => path.join(".")), [
      "requests.0.content.parts.0",
      "requests.1.outputDimensionality"
    ])
    assert.isTrue(Result.isFailure(commonToEmbed({ input: [[1, 2]] }, { model: "m" })))
  })

  it("come back in either form", () => {
    const common = embedAnswerToCommon({ embeddings: [{ values: [1, 2] }, { values: [3] }] }, "m")
    assert.deepStrictEqual(
      (common.data as Any).map(({ embedding, index }: Any) => [index, embedding]),
      [
        [0, [1, 2]],
        [1, [3]]
      ]
    )
    assert.deepStrictEqual(commonToEmbedAnswer(common, true).embeddings, [{ values: [1, 2] }, { values: [3] }])
    assert.deepStrictEqual(
      commonToEmbedAnswer(embedAnswerToCommon({ embedding: { values: [5] } }, "m"), false).embedding,
      {
        values: [5]
      }
    )
    assert.strictEqual(usageOfEmbedAnswer({ usage_metadata: { prompt_token_count: 4 } })?.inputTokens, 4)
    assert.isUndefined(usageOfEmbedAnswer({ embeddings: [] }))
  })
})
