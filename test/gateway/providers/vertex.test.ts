import { AnthropicVertex } from "@anthropic-ai/vertex-sdk"
import { assert, describe, it } from "@effect/vitest"
import { GoogleGenAI } from "@google/genai"
import { Effect } from "effect"
import { otherThanHosts } from "../../../src/gateway/credentials/registry/vendor-hosts.ts"
import { anthropicCount, anthropicMessages } from "../../../src/gateway/formats/anthropic-messages/format.ts"
import { type Dialect } from "../../../src/gateway/formats/domain.ts"
import { type WireFormat } from "../../../src/gateway/formats/format.ts"
import { geminiBatchEmbed, geminiEmbed } from "../../../src/gateway/formats/gemini-embeddings/format.ts"
import { geminiCount, geminiGenerate } from "../../../src/gateway/formats/gemini/format.ts"
import { openAiChat } from "../../../src/gateway/formats/openai-chat/format.ts"
import { openAiEmbeddings } from "../../../src/gateway/formats/openai-embeddings/format.ts"
import { vertexBaseUrl, vertexLocation, vertexPlatform } from "../../../src/gateway/providers/platforms/vertex.ts"

interface Sent {
  readonly url: string
  readonly headers: Record<string, string>
  // oxlint-disable-next-line typescript/no-explicit-any -- bodies of every shape
  readonly body: any
}

/** What a vendor's client sends instead of being answered. */
const sentBy = (use: (fetch: typeof globalThis.fetch) => Promise<unknown>) => Effect.promise(() => caughtOf(use))

const caughtOf = async (use: (fetch: typeof globalThis.fetch) => Promise<unknown>): Promise<Sent> => {
  let sent: Sent | undefined
  await use(async (url, init) => {
    const request = new Request(url, init)
    sent = { url: request.url, headers: Object.fromEntries(request.headers), body: await request.json() }
    return Response.json({}, { status: 400 })
  }).catch(() => undefined)
  assert.isDefined(sent)
  return sent as Sent
}

const authClient = {
  projectId: "my-project",
  getRequestHeaders: async () => new Headers({ authorization: "Bearer t" })
}
const locations = ["global", "us", "eu", "us-central1", "europe-west4", "northamerica-northeast1"]

const ours = (
  dialect: Dialect,
  location: string,
  format: WireFormat,
  model: string,
  body: object,
  { apiVersion = "v1", headers = {}, streams = false } = {}
) => {
  const platform = vertexPlatform(dialect, { apiVersion, location, project: "my-project" })
  const request = platform.request(format, model, streams, { headers, body: JSON.stringify(body) })
  if (request === undefined) return undefined
  const text = typeof request.body === "string" ? request.body : new TextDecoder().decode(request.body)
  return { url: vertexBaseUrl(location) + request.path, headers: request.headers, body: JSON.parse(text) }
}

const anthropic = (location: string, use: (client: AnthropicVertex) => Promise<unknown>) =>
  sentBy((fetch) =>
    use(
      new AnthropicVertex({
        region: location,
        projectId: "my-project",
        // @ts-expect-error -- the part of a client that the SDK uses
        authClient,
        fetch,
        maxRetries: 0
      })
    )
  )

const google = (location: string, use: (client: GoogleGenAI) => Promise<unknown>, apiVersion = "v1") =>
  sentBy(async (fetch) => {
    const { fetch: before } = globalThis
    globalThis.fetch = fetch
    try {
      await use(
        new GoogleGenAI({
          vertexai: true,
          project: "my-project",
          location,
          httpOptions: { apiVersion },
          // @ts-expect-error -- the part of a client that the SDK uses
          googleAuthOptions: { authClient }
        })
      )
    } finally {
      globalThis.fetch = before
    }
  })

const messages = [{ role: "user" as const, content: "What time is it?" }]
const asQuery = { outputDimensionality: 5, taskType: "RETRIEVAL_QUERY" }
const vectorOf = (text: string) => ({ content: { parts: [{ text }] }, ...asQuery })
const claude = "claude-opus-4-5@20251101"

describe("requests to Vertex AI", () => {
  it.effect("of Anthropic's dialect are those of Anthropic's client", () =>
    Effect.gen(function* () {
      yield* Effect.forEach(
        locations.flatMap((location) => [[location, false] as const, [location, true] as const]),
        ([location, stream]) =>
          Effect.gen(function* () {
            const body = { model: claude, max_tokens: 10, messages, ...(stream ? { stream: true } : {}) }
            const theirs = yield* anthropic(location, (client) => client.messages.create(body))
            const version = theirs.body.anthropic_version
            const made = ours("anthropic", location, anthropicMessages, claude, body, {
              streams: stream,
              headers: { "anthropic-version": version, "anthropic-beta": "context-1m-2025-08-07" }
            })
            assert.deepStrictEqual(
              [made?.url, made?.body, made?.headers],
              [theirs.url, theirs.body, { "anthropic-beta": "context-1m-2025-08-07" }]
            )
            assert.isUndefined(theirs.headers["anthropic-version"])
          })
      )
      const counted = { model: claude, messages }
      const theirs = yield* anthropic("global", (client) => client.messages.countTokens(counted))
      const headers = { "anthropic-version": theirs.body.anthropic_version }
      const made = ours("anthropic", "global", anthropicCount, claude, counted, { headers })
      assert.deepStrictEqual([made?.url, made?.body], [theirs.url, theirs.body])
    })
  )

  it("name the first version of Anthropic's API as Google does, whatever the body says", () => {
    const body = { model: claude, anthropic_version: "x", max_tokens: 10, messages }
    for (const headers of [{}, { "anthropic-version": "2023-06-01" }]) {
      const made = ours("anthropic", "global", anthropicMessages, claude, body, { headers })
      const { anthropic_version: _, model: _model, ...rest } = body
      assert.deepStrictEqual(made?.body, { anthropic_version: "vertex-2023-10-16", ...rest })
    }
  })

  it.effect("of Gemini's dialect are those of Google's client", () =>
    Effect.gen(function* () {
      const config = { systemInstruction: "Be short.", maxOutputTokens: 5 }
      const asked = { model: "gemini-2.5-flash", contents: "What time is it?", config }
      yield* Effect.forEach(locations, (location) =>
        Effect.map(
          google(location, (client) => client.models.generateContent(asked)),
          (whole) => {
            const given = { model: "models/gemini-2.5-flash", ...whole.body }
            assert.deepStrictEqual(ours("gemini", location, geminiGenerate, asked.model, given), {
              url: whole.url,
              headers: {},
              body: whole.body
            })
          }
        )
      )
      const beta = yield* google("global", (client) => client.models.generateContentStream(asked), "v1beta1")
      const options = { apiVersion: "v1beta1", streams: true }
      assert.strictEqual(ours("gemini", "global", geminiGenerate, asked.model, beta.body, options)?.url, beta.url)
      const counted = yield* google("global", (client) =>
        client.models.countTokens({
          ...asked,
          config: { systemInstruction: "Be short.", tools: [{ googleSearch: {} }] }
        })
      )
      const wrapped = { generateContentRequest: { model: "models/gemini-2.5-flash", toolConfig: {}, ...counted.body } }
      for (const given of [counted.body, wrapped]) {
        const made = ours("gemini", "global", geminiCount, asked.model, given)
        assert.deepStrictEqual([made?.url, made?.body], [counted.url, counted.body])
      }
    })
  )

  it.effect("for vectors are those of Google's client, by the method that the model has", () =>
    Effect.gen(function* () {
      const several = yield* google("us-central1", (client) =>
        client.models.embedContent({ model: "text-embedding-005", contents: ["a", "b"], config: asQuery })
      )
      const batch = { requests: [vectorOf("a"), vectorOf("b")] }
      const made = ours("gemini", "us-central1", geminiBatchEmbed, "text-embedding-005", batch)
      assert.deepStrictEqual([made?.url, made?.body], [several.url, several.body])
      const one = yield* google("us-central1", (client) =>
        client.models.embedContent({ model: "gemini-embedding-2", contents: ["a"], config: asQuery })
      )
      const single = ours("gemini", "us-central1", geminiEmbed, "gemini-embedding-2", {
        ...vectorOf("a"),
        content: one.body.content
      })
      assert.deepStrictEqual([single?.url, single?.body], [one.url, one.body])
      assert.isUndefined(ours("gemini", "us-central1", geminiBatchEmbed, "gemini-embedding-2", batch))
      const image = { content: { parts: [{ inlineData: { mimeType: "image/png", data: "" } }] } }
      assert.isUndefined(ours("gemini", "us-central1", geminiEmbed, "text-embedding-005", image))
    })
  )

  it("of OpenAI's dialect name Google's models by their publisher", () => {
    const body = { messages, model: "x", temperature: 1 }
    for (const [model, sent] of [
      ["gemini-2.5-flash", "google/gemini-2.5-flash"],
      ["meta/llama-4-maverick-17b-128e-instruct-maas", "meta/llama-4-maverick-17b-128e-instruct-maas"]
    ] as const) {
      const made = ours("openai", "us-central1", openAiChat, model, body)
      assert.strictEqual(
        made?.url,
        "https://us-central1-aiplatform.googleapis.com/v1/projects/my-project/locations/us-central1/endpoints/openapi/chat/completions"
      )
      assert.deepStrictEqual(made?.body, { ...body, model: sent })
    }
    assert.isUndefined(ours("openai", "us-central1", openAiEmbeddings, "x", { input: "a", model: "x" }))
  })

  it("stay below the models of the project, whatever a model is called", () => {
    const body = { contents: [{ role: "user", parts: [{ text: "a" }] }], more: 1 }
    const at = (model: string) =>
      ours("gemini", "global", geminiGenerate, model, body)?.url.split("/locations/global/")[1]
    assert.strictEqual(at("endpoints/1234"), "endpoints/1234:generateContent")
    assert.strictEqual(at("publishers/meta/models/llama"), "publishers/meta/models/llama:generateContent")
    assert.strictEqual(at("models/gemini"), "publishers/google/models/gemini:generateContent")
    assert.strictEqual(at("a:b?c#d"), "publishers/google/models/a%3Ab%3Fc%23d:generateContent")
    for (const model of ["..", "../x", "endpoints/..", "endpoints/../../x", "a/b", "", "publishers/a/models/", "."]) {
      assert.isUndefined(at(model), model)
    }
  })

  it("go to a host that names its location, which alone is sent credentials", () => {
    for (const location of locations) {
      const baseUrl = vertexBaseUrl(location)
      assert.strictEqual(vertexLocation(baseUrl), location)
      assert.isUndefined(otherThanHosts({ type: "google" }, new URL(baseUrl)), baseUrl)
    }
    const elsewhere = [
      "https://aiplatform.googleapis.com.example.com",
      "http://aiplatform.googleapis.com",
      "https://us-central1-aiplatform.googleapis.com:8443",
      "https://storage.googleapis.com",
      "https://aiplatform.example.com"
    ]
    for (const baseUrl of elsewhere) assert.isDefined(otherThanHosts({ type: "google" }, new URL(baseUrl)), baseUrl)
    assert.isUndefined(vertexLocation("https://proxy.example.com"))
  })
})
