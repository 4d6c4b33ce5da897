import { assert, describe, it } from "@effect/vitest"
import { embedBound, generateBound, generateFaults } from "../../../../src/gateway/formats/gemini/bound.ts"
import { perImage } from "../../../../src/gateway/formats/token-upper-bound.ts"

const bound = (body: object, contextTokens: number | null = null) =>
  generateBound(body as never, Buffer.byteLength(JSON.stringify(body)), perImage, contextTokens)
const unbounded = (body: object, contextTokens: number | null = 1000) =>
  bound(body, contextTokens).unbounded.map(({ path }) => path.join("."))

const text = { contents: [{ parts: [{ text: "Hello" }] }] }
const part = (one: object) => ({ contents: [{ role: "user", parts: [{ text: "?" }, one] }] })

const asked = (thinkingBudget: number) =>
  bound({ ...text, generationConfig: { maxOutputTokens: 100, thinkingConfig: { thinkingBudget } } }).askedOutputTokens

describe("the bound of a request", () => {
  it("is that of its bytes, its choices and its limit, under names in either case", () => {
    const { askedOutputTokens, choices, elsewhere, inputTokens, unbounded } = bound({
      ...text,
      generation_config: { max_output_tokens: "70", candidate_count: 3 },
      safetySettings: [{ category: "x" }],
      labels: { a: "b" }
    })
    assert.deepStrictEqual([askedOutputTokens, choices, elsewhere, unbounded], [70, 3, undefined, []])
    assert.isAbove(inputTokens, JSON.stringify(text).length)
    assert.isUndefined(bound(text).askedOutputTokens)
  })

  it("has the budget of thoughts where it is larger than the limit, which has them otherwise", () => {
    assert.deepStrictEqual([asked(-1), asked(0), asked(100), asked(101)], [100, 100, 100, 201])
  })

  it("has what an image and a PDF may have, and not their bytes, in results of functions as well", () => {
    const data = "A".repeat(100_000)
    for (const [one, elsewhere] of [
      [{ inlineData: { mimeType: "image/png", data } }, undefined],
      [{ inline_data: { mime_type: "application/pdf", data } }, "stored"],
      [
        { functionResponse: { name: "f", response: {}, parts: [{ inlineData: { mimeType: "image/webp", data } }] } },
        undefined
      ]
    ] as const) {
      const read = bound(part(one), 1000)
      assert.isAbove(read.mediaTokens, 0, JSON.stringify(one).slice(0, 60))
      assert.strictEqual(read.inputTokens < 100_000, elsewhere === undefined)
      assert.strictEqual(read.elsewhere, elsewhere)
      assert.isEmpty(read.unbounded)
    }
    const written = bound(part({ inlineData: { mimeType: "text/csv", data: Buffer.from("a,b").toString("base64") } }))
    assert.deepStrictEqual([written.mediaTokens, written.elsewhere, written.unbounded], [0, undefined, []])
  })

  it("is open where a file is read from elsewhere, which needs the context of the model", () => {
    const file = part({ fileData: { fileUri: "https://example.com/a.pdf", mimeType: "application/pdf" } })
    assert.strictEqual(bound(file, 1000).elsewhere, "fetched")
    assert.deepStrictEqual(unbounded(file, null), ["contents.0.parts.1.fileData"])
    const nested = part({
      functionResponse: { name: "f", parts: [{ file_data: { file_uri: "x", mime_type: "image/png" } }] }
    })
    assert.deepStrictEqual(unbounded(nested, null), ["contents.0.parts.1.functionResponse.parts.0.fileData"])
  })

  it("is none where Google runs tools, speaks, hears, or reads what is not known", () => {
    for (const name of [
      "googleSearch",
      "google_search_retrieval",
      "urlContext",
      "codeExecution",
      "fileSearch",
      "googleMaps",
      "computerUse",
      "newTool"
    ]) {
      assert.lengthOf(unbounded({ ...text, tools: [{ functionDeclarations: [{ name: "f" }], [name]: {} }] }), 1, name)
    }
    for (const [body, path] of [
      [part({ inlineData: { mimeType: "audio/wav", data: "" } }), "contents.0.parts.1.inlineData"],
      [part({ inlineData: { data: "" } }), "contents.0.parts.1.inlineData"],
      [part({ fileData: { fileUri: "https://youtu.be/x" } }), "contents.0.parts.1.fileData"],
      [part({ newKind: { uri: "x" } }), "contents.0.parts.1.newKind"],
      [{ ...text, cachedContent: "cachedContents/1" }, "cachedContent"],
      [{ ...text, newMember: true }, "newMember"],
      [{ ...text, serviceTier: "PRIORITY" }, "serviceTier"],
      [{ ...text, generationConfig: { responseModalities: ["AUDIO"] } }, "generationConfig.responseModalities"],
      [{ ...text, generationConfig: { routingConfig: { autoMode: {} } } }, "generationConfig.routingConfig"],
      [{ ...text, systemInstruction: { parts: { fileData: { fileUri: "x" } } } }, "systemInstruction.parts.0.fileData"]
    ] as const) {
      assert.deepStrictEqual(unbounded(body), [path], JSON.stringify(body))
    }
    const functions = {
      ...text,
      tools: [{ functionDeclarations: [{ name: "f" }], googleSearch: null }],
      serviceTier: "flex"
    }
    assert.isEmpty(unbounded(functions))
  })

  it("for vectors is that of their texts", () => {
    const one = { content: { parts: [{ text: "Hello" }] } }
    const batch = { requests: [one, { content: { parts: [{ text: "x" }, { inlineData: {} }] } }] }
    assert.isEmpty(embedBound(one, 50).unbounded)
    assert.strictEqual(embedBound(one, 50).askedOutputTokens, undefined)
    assert.deepStrictEqual(
      embedBound(batch, 100).unbounded.map(({ path }) => path.join(".")),
      ["requests.1.content.parts.1"]
    )
  })
})

const faults = (body: object) => generateFaults(body as never).map(({ path }) => path.join("."))

describe("the faults of a request", () => {
  it("are what metering cannot read, with their paths", () => {
    assert.isEmpty(faults({ contents: { parts: { text: "x" } }, generationConfig: { maxOutputTokens: "5" } }))
    assert.deepStrictEqual(faults({}), ["contents"])
    assert.deepStrictEqual(faults({ contents: [7, {}], tools: "x", generationConfig: [] }), [
      "contents.0",
      "contents.1",
      "tools",
      "generationConfig"
    ])
    assert.deepStrictEqual(
      faults({ ...text, generationConfig: { maxOutputTokens: 0, candidateCount: 9 }, cached_content: "c" }),
      ["generationConfig.maxOutputTokens", "generationConfig.candidateCount", "cachedContent"]
    )
    assert.deepStrictEqual(faults({ ...text, generationConfig: { maxOutputTokens: 5, max_output_tokens: 5000 } }), [
      "generationConfig.maxOutputTokens"
    ])
  })
})
