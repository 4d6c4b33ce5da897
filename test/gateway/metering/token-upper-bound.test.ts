import { assert, describe, it } from "@effect/vitest"
import { type Dialect } from "../../../src/gateway/formats/domain.ts"
import { openAiEmbeddings } from "../../../src/gateway/formats/openai-embeddings/format.ts"
import { imageTokensOf, writtenBytes } from "../../../src/gateway/formats/token-upper-bound.ts"
import { textsOf } from "../../../src/gateway/metering/request-texts.ts"
import { maxDepth } from "../../../src/kernel/json/json-scanner.ts"
import { boundOf, chatFormats, knownModel } from "../../support/formats.ts"

const bound = (dialect: Dialect, body: Record<string, unknown>) => boundOf(chatFormats[dialect], body)

const says = (content: unknown) => ({ model: "m", messages: [{ role: "user", content }] })
const paths = ({ unbounded }: ReturnType<typeof bound>) => unbounded.map(({ path }) => path.join("."))
const base64 = Buffer.alloc(300_000, 7).toString("base64")

const document = (data: string) => [
  { type: "document", source: { type: "base64", media_type: "application/pdf", data } }
]

describe("the bound of a request", () => {
  it("has a token for every byte of text at least, in any writing", () => {
    for (const text of ["plain", "日本語のテキスト", "🌍".repeat(100), '\n\t"\\']) {
      assert.isAtLeast(bound("openai", says(text)).inputTokens, Buffer.byteLength(text))
      assert.isAtLeast(bound("anthropic", says(text)).inputTokens, Buffer.byteLength(text))
    }
  })

  it("has room for numbers that are written without an exponent where they are written anew", () => {
    for (const given of ['{"a":[1e20,-1E20,1.e5]}', '{"arguments":"{\\"a\\":[1e20,1e20]}"}']) {
      const written = JSON.stringify(JSON.parse(given.replace("1.e5", "1e5"))).replaceAll(
        "1e20",
        "100000000000000000000"
      )
      assert.isAtLeast(writtenBytes(Buffer.from(given)), Buffer.byteLength(written))
    }
    assert.strictEqual(writtenBytes(Buffer.from('{"text":"one e, two"}')), 21)
  })

  it("counts an image by what vendors take for one at most, not by its bytes", () => {
    const openai = [{ type: "image_url", image_url: { url: `data:image/png;base64,${base64}` } }]
    const anthropic = [{ type: "image", source: { type: "base64", media_type: "image/png", data: base64 } }]
    const inResult = [{ type: "tool_result", tool_use_id: "t", content: anthropic }]
    for (const [dialect, content] of [
      ["openai", openai],
      ["anthropic", anthropic],
      ["anthropic", inResult]
    ] as const) {
      const { inputTokens } = bound(dialect, says(content))
      assert.isAtLeast(inputTokens, 12_000)
      assert.isAtMost(inputTokens, 13_000)
    }
  })

  it("counts an image by what the dearest of its models takes", () => {
    assert.deepStrictEqual(
      [
        ["gpt-4o", "claude-opus-4-1"],
        ["gpt-4o", "gpt-4o-mini-2024-07-18"]
      ].map((names) => imageTokensOf(names.map((name) => knownModel(name)))),
      [12_000, 48_169]
    )
    const body = says([{ type: "image_url", image_url: { url: "https://example.com/cat.png" } }])
    const dear = boundOf(chatFormats.openai, body, 100, { imageTokens: 48_169 })
    assert.strictEqual(dear.inputTokens - boundOf(chatFormats.openai, body, 100).inputTokens, 48_169 - 12_000)
  })

  it("counts data that is neither image nor document by its bytes", () => {
    const text = [{ type: "document", source: { type: "base64", media_type: "text/plain", data: base64 } }]
    const image = [{ type: "image", source: { type: "base64", media_type: "text/plain", data: base64 } }]
    assert.isAtLeast(bound("anthropic", says(image)).inputTokens, base64.length)
    assert.deepStrictEqual(paths(bound("anthropic", says(text))), ["messages.0.content.0"])
    const file = { file_data: `data:text/plain;base64,${base64}` }
    assert.isAtLeast(bound("openai", says([{ type: "file", file }])).inputTokens, base64.length)
  })

  it("is none for what lies elsewhere in words that nobody knows, or for what is sold otherwise", () => {
    for (const part of [
      { type: "video_url", video_url: { url: "https://example.com/a.mp4" } },
      { type: "audio_url" },
      {}
    ]) {
      assert.deepStrictEqual(paths(bound("openai", says([part]))), ["messages.0.content.0"], JSON.stringify(part))
    }
    assert.deepStrictEqual(paths(bound("openai", says([{ type: "text", text: "Hi" }]))), [])
    for (const member of ["search_parameters", "models", "plugins"]) {
      assert.deepStrictEqual(paths(bound("openai", { ...says("Hi"), [member]: [{}] })), [member])
    }
  })

  it("is found however deeply results are nested, and is none where that is too deep", () => {
    const nested = (times: number): unknown =>
      times === 0 ? "Hi" : [{ type: "tool_result", content: nested(times - 1) }]
    const body = says(nested(maxDepth / 2))
    assert.lengthOf(boundOf(chatFormats.anthropic, body, 1_000_000).unbounded, 1)
    assert.deepStrictEqual(textsOf(body).texts, ["Hi"])
  })

  it("counts a document by the pages that it can have", () => {
    const page = Buffer.alloc(640).toString("base64")
    assert.isAtLeast(bound("anthropic", says(document(page))).inputTokens, 10 * 8000)
    assert.isAtLeast(bound("anthropic", says(document(base64))).inputTokens, 600 * 8000)
    assert.isAtMost(bound("anthropic", says(document(base64))).inputTokens, 600 * 8000 + 1000)
  })

  it("takes the larger of two limits, times the answers asked for, and what a prediction adds", () => {
    const asked = bound("openai", {
      ...says("x"),
      max_tokens: 10,
      max_completion_tokens: 7,
      n: 3,
      prediction: { type: "content", content: "y".repeat(500) }
    })
    assert.strictEqual(asked.askedOutputTokens, 10)
    assert.strictEqual(asked.choices, 3)
    assert.isAtLeast(asked.extraOutputTokens, 500)
    assert.isUndefined(bound("openai", says("x")).askedOutputTokens)
  })

  it("names what has no bound", () => {
    assert.sameMembers(
      paths(
        bound("openai", {
          ...says([{ type: "input_audio" }, { type: "file", file: { file_id: "f" } }]),
          service_tier: "priority",
          web_search_options: {},
          modalities: ["text", "audio"],
          tools: [{ type: "function", function: {} }, { type: "web_search" }]
        })
      ),
      ["messages.0.content.0", "messages.0.content.1", "service_tier", "modalities", "tools.1"]
    )
    assert.sameMembers(
      paths(
        bound("anthropic", {
          ...says([{ type: "document", source: { type: "url", url: "https://example.com/a.pdf" } }]),
          speed: "fast",
          mcp_servers: [{}],
          compaction: { type: "summarize" },
          billing_policy: { type: "billing_policy" },
          tools: [{ name: "f" }, { type: "bash_20250124", name: "bash" }, { type: "advisor_20260301" }]
        })
      ),
      ["messages.0.content.0", "speed", "billing_policy", "mcp_servers.0", "tools.2"]
    )
  })

  it("is what a model can read for what stands elsewhere, or is packed", () => {
    const url = { type: "url", url: "https://example.com/a.pdf" }
    const pdf = `data:application/pdf;base64,${base64}`
    const remote = [
      ["anthropic", { type: "document", source: url }, "fetched"],
      ["anthropic", { type: "document", source: { type: "file", file_id: "file_1" } }, "stored"],
      ["anthropic", document(base64)[0], "stored"],
      [
        "anthropic",
        {
          type: "web_fetch_tool_result",
          content: { type: "web_fetch_result", content: { type: "document", source: url } }
        },
        "fetched"
      ],
      ["openai", { type: "file", file: { file_id: "file_1" } }, "stored"],
      ["openai", { type: "file", file: { file_data: "https://example.com/a.pdf" } }, "fetched"],
      ["openai", { type: "file", file: { file_data: pdf } }, "stored"],
      // Some providers take a PDF for an image, and what is called text may be packed.
      [
        "anthropic",
        { type: "image", source: { type: "base64", media_type: "application/pdf", data: "JVBERi0=" } },
        "stored"
      ],
      ["openai", { type: "file", file: { file_data: "data:text/plain;base64,/w==" } }, "stored"],
      ["openai", { type: "image_url", image_url: { url: pdf } }, "stored"]
    ] as const
    for (const [dialect, part, elsewhere] of remote) {
      const known = boundOf(chatFormats[dialect], says([part]), 100, { contextTokens: 200_000 })
      assert.deepStrictEqual([known.elsewhere, known.unbounded], [elsewhere, []], JSON.stringify(part).slice(0, 200))
      assert.lengthOf(boundOf(chatFormats[dialect], says([part]), 100).unbounded, 1)
    }
  })

  it("names what refers to something, wherever it stands", () => {
    const audio = {
      model: "m",
      messages: [
        { role: "assistant", audio: { id: "audio_1" } },
        { role: "user", content: "Go" }
      ]
    }
    assert.deepStrictEqual(paths(bound("openai", audio)), ["messages.0.audio"])
    const own = {
      model: "m",
      messages: [{ role: "user", content: "Go", id: "m1", video_url: "https://example.com/a" }]
    }
    assert.deepStrictEqual(paths(bound("openai", own)), ["messages.0.video_url"])
    assert.deepStrictEqual(paths(bound("anthropic", says([{ type: "video", source: {} }]))), ["messages.0.content.0"])
    for (const member of ["enable_search", "data_sources", "web_search", "mcpServers", "connectors", "provider"]) {
      assert.deepStrictEqual(paths(bound("openai", { ...says("Hi"), [member]: [{}] })), [member])
      assert.deepStrictEqual(paths(bound("openai", { ...says("Hi"), [member]: null })), [])
    }
    const image = { model: "m", input: ["a", { image: "https://example.com/a.png" }] }
    assert.deepStrictEqual(paths(boundOf(openAiEmbeddings, image, 100)), ["input.1"])
  })

  it("has a compaction read and write as much again", () => {
    const body = { ...says("Hi"), max_tokens: 50 }
    const once = bound("anthropic", body)
    const twice = boundOf(
      chatFormats.anthropic,
      { ...body, context_management: { edits: [{ type: "compact_20260112" }] } },
      Buffer.byteLength(JSON.stringify(body))
    )
    assert.deepStrictEqual([twice.inputTokens, twice.readings, twice.choices], [once.inputTokens, 2, 2])
    assert.isEmpty(twice.unbounded)
    assert.strictEqual(bound("anthropic", { ...body, compaction: { type: "summarize" } }).readings, 2)
  })

  it("bounds embeddings by their bytes, and token lists by their length", () => {
    for (const input of ["日本語", ["a", "b"], [1, 2, 3], [[1, 2], [3]]]) {
      const body = { model: "m", input }
      assert.isAtLeast(boundOf(openAiEmbeddings, body).inputTokens, input.length)
    }
  })
})
