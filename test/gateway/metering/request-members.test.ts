import { assert, describe, it as plain, layer } from "@effect/vitest"
import { Effect } from "effect"
import { anthropicMessages } from "../../../src/gateway/formats/anthropic-messages/format.ts"
import { type BoundTerms, type WireFormat } from "../../../src/gateway/formats/format.ts"
import { openAiChat } from "../../../src/gateway/formats/openai-chat/format.ts"
import { openAiCompletions } from "../../../src/gateway/formats/openai-completions/format.ts"
import { openAiEmbeddings } from "../../../src/gateway/formats/openai-embeddings/format.ts"
import { openAiResponses } from "../../../src/gateway/formats/openai-responses/format.ts"
import { noTraits } from "../../../src/gateway/formats/traits-domain.ts"
import { boundOf, knownModel } from "../../support/formats.ts"
import { configure, model, prices, provider, spender } from "../../support/gateway.ts"
import { type Answerer, json, startProvider } from "../../support/provider.ts"
import { sharedServiceLayer, TestService } from "../../support/service.ts"

const messages = [{ role: "user", content: "Hi" }]
const requests: Readonly<Record<string, readonly [WireFormat, object]>> = {
  chat: [openAiChat, { messages }],
  messages: [anthropicMessages, { messages, max_tokens: 10 }],
  responses: [openAiResponses, { input: "Hi" }],
  completions: [openAiCompletions, { prompt: "Hi" }],
  embeddings: [openAiEmbeddings, { input: "Hi" }]
}
const bounded = (name: string, members: object, terms: Partial<BoundTerms> = {}) => {
  const [format, body] = requests[name] ?? assert.fail(name)
  const given = { model: "m", ...body, ...members }
  return boundOf(format, given, Buffer.byteLength(JSON.stringify(given)), { contextTokens: 100_000, ...terms })
}
const refused = (name: string, members: object, terms: Partial<BoundTerms> = {}) =>
  bounded(name, members, terms).unbounded.map(({ path }) => path.join("."))

const tool = (description: string) => ({ type: "function", function: { name: "a", description } })
const nameOf = (place: string) => (/chat/.test(place) ? "chat" : "responses")
const image = (source: object) => ({ messages: [{ role: "user", content: [{ type: "image", source }] }] })
const elsewhereOf = (source: object) => bounded("messages", image(source)).elsewhere

/** Whether a model of this name has a bound. */
const hasBound = (name: string, isListed: boolean) =>
  bounded("chat", {}, { models: [knownModel(name)] }).unbounded.every(
    ({ isBoundedAt }) => isBoundedAt?.({ isListed, provider: { vendor: undefined }, traits: noTraits }) === true
  )

describe("the members of a request", () => {
  plain("have no bound in any format unless they are known to", () => {
    const others = {
      n_predict: 100_000,
      max_new_tokens: 100_000,
      options: { num_predict: 100_000 },
      generationConfig: { maxOutputTokens: 100_000 },
      num_return_sequences: 50,
      context_window_fallbacks: ["m2"],
      num_retries: 9,
      api_base: "https://elsewhere.test",
      user_config: {},
      chat_template: "{{ messages }}",
      documents: [{ text: "a" }],
      file_urls: ["https://elsewhere.test/a"],
      google: { cached_content: "a" },
      prompt_embeds: "a",
      search_parameters: {},
      plugins: [{ id: "web" }],
      providerOptions: {},
      models: ["m2"],
      use_beam_search: true,
      deep_thought: false
    }
    for (const name of Object.keys(requests)) {
      for (const [member, value] of Object.entries(others)) {
        assert.deepStrictEqual(refused(name, { [member]: value }), [member], name)
        assert.isEmpty(refused(name, { [member]: null }), name)
      }
    }
    const only = [
      ["messages", "web_search_options"],
      ["responses", "web_search_options"],
      ["responses", "mcp_servers"],
      ["embeddings", "mcp_servers"],
      ["embeddings", "web_search_options"],
      ["messages", "n"],
      ["chat", "max_output_tokens"],
      ["responses", "max_tokens"]
    ] as const
    for (const [name, member] of only) assert.include(refused(name, { [member]: {} }), member, name)
  })

  plain("count thoughts that have a budget of their own", () => {
    const extra = (members: object) => bounded("chat", members).extraOutputTokens
    assert.strictEqual(extra({ max_tokens: 10, thinking: { type: "enabled", budget_tokens: 500 } }), 500)
    assert.strictEqual(extra({ max_tokens: 1000, reasoning: { max_tokens: 500 } }), 0)
    assert.strictEqual(
      bounded("responses", { max_output_tokens: 10, reasoning: { max_tokens: 500 } }).extraOutputTokens,
      500
    )
    assert.strictEqual(extra({ max_tokens: 1000, n: 2, enable_thinking: true, thinking_budget: 300 }), 600)
    assert.deepStrictEqual(refused("chat", { enable_thinking: true }), ["enable_thinking"])
    assert.isEmpty(refused("chat", { enable_thinking: false }))
    assert.isEmpty(refused("chat", { chat_template_kwargs: { enable_thinking: false } }))
    assert.isNotEmpty(refused("chat", { chat_template_kwargs: { context: "a" } }))
  })

  plain("have no bound where a limit of zero may be none", () => {
    assert.deepStrictEqual(refused("completions", { max_tokens: 0 }), ["max_tokens"])
    assert.deepStrictEqual(refused("messages", { max_tokens: 0 }), ["max_tokens"])
    assert.isUndefined(bounded("responses", { tools: [{ type: "web_search" }], max_tool_calls: 0 }).tools?.maxCalls)
    const search = { type: "web_search_20250305", name: "web_search", max_uses: 0 }
    assert.isUndefined(bounded("messages", { tools: [search] }).tools?.tools[0]?.maxUses)
  })

  plain("are read as tools and texts in no other form than the documented one", () => {
    for (const tools of [{ google_search: {} }, ["web_search"], [[{ type: "web_search" }]], "web_search"]) {
      for (const name of ["chat", "messages", "responses"]) assert.isNotEmpty(refused(name, { tools }), name)
    }
    for (const extra of ["google_search", "url_context", "retrieval"]) {
      assert.include(refused("chat", { tools: [{ name: "x", [extra]: {} }] }), `tools.0.${extra}`)
      assert.include(refused("messages", { tools: [{ name: "x", [extra]: {} }] }), `tools.0.${extra}`)
      assert.include(
        refused("responses", { tools: [{ type: "function", name: "x", [extra]: {} }] }),
        `tools.0.${extra}`
      )
    }
    const said = (name: string, content: unknown) => refused(name, { messages: [{ role: "user", content }] })
    for (const name of ["chat", "messages"]) {
      assert.isNotEmpty(said(name, [[{ type: "text", text: "Hi" }]]))
      assert.isNotEmpty(said(name, [{ type: "text", text: "Hi", video_url: { url: "https://elsewhere.test/a" } }]))
      assert.isNotEmpty(
        refused(name, { messages: [{ role: "user", content: "Hi", video: "https://elsewhere.test/a" }] })
      )
      assert.isEmpty(said(name, [{ type: "text", text: "Hi", image_url: null }]))
    }
    assert.isNotEmpty(refused("completions", { prompt: [{ prompt_embeds: "a" }] }))
    assert.isNotEmpty(refused("completions", { prompt: [["a", {}]] }))
    assert.isNotEmpty(refused("embeddings", { input: [[{ image: "https://elsewhere.test/a" }]] }))
    assert.isNotEmpty(refused("responses", { input: [[{ type: "input_file", file_id: "f" }]] }))
    assert.strictEqual(
      bounded("responses", { instructions: [{ type: "input_file", file_id: "f" }] }).elsewhere,
      "stored"
    )
  })

  plain("count what a provider writes again in longer JSON", () => {
    for (const [given, written] of [
      ["<&>'", 24],
      ["日本", 12],
      ["é", 6],
      ["🌍", 12]
    ] as const) {
      const text = given.repeat(1000)
      const least = written * 1000
      assert.isAtLeast(bounded("chat", { tools: [tool(text)] }).inputTokens, least)
      const call = { id: "c", type: "function", function: { name: "a", arguments: JSON.stringify({ a: text }) } }
      assert.isAtLeast(bounded("chat", { messages: [{ role: "assistant", tool_calls: [call] }] }).inputTokens, least)
      const use = { type: "tool_use", id: "c", name: "a", input: { a: text } }
      assert.isAtLeast(bounded("messages", { messages: [{ role: "assistant", content: [use] }] }).inputTokens, least)
      const item = { type: "function_call", call_id: "c", name: "a", arguments: text }
      assert.isAtLeast(bounded("responses", { input: [item] }).inputTokens, least)
    }
  })
})

describe("what is in the place of an image", () => {
  const places: Readonly<Record<string, (url: string) => object>> = {
    "a chat's": (url) => ({ messages: [{ role: "user", content: [{ type: "image_url", image_url: { url } }] }] }),
    "a chat's text": (url) => ({ messages: [{ role: "user", content: [{ type: "image_url", image_url: url }] }] }),
    "a response's": (url) => ({ input: [{ role: "user", content: [{ type: "input_image", image_url: url }] }] }),
    "a tool's": (url) => ({
      input: [{ type: "function_call_output", call_id: "c", output: [{ type: "input_image", image_url: url }] }]
    })
  }
  plain("is one where its data says so, in any case", () => {
    for (const [place, write] of Object.entries(places)) {
      for (const url of [
        "data:image/png;base64,AAAA",
        "DATA:Image/JPEG;base64,AAAA",
        "data:image/webp;a=b;base64,AAAA"
      ]) {
        const { elsewhere, mediaTokens } = bounded(nameOf(place), write(url))
        assert.deepStrictEqual([elsewhere, mediaTokens], [undefined, 12_000], `${place} ${url}`)
      }
      for (const url of [
        "data:Application/PDF;base64,AAAA",
        "DATA:application/pdf;base64,AAAA",
        "data:application/pdf ;base64,AAAA",
        "data:;base64,AAAA",
        "data:video/mp4;base64,AAAA",
        "data:application/zip;base64,AAAA",
        "data:image/svg+xml;base64,AAAA",
        "data:image/png;base64,JVBERi0xLjc=",
        "data:image/png;base64,UEsDBBQ=",
        "data:image/png-pdf;base64,AAAA"
      ]) {
        assert.strictEqual(bounded(nameOf(place), write(url)).elsewhere, "stored", `${place} ${url}`)
      }
      for (const url of [" data:image/png;base64,AAAA", "gs://b/a.mp4", "ms://file-1", "file:///etc/a", "s3://b/a"]) {
        assert.strictEqual(bounded(nameOf(place), write(url)).elsewhere, "fetched", `${place} ${url}`)
      }
      assert.strictEqual(bounded(nameOf(place), write("https://a.test/a.pdf")).elsewhere, "image")
    }
    for (const media_type of ["Application/PDF", "video/mp4", "image/tiff", undefined]) {
      assert.strictEqual(elsewhereOf({ type: "base64", media_type, data: "AAAA" }), "stored", media_type)
    }
    assert.strictEqual(elsewhereOf({ type: "url", url: "https://a.test/a.pdf" }), "image")
    assert.strictEqual(elsewhereOf({ type: "url", url: "gs://b/a.mp4" }), "fetched")
    assert.strictEqual(elsewhereOf({ type: "other" }), "fetched")
    assert.strictEqual(elsewhereOf({ type: "base64", media_type: "image/png", data: "JVBERi0=" }), "stored")
    assert.isUndefined(elsewhereOf({ type: "base64", media_type: "IMAGE/PNG", data: "AAAA" }))
  })

  plain("is a document where the part says so beside the address", () => {
    const part = { type: "image_url", image_url: { url: "https://a.test/a", format: "application/pdf" } }
    assert.strictEqual(bounded("chat", { messages: [{ role: "user", content: [part] }] }).elsewhere, "fetched")
    const file = { file_data: "data:text/plain,Hi", file_id: "file_1" }
    const both = { messages: [{ role: "user", content: [{ type: "file", file }] }] }
    assert.strictEqual(bounded("chat", both).elsewhere, "stored")
    assert.strictEqual(
      bounded("responses", { input: [{ role: "user", content: [{ type: "input_file", ...file }] }] }).elsewhere,
      "stored"
    )
  })

  plain("may be a text that names a stored file", () => {
    for (const content of ["fileid://file-fe-abc", " FILEID://a,fileid://b", "ms://file-1"]) {
      assert.strictEqual(bounded("chat", { messages: [{ role: "system", content }] }).elsewhere, "fetched")
      assert.strictEqual(bounded("messages", { system: content }).elsewhere, "fetched")
      assert.strictEqual(bounded("messages", { system: [{ type: "text", text: content }] }).elsewhere, "fetched")
      assert.strictEqual(bounded("responses", { instructions: content }).elsewhere, "fetched")
      assert.strictEqual(bounded("responses", { input: [{ role: "user", content }] }).elsewhere, "fetched")
      assert.strictEqual(bounded("completions", { prompt: ["a", content] }).elsewhere, "fetched")
    }
    assert.isUndefined(bounded("chat", { messages: [{ role: "user", content: "What is fileid://a?" }] }).elsewhere)
  })
})

describe("the name of a model", () => {
  plain("has no bound where it searches by itself or is a preset, in any case and place", () => {
    for (const name of [
      "openai/gpt-4o:Online",
      "openai/gpt-4o:online:nitro",
      "perplexity/Sonar-pro",
      "openai/o3-Deep-Research",
      "groq/Compound",
      "@preset/foo",
      "x@preset/foo",
      "X@Preset/foo"
    ]) {
      assert.isFalse(hasBound(name, true), name)
    }
    assert.isTrue(bounded("chat", {}, { models: [knownModel("gpt-4o-Search-preview")] }).tools?.searchesOnce)
    assert.deepStrictEqual(refused("embeddings", {}, { models: [knownModel("x@preset/foo")] }), ["model"])
  })

  plain("has no bound where it chooses others, unless an operator listed it", () => {
    for (const name of ["openrouter/auto", "auto", "x/model-router", "openai/gpt-4o:unheard-of", "a:nitro:tools"]) {
      assert.isFalse(hasBound(name, false), name)
      assert.isTrue(hasBound(name, true), name)
    }
    for (const name of [
      "openai/gpt-4o:free",
      "a/b:nitro",
      "qwen3:30b-a3b",
      "anthropic.claude-v1:0",
      "ft:gpt-4o:org::id",
      "autoglm"
    ]) {
      assert.isTrue(hasBound(name, false), name)
    }
  })
})

/** Takes any request. */
const lenient: Answerer = (_, response) =>
  json(response, 200, {
    id: "c",
    object: "chat.completion",
    choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }],
    usage: { prompt_tokens: 10, completion_tokens: 1, total_tokens: 11 }
  })

layer(sharedServiceLayer, { excludeTestServices: true, timeout: "60 seconds" })("under a hard cap", (it) => {
  it.effect("an operator allows members of a provider, which are 403 elsewhere", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(lenient)
      const open = provider("open", standIn, { requestMembers: ["guardrails"] })
      yield* configure(
        service,
        [open, provider("closed", standIn)],
        [model("one", ["open"]), model("other", ["closed"]), model("both", ["open", "closed"])]
      )
      const { key } = yield* spender(service, [{ limit: 1 }])
      const send = (name: string, members: object) =>
        service.call("POST", "/v1/chat/completions", {
          key,
          body: { model: name, messages, max_tokens: 10, ...members }
        })
      assert.strictEqual((yield* send("one", { guardrails: [{}] })).status, 200)
      for (const [name, member] of [
        ["one", "n_predict"],
        ["other", "guardrails"],
        ["both", "guardrails"]
      ] as const) {
        const { body, status } = yield* send(name, { [member]: [{}] })
        assert.deepStrictEqual([status, body.error.code, body.error.param], [403, "cost_unbounded", member])
        assert.include(body.error.message, "`requestMembers`")
      }
      const { key: soft } = yield* spender(service, [{ limit: 1, mode: "soft" }])
      const answer = yield* service.call("POST", "/v1/chat/completions", {
        key: soft,
        body: { model: "other", messages, n_predict: 5 }
      })
      assert.strictEqual(answer.status, 200, answer.text)
    }).pipe(Effect.scoped)
  )

  it.effect("an image's address is one where the vendor takes nothing else, and the whole context elsewhere", () =>
    Effect.gen(function* () {
      const service = yield* TestService
      const standIn = yield* startProvider(lenient)
      const known = { prices, contextTokens: 100_000 }
      yield* configure(
        service,
        [provider("openai", standIn), provider("any", standIn)],
        [
          model("one", ["openai"]),
          model("other", ["any"]),
          model("known", ["any"], known),
          model("mixed", ["openai", "any"], known)
        ]
      )
      const { key } = yield* spender(service, [{ unit: "tokens", limit: 20_000 }])
      const content = [{ type: "image_url", image_url: { url: "https://example.com/cat.png" } }]
      const codes = yield* Effect.forEach(["one", "other", "known", "mixed"], (name) => {
        const body = { model: name, max_tokens: 10, messages: [{ role: "user", content }] }
        return Effect.map(
          service.call("POST", "/v1/chat/completions", { key, body }),
          (answer) => answer.body.error?.code ?? answer.status
        )
      })
      assert.deepStrictEqual(codes, [200, "cost_unbounded", "request_exceeds_budget", "request_exceeds_budget"])
    }).pipe(Effect.scoped)
  )
})
