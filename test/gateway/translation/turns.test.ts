import { assert, describe, it } from "@effect/vitest"
import { anthropicMessages } from "../../../src/gateway/formats/anthropic-messages/format.ts"
import { geminiGenerate } from "../../../src/gateway/formats/gemini/format.ts"
import { openAiChat } from "../../../src/gateway/formats/openai-chat/format.ts"
import { commonFormat } from "../../../src/gateway/formats/openai-responses/common-format.ts"
import { chatOf } from "../../../src/gateway/wire/native/translation.ts"
import { knownModel } from "../../support/formats.ts"
import { refusal, translated } from "../../support/translations.ts"

// oxlint-disable-next-line typescript/no-explicit-any -- bodies of every format
type Any = any

const user = (content: unknown) => ({ role: "user", content })
const called = (...ids: ReadonlyArray<string>) => ({
  role: "assistant",
  content: null,
  tool_calls: ids.map((id) => ({ id, type: "function", function: { name: `f_${id.slice(0, 1)}`, arguments: "{}" } }))
})
const result = (id: string, content: unknown = `of ${id}`) => ({ role: "tool", tool_call_id: id, content })
const tools = [{ type: "function", function: { name: "f", parameters: { type: "object" } } }]
const chat = (messages: ReadonlyArray<object>, members: object = {}) => ({ model: "m", messages, tools, ...members })

const interrupted = "Interrupted: there is no result."

/** What a conversation becomes: each turn's blocks, by what they are and say. */
const anthropicTurns = (messages: ReadonlyArray<object>) => {
  const { body } = translated(chat(messages), openAiChat, "anthropic")
  return body.messages.map(({ content }: Any) =>
    content.map(({ content: inner, id, text, tool_use_id, type }: Any) =>
      type === "tool_result" ? `${tool_use_id}: ${inner[0]?.text}` : (id ?? text)
    )
  )
}
const chatTurns = (messages: ReadonlyArray<object>) => {
  const { body } = translated(chat(messages), commonFormat, "openai")
  return body.messages.map(({ content, role, tool_call_id, tool_calls }: Any) =>
    role === "tool"
      ? `${tool_call_id}: ${content}`
      : [content, ...(tool_calls ?? []).map(({ id }: Any) => id)]
          .flat()
          .filter(Boolean)
          .map((one: Any) => one.text ?? one)
          .join(" ")
  )
}

describe("calls and their results", () => {
  const cases: Readonly<Record<string, readonly [given: ReadonlyArray<object>, anthropic: Any, chat: Any]>> = {
    "a call without a result, before what the user says": [
      [user("a"), called("x"), user("stop")],
      [["a"], ["x"], [`x: ${interrupted}`, "stop"]],
      ["a", "x", `x: ${interrupted}`, "stop"]
    ],
    "a call without a result at the end": [
      [user("a"), called("x")],
      [["a"], ["x"], [`x: ${interrupted}`]],
      ["a", "x", `x: ${interrupted}`]
    ],
    "one of three calls without a result": [
      [user("a"), called("x", "y", "z"), result("z"), result("x")],
      [["a"], ["x", "y", "z"], ["x: of x", `y: ${interrupted}`, "z: of z"]],
      ["a", "x y z", "x: of x", `y: ${interrupted}`, "z: of z"]
    ],
    "what the user says between results": [
      [user("a"), called("x", "y"), result("x"), user("b"), result("y")],
      [["a"], ["x", "y"], ["x: of x", "y: of y", "b"]],
      ["a", "x y", "x: of x", "y: of y", "b"]
    ],
    "instructions between a call and its result": [
      [user("a"), called("x"), { role: "system", content: "s" }, result("x")],
      [["a"], ["x"], ["x: of x"]],
      ["a", "x", "x: of x", "s"]
    ],
    "a result without a call": [
      [user("a"), result("gone"), user("b")],
      [["a", "The result of the missing call gone:", "of gone", "b"]],
      ["a", "The result of the missing call gone: of gone", "b"]
    ],
    "two results of one call": [
      [user("a"), called("x"), result("x"), result("x", "again"), user("b")],
      [["a"], ["x"], ["x: of x", "The result of the missing call x:", "again", "b"]],
      ["a", "x", "x: of x", "The result of the missing call x: again", "b"]
    ],
    "an id that comes again": [
      [user("a"), called("x"), called("x"), result("x"), user("b"), called("x"), result("x", "third")],
      [["a"], ["x", "x_2"], ["x: of x", `x_2: ${interrupted}`, "b"], ["x_3"], ["x_3: third"]],
      ["a", "x x_2", "x: of x", `x_2: ${interrupted}`, "b", "x", "x: third"]
    ],
    "words of the model after its calls": [
      [user("a"), called("x"), { role: "assistant", content: "w" }, result("x")],
      [["a"], ["x", "w"], ["x: of x"]],
      ["a", "w x", "x: of x"]
    ],
    "a conversation that the model begins": [
      [called("x"), result("x"), user("b")],
      [["Begin."], ["x"], ["x: of x", "b"]],
      ["x", "x: of x", "b"]
    ]
  }

  for (const [name, [given, anthropic, openai]] of Object.entries(cases)) {
    it(`are in the order that providers demand: ${name}`, () => {
      assert.deepStrictEqual(anthropicTurns(given), anthropic)
      assert.deepStrictEqual(chatTurns(given), openai)
      const { body } = translated(chat(given), openAiChat, "gemini")
      let open = 0
      for (const [index, { parts, role }] of body.contents.entries()) {
        assert.strictEqual(role, index % 2 === 0 ? "user" : "model", name)
        const results = parts.filter((part: Any) => part.functionResponse).length
        assert.strictEqual(results, open)
        open = parts.filter((part: Any) => part.functionCall).length
      }
      assert.strictEqual(open, 0)
    })
  }

  it("are restored in a native request, and in one of Gemini's callers", () => {
    const native = chatOf({
      model: "m",
      messages: [
        { role: "user", content: "a" },
        { role: "assistant", toolCalls: [{ id: "x", name: "f", arguments: {} }] },
        { role: "user", content: "b" }
      ]
    })
    const { body } = translated(native, openAiChat, "openai")
    assert.deepStrictEqual(body.messages[2], { role: "tool", tool_call_id: "x", content: interrupted })
    const contents = [
      { role: "user", parts: [{ text: "a" }] },
      { role: "model", parts: [{ functionCall: { name: "f", args: {} } }] },
      { role: "user", parts: [{ text: "b" }] }
    ]
    for (const to of ["anthropic", "openai"] as const) {
      const sent = translated({ contents }, geminiGenerate, to)
      assert.include(JSON.stringify(sent.body.messages), interrupted)
    }
  })

  it("are restored for a client of messages that has shortened its history", () => {
    const results = [
      { type: "tool_result", tool_use_id: "gone", content: "of gone" },
      { type: "text", text: "b" }
    ]
    const given = {
      model: "m",
      max_tokens: 9,
      messages: [user("a"), { role: "assistant", content: "w" }, user(results)]
    }
    const { body } = translated(given, anthropicMessages, "openai")
    assert.deepStrictEqual(
      body.messages.map(({ role }: Any) => role),
      ["user", "assistant", "user", "user"]
    )
  })
})

const cut = (text: string) => ({
  role: "assistant",
  content: null,
  tool_calls: [{ id: "x", type: "function", function: { name: "f", arguments: text } }]
})

describe("a call that was cut", () => {
  const texts = ['{"city":"Par', "[1]", "null", "not json"]
  for (const text of texts) {
    it(`goes back with its text: ${text}`, () => {
      const messages = [user("a"), cut(text), result("x"), user("b")]
      const expected = { _invalid_arguments: text }
      const anthropic = translated(chat(messages), openAiChat, "anthropic")
      assert.deepStrictEqual(anthropic.body.messages[1].content[0].input, expected)
      const gemini = translated(chat(messages), openAiChat, "gemini")
      assert.deepStrictEqual(gemini.body.contents[1].parts[0].functionCall.args, expected)
      // Servers that write a prompt from a template parse arguments, too.
      const openai = translated(chat(messages), commonFormat, "openai")
      assert.deepStrictEqual(JSON.parse(openai.body.messages[1].tool_calls[0].function.arguments), expected)
    })
  }

  it("is an object for clients of messages and of Gemini's, which send it back", () => {
    const message = { ...cut(texts[0]!), role: "assistant" }
    const completion = { choices: [{ index: 0, message, finish_reason: "length" }] }
    const head = { model: "m", id: "made", createdSeconds: 0 }
    const usage = openAiChat.usageIn({ usage: { prompt_tokens: 1, completion_tokens: 1 } })!
    const answer: Any = anthropicMessages.translation!.answerFromCommon!(completion, head, usage)
    const given = {
      model: "m",
      max_tokens: 9,
      messages: [user("a"), { role: "assistant", content: answer.content }, user("b")]
    }
    const { body } = translated(given, anthropicMessages, "openai")
    assert.deepStrictEqual(JSON.parse(body.messages[1].tool_calls[0].function.arguments), {
      _invalid_arguments: texts[0]
    })
    const google: Any = geminiGenerate.translation!.answerFromCommon!(completion, head, usage)
    const contents = [{ role: "user", parts: [{ text: "a" }] }, google.candidates[0].content]
    const back = translated({ contents }, geminiGenerate, "anthropic")
    assert.deepStrictEqual(back.body.messages[1].content[0].input, { _invalid_arguments: texts[0] })
  })
})

describe("what a provider's own tools did", () => {
  const blocks = [
    { type: "server_tool_use", id: "s", name: "web_search", input: { query: "q" } },
    { type: "web_search_tool_result", tool_use_id: "s", content: [] },
    { type: "mcp_tool_use", id: "m", name: "f", server_name: "s", input: {} },
    { type: "mcp_tool_result", tool_use_id: "m", content: [{ type: "text", text: "1" }] },
    { type: "bash_code_execution_tool_result", tool_use_id: "b", content: { type: "bash_code_execution_result" } }
  ]
  const names = blocks.map(({ type }) => type).join(", ")

  for (const to of ["openai", "gemini"] as const) {
    for (const role of ["assistant", "user"] as const) {
      it(`is left out for ${to} and named, in a turn of the ${role}`, () => {
        const messages = [user("a"), { role, content: [...blocks, { type: "text", text: "b" }] }, user("c")]
        const { body, omitted } = translated({ model: "m", max_tokens: 9, messages }, anthropicMessages, to)
        assert.notInclude(JSON.stringify(body), "tool_result")
        assert.deepStrictEqual(omitted, { "x-omitted-items": names })
      })
    }
  }

  it("is named for callers of Gemini's API", () => {
    const contents = [
      { role: "user", parts: [{ text: "a" }] },
      {
        role: "model",
        parts: [{ executableCode: { code: "1" } }, { codeExecutionResult: { output: "1" } }, { text: "b" }]
      },
      { role: "user", parts: [{ text: "c" }] }
    ]
    const { omitted } = translated({ contents }, geminiGenerate, "anthropic")
    assert.deepStrictEqual(omitted, { "x-omitted-items": "executableCode, codeExecutionResult" })
  })

  it("is named by no more than a header takes", () => {
    const odd = Array.from({ length: 100 }, (_, index) => ({ type: `x${index}` }))
    const messages = [
      user("a"),
      { role: "assistant", content: [{ type: "é\r\nx: y" }, ...odd, { type: "text", text: "b" }] }
    ]
    const { omitted } = translated({ model: "m", max_tokens: 9, messages }, anthropicMessages, "openai")
    const listed = omitted["x-omitted-items"]?.split(", ") ?? []
    assert.deepStrictEqual([listed[0], listed.length], ["unknown", 30])
  })
})

describe("members without a form", () => {
  it("are named", () => {
    const members = {
      seed: 1,
      frequency_penalty: 0.5,
      logit_bias: { 5: 1 },
      verbosity: "low",
      metadata: {},
      store: null
    }
    const anthropic = translated(chat([user("a")], members), openAiChat, "anthropic")
    assert.deepStrictEqual(anthropic.omitted, { "x-omitted-members": "logit_bias, verbosity, seed, frequency_penalty" })
    const gemini = translated(chat([user("a")], { ...members, user: "u" }), openAiChat, "gemini")
    assert.deepStrictEqual(gemini.omitted, { "x-omitted-members": "logit_bias, verbosity, user" })
    const given = { model: "m", max_tokens: 9, messages: [user("a")], top_k: 5, service_tier: "auto" }
    const openai = translated(given, anthropicMessages, "openai")
    assert.deepStrictEqual(openai.omitted, { "x-omitted-members": "top_k, service_tier" })
    const safe = { contents: [{ role: "user", parts: [{ text: "a" }] }], safety_settings: [{ category: "X" }] }
    assert.deepStrictEqual(translated(safe, geminiGenerate, "openai").omitted, {
      "x-omitted-members": "safetySettings"
    })
  })
})

describe("marks of the prompt cache", () => {
  const mark = { type: "ephemeral" }
  const hour = { type: "ephemeral", ttl: "1h" }
  const marked = (text: string, cache_control: object = mark) => [{ type: "text", text, cache_control }]

  it("reach Anthropic from parts, messages, results and tools of a chat completion", () => {
    const given = {
      model: "m",
      messages: [
        { role: "system", content: marked("s", hour) },
        { ...user("a"), cache_control: mark },
        called("x"),
        result("x", marked("r"))
      ],
      tools: [{ ...tools[0], cache_control: hour }]
    }
    const { body, omitted } = translated(given, openAiChat, "anthropic")
    assert.deepStrictEqual(body.tools[0].cache_control, hour)
    assert.deepStrictEqual(body.system, marked("s", hour))
    assert.deepStrictEqual(body.messages[0].content, marked("a"))
    assert.deepStrictEqual(body.messages[2].content[0].cache_control, mark)
    assert.isUndefined(body.messages[2].content[0].content[0].cache_control)
    assert.deepStrictEqual(omitted, {})
  })

  it("are the last four, where there are more, of which the others are named", () => {
    const messages = ["a", "b", "c", "d", "e", "f"].map((text) => user(marked(text)))
    const { body, omitted } = translated(chat(messages), openAiChat, "anthropic")
    assert.deepStrictEqual(
      body.messages[0].content.map((block: Any) => block.cache_control),
      [undefined, undefined, mark, mark, mark, mark]
    )
    assert.deepStrictEqual(omitted, { "x-omitted-members": "cache_control" })
  })

  it("reach servers in front of Claude from messages, and no vendor that refuses them", () => {
    const given = {
      model: "m",
      max_tokens: 9,
      system: marked("s"),
      messages: [
        user(marked("a")),
        { role: "assistant", content: [{ type: "tool_use", id: "x", name: "f", input: {} }] },
        user([{ type: "tool_result", tool_use_id: "x", content: "r", cache_control: hour }])
      ],
      tools: [{ name: "f", input_schema: { type: "object" }, cache_control: mark }]
    }
    for (const destination of [{ vendor: "openrouter" }, { model: "anthropic/claude-sonnet-4.5" }]) {
      const { body, omitted } = translated(given, anthropicMessages, "openai", destination)
      assert.deepStrictEqual(body.messages[0].content, marked("s"))
      assert.deepStrictEqual(body.messages[1].content, marked("a"))
      assert.deepStrictEqual(body.messages[3].content, marked("r", hour))
      assert.deepStrictEqual(body.tools[0].cache_control, mark)
      assert.deepStrictEqual(omitted, {})
    }
    for (const to of ["openai", "gemini"] as const) {
      const { body, omitted } = translated(given, anthropicMessages, to)
      assert.notInclude(JSON.stringify(body), "cache_control")
      assert.deepStrictEqual(omitted, { "x-omitted-members": "cache_control" })
      if (to === "openai") assert.strictEqual(body.messages[0].content, "s")
    }
  })

  it("are those of a whole request, too, and no other values", () => {
    const { body } = translated(chat([user("a"), user("b")], { cache_control: hour }), openAiChat, "anthropic")
    assert.deepStrictEqual(body.messages[0].content, [{ type: "text", text: "a" }, ...marked("b", hour)])
    const odd = translated(chat([user(marked("a", { type: "persistent", ttl: 5 }))]), openAiChat, "anthropic")
    assert.deepStrictEqual(odd.body.messages[0].content, [{ type: "text", text: "a" }])
  })
})

const blocks = (given: object) => translated(chat([user([given])]), openAiChat, "anthropic").body.messages[0].content

describe("documents", () => {
  const pdf = "data:application/pdf;base64,JVBERi0="
  const notes = `data:text/markdown;charset=utf-8;base64,${Buffer.from("# Grüße").toString("base64")}`
  const part = {
    pdfAsImage: { type: "image_url", image_url: { url: pdf } },
    textAsImage: { type: "image_url", image_url: { url: notes } },
    pdf: { type: "file", file: { filename: "a.pdf", file_data: pdf } },
    text: { type: "file", file: { filename: "a.md", file_data: notes } },
    url: { type: "file", file: { filename: "a.pdf", file_url: "https://example.com/a.pdf" } },
    imageAsFile: { type: "file", file: { filename: "a.png", file_data: "data:image/png;base64,iVBORw0=" } }
  }
  it("reach Anthropic as documents, whatever member they are in", () => {
    const source = { type: "base64", media_type: "application/pdf", data: "JVBERi0=" }
    const text = { type: "text", media_type: "text/plain", data: "# Grüße" }
    assert.deepStrictEqual(blocks(part.pdfAsImage), [{ type: "document", source }])
    assert.deepStrictEqual(blocks(part.textAsImage), [{ type: "document", source: text }])
    assert.deepStrictEqual(blocks(part.pdf), [{ type: "document", source, title: "a.pdf" }])
    assert.deepStrictEqual(blocks(part.text), [{ type: "document", source: text, title: "a.md" }])
    const url = { type: "url", url: "https://example.com/a.pdf" }
    assert.deepStrictEqual(blocks(part.url), [{ type: "document", source: url, title: "a.pdf" }])
    assert.strictEqual(blocks(part.imageAsFile)[0].type, "image")
  })

  it("reach chat providers as texts and images, or are refused by their place", () => {
    const given = chat([user([part.text, part.imageAsFile, part.pdf])])
    const { body } = translated(given, commonFormat, "openai")
    assert.deepStrictEqual(body.messages[0].content, [
      { type: "text", text: "a.md\n\n# Grüße" },
      { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0=" } },
      part.pdf
    ])
    assert.include(refusal(chat([user([part.url])]), commonFormat, "openai"), "messages.0.content.0.file.file_url")
    assert.include(refusal(chat([user([part.url])]), openAiChat, "gemini"), "messages.0.content.0")
  })

  it("of Anthropic's kinds reach other providers", () => {
    const documents = [
      { type: "document", title: "T", context: "C", source: { type: "text", media_type: "text/plain", data: "words" } },
      { type: "document", source: { type: "content", content: "plain" } },
      {
        type: "document",
        title: "P",
        source: {
          type: "content",
          content: [
            { type: "text", text: "one" },
            { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw0=" } }
          ]
        }
      },
      { type: "search_result", source: "https://example.com", title: "R", content: [{ type: "text", text: "found" }] }
    ]
    const expected = ["T\nC\n\nwords", "plain", "P", "one", "R\nhttps://example.com\n\nfound"]
    const messages = [
      user(documents),
      { role: "assistant", content: [{ type: "tool_use", id: "x", name: "f", input: {} }] },
      user([{ type: "tool_result", tool_use_id: "x", content: documents.slice(3) }])
    ]
    const given = { model: "m", max_tokens: 9, messages }
    const openai = translated(given, anthropicMessages, "openai")
    assert.deepStrictEqual(
      openai.body.messages[0].content.flatMap(({ text }: Any) => text ?? []),
      expected
    )
    assert.strictEqual(openai.body.messages[2].content, expected.at(-1))
    const gemini = translated(given, anthropicMessages, "gemini")
    assert.deepStrictEqual(
      gemini.body.contents[0].parts.flatMap(({ text }: Any) => text ?? []),
      expected
    )
    const byUrl = { type: "document", source: { type: "url", url: "https://example.com/a.pdf" } }
    const refused = { model: "m", max_tokens: 9, messages: [user([byUrl])] }
    assert.include(refusal(refused, anthropicMessages, "openai"), "send its data")
  })
})

const schemaOf = (parameters: object, to: "anthropic" | "gemini" = "anthropic") => {
  const given = chat([user("a")], {
    tools: [{ type: "function", function: { name: "f", parameters, strict: true } }]
  })
  const { body } = translated(given, openAiChat, to)
  return to === "anthropic" ? body.tools[0].input_schema : body.tools[0].functionDeclarations[0].parametersJsonSchema
}

describe("alternatives at the top of a tool's parameters", () => {
  const one = { type: "object", properties: { kind: { const: "a" }, id: { type: "string" } }, required: ["kind", "id"] }
  const other = { type: "object", properties: { kind: { const: "b" }, name: { type: "string" } }, required: ["kind"] }
  const merged = {
    type: "object",
    description: "Requires kind and id, or kind.",
    properties: {
      kind: { anyOf: [{ const: "a" }, { const: "b" }] },
      id: { type: "string" },
      name: { type: "string" }
    },
    required: ["kind"]
  }

  for (const to of ["anthropic", "gemini"] as const) {
    for (const union of ["anyOf", "oneOf"] as const) {
      it(`are one object for ${to}: ${union}`, () => {
        assert.deepStrictEqual(schemaOf({ [union]: [one, other] }, to), merged)
      })
    }
  }

  it("are one object where all of them hold", () => {
    assert.deepStrictEqual(schemaOf({ allOf: [one, { properties: { x: true }, required: ["x"] }] }), {
      type: "object",
      properties: { ...one.properties, x: true },
      required: ["kind", "id", "x"]
    })
  })

  it("are one object where they are references, nested, or beside members of their own", () => {
    const $defs = { One: one, Both: { oneOf: [{ $ref: "#/$defs/One" }, other] } }
    const { $defs: kept, ...schema } = schemaOf({ $ref: "#/$defs/Both", $defs })
    assert.deepStrictEqual(kept, $defs)
    assert.deepStrictEqual({ ...schema, description: merged.description }, merged)
    const own = {
      type: "object",
      properties: { z: {} },
      required: ["z"],
      anyOf: [{ required: ["q"] }, { required: ["z"] }]
    }
    assert.deepStrictEqual(schemaOf(own), {
      type: "object",
      description: "Requires q, or z.",
      properties: { z: {} },
      required: ["z"]
    })
  })

  it("are no reason to change a schema without them", () => {
    const plain = {
      type: "object",
      properties: { a: { anyOf: [{ type: "string" }, { type: "null" }] } },
      additionalProperties: false
    }
    assert.deepStrictEqual(schemaOf(plain), plain)
    assert.deepStrictEqual(schemaOf({ type: ["object", "null"] }), { type: "object" })
  })

  it("end where a schema refers to itself", () => {
    const schema = { $ref: "#", anyOf: [{ $ref: "#" }, one] }
    assert.strictEqual(schemaOf(schema).type, "object")
  })
})

describe("thoughts without a signature", () => {
  const messages = [
    user("a"),
    {
      role: "assistant",
      content: [
        { type: "thinking", thinking: "t", signature: "" },
        { type: "thinking", thinking: "u" },
        { type: "thinking", thinking: "sealed", signature: "gatewayState1" },
        { type: "text", text: "b" }
      ]
    },
    user("c")
  ]
  it("are kept for other vendors' models that speak Anthropic's dialect", () => {
    const given = { model: "m", max_tokens: 9, messages }
    const own = (model: string, vendor?: string) => {
      const bytes = new TextEncoder().encode(JSON.stringify(given))
      const request = { body: given, bytes, model: "m", streams: false }
      const limits = { limit: undefined, outputTokens: 9, toolLimit: undefined }
      const edited = anthropicMessages.edit(request, { ...knownModel(model, vendor), provider: { vendor } }, limits)
      return JSON.parse(Buffer.from(edited as Uint8Array).toString()).messages[1].content.map(
        ({ thinking }: Any) => thinking
      )
    }
    assert.deepStrictEqual(own("MiniMax-M2", "minimax"), ["t", "u", undefined])
    assert.deepStrictEqual(own("kimi-k2", "moonshot"), ["t", "u", undefined])
    assert.deepStrictEqual(own("claude-opus-4-8"), [undefined])
    assert.deepStrictEqual(own("us.anthropic.claude-sonnet-4", "eu"), [undefined])
    assert.deepStrictEqual(own("arn:aws:bedrock:x", "bedrock"), [undefined])
  })
})

const edit = (vendor: string, body: Any) => {
  const bytes = new TextEncoder().encode(JSON.stringify(body))
  const limits = { limit: undefined, outputTokens: 9, toolLimit: undefined }
  const target = { ...knownModel("m", vendor), provider: { vendor } }
  return JSON.parse(
    Buffer.from(openAiChat.edit({ body, bytes, model: "m", streams: false }, target, limits) as Uint8Array).toString()
  )
}

describe("images that a tool gave", () => {
  const image = { type: "image_url", image_url: { url: "data:image/png;base64,iVBORw0=" } }
  const given = chat([
    user("a"),
    called("x", "y"),
    result("x", [{ type: "text", text: "r" }, image]),
    result("y"),
    user("b")
  ])

  it("follow the results at OpenAI, and stay where other vendors take them", () => {
    const { body } = translated(given, openAiChat, "openai", { vendor: "openai" })
    assert.deepStrictEqual(body.messages.slice(2), [
      result("x", "r"),
      result("y"),
      { role: "user", content: [image] },
      user("b")
    ])
    assert.deepStrictEqual(edit("openrouter", given), given)
    const plain = { ...given, seed: 1, messages: [user("a")] }
    assert.deepStrictEqual(edit("openai", plain), plain)
    assert.deepStrictEqual(edit("azure-eu", { ...given, seed: 7 }).messages[4], { role: "user", content: [image] })
  })
})

describe("tools that Anthropic runs", () => {
  const search = { type: "web_search_20250305", name: "web_search" }
  const own = { name: "f", input_schema: { type: "object" } }
  const message = { model: "m", max_tokens: 9, messages: [user("a")], tools: [search, own] }

  it("are left out and named for other providers, unless they are chosen", async () => {
    for (const to of ["openai", "gemini"] as const) {
      const { body, omitted } = translated(message, anthropicMessages, to)
      assert.deepStrictEqual(omitted, { "x-omitted-tools": "web_search_20250305" })
      assert.notInclude(JSON.stringify(body), "web_search")
      const chosen = { ...message, tool_choice: { type: "tool", name: "web_search" } }
      assert.include(refusal(chosen, anthropicMessages, to), "tools.0.type")
    }
  })
})

describe("members in other spellings", () => {
  it("are read: tools without a type, the older format of an answer, and audio for Gemini", () => {
    const untyped = { model: "m", messages: [user("a")], tools: [{ function: { name: "f", parameters: {} } }] }
    assert.strictEqual(translated(untyped, openAiChat, "anthropic").body.tools[0].name, "f")
    const schema = { type: "object", properties: { a: { type: "string" } } }
    const asked = { model: "m", max_tokens: 9, messages: [user("a")], output_format: { type: "json_schema", schema } }
    assert.deepStrictEqual(
      translated(asked, anthropicMessages, "openai").body.response_format.json_schema.schema,
      schema
    )
    const audio = { type: "input_audio", input_audio: { data: "UklGRg==", format: "wav" } }
    assert.deepStrictEqual(translated(chat([user([audio])]), openAiChat, "gemini").body.contents[0].parts, [
      { inlineData: { mimeType: "audio/wav", data: "UklGRg==" } }
    ])
  })
})

const signature = (message: Any) => message.tool_calls.map((call: Any) => call.extra_content?.google.thought_signature)

describe("thoughts of the history", () => {
  const turn = { role: "assistant", reasoning_content: "Hm.", content: "Hi.", tool_calls: called("c1").tool_calls }
  const sent = (vendor: string, more: object = {}) =>
    edit(vendor, chat([user("a"), { ...turn, ...more }, result("c1")])).messages[1]

  it("stand where their vendor has them", () => {
    assert.deepInclude(sent("groq"), { reasoning: "Hm.", content: "Hi." })
    assert.notProperty(sent("groq"), "reasoning_content")
    assert.deepStrictEqual(sent("groq", { reasoning: "Own." }).reasoning, "Own.")
    assert.deepStrictEqual(sent("mistral").content, [
      { type: "thinking", thinking: [{ type: "text", text: "Hm." }] },
      { type: "text", text: "Hi." }
    ])
    assert.deepStrictEqual(sent("mistral", { reasoning_content: "" }).content, "Hi.")
    assert.strictEqual(sent("openrouter").reasoning_content, "Hm.")
  })

  it("are signatures of calls at Google, where one that is lost is replaced", () => {
    assert.deepStrictEqual(signature(sent("google")), ["skip_thought_signature_validator"])
    assert.notProperty(sent("google"), "reasoning_content")
    const [first, ...others] = called("c1", "c2").tool_calls
    const calls = [{ ...first, extra_content: { google: { thought_signature: "c2ln" } } }, ...others]
    assert.deepStrictEqual(signature(sent("google", { tool_calls: calls })), ["c2ln", undefined])
  })
})
