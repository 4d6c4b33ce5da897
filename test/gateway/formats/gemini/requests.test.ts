import { assert, describe, it } from "@effect/vitest"
import { answerToCompletion } from "../../../../src/gateway/formats/gemini/answers.ts"
import { camelCasedRequest } from "../../../../src/gateway/formats/gemini/domain.ts"
import { readAnswer } from "../../../../src/gateway/formats/gemini/domain.ts"
import { toJsonSchema } from "../../../../src/gateway/formats/gemini/members.ts"
import { readableSeal } from "../../../support/turn-seals.ts"
import {
  type Any,
  calling,
  clock,
  refusedOfChat,
  refusedOfGemini,
  signedText,
  toChat,
  toGemini,
  weather
} from "./forms.ts"

const text = (words: string, role = "user") => ({ role, parts: [{ text: words }] })

describe("names", () => {
  it("are read in camel case and in snake case, and what is given twice is a fault", () => {
    const snake = {
      system_instruction: { parts: { text: "Be brief" } },
      contents: { parts: [{ inline_data: { mime_type: "image/png", data: "QUJD" } }, { text: "?" }] },
      generation_config: { max_output_tokens: "50", thinking_config: { thinking_budget: 0 } },
      tools: { function_declarations: [{ name: "f", parameters: { type: "OBJECT", properties: { my_name: {} } } }] }
    }
    const chat = toChat(snake)
    assert.deepStrictEqual(chat.messages, [
      { role: "system", content: "Be brief" },
      {
        role: "user",
        content: [
          { type: "image_url", image_url: { url: "data:image/png;base64,QUJD" } },
          { type: "text", text: "?" }
        ]
      }
    ])
    assert.strictEqual(chat.max_completion_tokens, 50)
    assert.strictEqual(chat.reasoning_effort, "none")
    assert.property(chat.tools[0].function.parameters.properties, "my_name")
    const { faults } = camelCasedRequest({ generationConfig: { top_p: 1, topP: 0 }, contents: [], cached_content: "x" })
    assert.deepStrictEqual(
      faults.map(({ path }) => path),
      [["generationConfig", "topP"]]
    )
  })

  it("of the caller's own are kept: those of arguments, results, labels and properties", () => {
    const body = {
      contents: [
        { role: "model", parts: [{ function_call: { name: "f", args: { a_b: 1, __proto_x: 2 } } }] },
        { role: "user", parts: [{ function_response: { name: "f", response: { c_d: { e_f: 1 } } } }] }
      ],
      labels: { team_name: "x" }
    }
    const read = camelCasedRequest(body).body as Any
    assert.deepStrictEqual(read.contents[0].parts[0].functionCall.args, { a_b: 1, __proto_x: 2 })
    assert.deepStrictEqual(read.contents[1].parts[0].functionResponse.response, { c_d: { e_f: 1 } })
    assert.deepStrictEqual(read.labels, { team_name: "x" })
    const camel = { contents: [{ parts: [{ text: "a_b" }] }] }
    assert.strictEqual(camelCasedRequest(camel).body, camel)
  })
})

describe("schemas", () => {
  it("of OpenAPI become JSON Schema, with all that JSON Schema has", () => {
    const schema = toJsonSchema({
      type: "OBJECT",
      properties: {
        type: { type: "STRING", enum: ["a", "b"], nullable: true },
        list: { type: "ARRAY", items: { type: "INTEGER", minimum: 1 }, minItems: "1", max_items: "3" },
        either: { any_of: [{ type: "NUMBER" }, { type: "BOOLEAN" }], nullable: true, example: 1 }
      },
      required: ["type"],
      propertyOrdering: ["type", "list"]
    })
    assert.deepStrictEqual(schema, {
      type: "object",
      required: ["type"],
      properties: {
        type: { type: ["string", "null"], enum: ["a", "b", null] },
        list: { type: "array", items: { type: "integer", minimum: 1 }, minItems: 1, maxItems: 3 },
        either: { examples: [1], anyOf: [{ type: "number" }, { type: "boolean" }, { type: "null" }] }
      }
    })
  })
})

const callOf = (id: string, thoughtSignature?: string) => ({
  role: "model",
  parts: [{ functionCall: { id, name: "f", args: {} }, ...(thoughtSignature ? { thoughtSignature } : {}) }]
})

const result = (id: string) => ({ functionResponse: { id, name: "f", response: { output: id } } })

const shown = ({ tool_choice: choice, tools }: Any) => [choice, tools.map((tool: Any) => tool.function.name).join("")]

describe("requests of callers", () => {
  it("calls without ids get one, which is the same in each turn, and results find them by id, else by name and order", () => {
    const body = {
      contents: [
        text("Weather?"),
        {
          role: "model",
          parts: [
            { functionCall: { name: "weather", args: { city: "A" } } },
            { functionCall: { name: "clock" } },
            { functionCall: { name: "weather", args: { city: "B" } } },
            { functionCall: { id: "call_1_0", name: "clock" } }
          ]
        },
        {
          role: "user",
          parts: [
            { functionResponse: { name: "clock", id: "call_1_0", response: { output: "noon" } } },
            { functionResponse: { name: "weather", response: { output: "rain" } } },
            { functionResponse: { name: "weather", response: { degrees: 7 } } },
            { functionResponse: { name: "clock", response: { output: '{"a":1}' } } },
            { text: "Go on" }
          ]
        }
      ]
    }
    const { messages } = toChat(body)
    const ids = messages[1].tool_calls.map(({ id }: Any) => id)
    assert.deepStrictEqual(ids, ["call_1_0_", "call_1_1", "call_1_2", "call_1_0"])
    assert.deepStrictEqual(
      messages.slice(2).map(({ content, role, tool_call_id: id }: Any) => [role, id, content]),
      [
        ["tool", "call_1_0", "noon"],
        ["tool", "call_1_0_", "rain"],
        ["tool", "call_1_2", '{"degrees":7}'],
        ["tool", "call_1_1", '{"output":"{\\"a\\":1}"}'],
        ["user", undefined, [{ type: "text", text: "Go on" }]]
      ]
    )
    const twice = {
      ...body.contents[2],
      parts: [...(body.contents[2]?.parts ?? []), ...(body.contents[2]?.parts ?? [])]
    }
    const { contents } = toGemini(toChat({ contents: [body.contents[0], body.contents[1], twice] }))
    const said = contents[2].parts.flatMap(({ text }: Any) => text ?? [])
    assert.deepStrictEqual(
      said.filter((one: string) => one.startsWith("The result")),
      ["call_1_0", "weather", "weather", "clock"].map((id) => `The result of the missing call ${id}:`)
    )
  })

  it("contents of one side in sequence are one turn: a streamed one of parallel calls, and results that come one by one", () => {
    const contents = [
      text("Go"),
      { role: "model", parts: [{ thought: true, text: "Hm" }] },
      text("I ", "model"),
      text("go.", "model"),
      callOf("1", readableSeal([{ thought: "Hm" }, { text: 5 }, { call: "1", signature: "SIG" }])),
      callOf("2"),
      { role: "function", parts: [result("2"), { text: "Both" }] },
      { role: "user", parts: [result("1")] }
    ]
    const chat = toChat({ contents })
    assert.deepStrictEqual(
      chat.messages.map(({ role, tool_call_id: id }: Any) => id ?? role),
      ["user", "assistant", "2", "1", "user"]
    )
    assert.deepStrictEqual(toGemini(chat).contents.slice(1), [
      {
        role: "model",
        parts: [
          { thought: true, text: "Hm" },
          { text: "I go." },
          { functionCall: { id: "1", name: "f", args: {} }, thoughtSignature: "SIG" },
          { functionCall: { id: "2", name: "f", args: {} } }
        ]
      },
      { role: "user", parts: [result("1"), result("2"), { text: "Both" }] }
    ])
  })

  it("functions that are not allowed are not declared, so that no provider calls more than a caller allows", () => {
    const tools = [{ functionDeclarations: [{ name: "a" }, { name: "b" }] }, { functionDeclarations: [{ name: "c" }] }]
    const asked = (config?: object) =>
      toChat({ contents: [text("?")], tools, ...(config ? { toolConfig: { functionCallingConfig: config } } : {}) })
    assert.deepStrictEqual(shown(asked()), [undefined, "abc"])
    assert.deepStrictEqual(shown(asked({ mode: "AUTO" })), ["auto", "abc"])
    assert.deepStrictEqual(shown(asked({ mode: "NONE" })), ["none", "abc"])
    assert.deepStrictEqual(shown(asked({ mode: "ANY", allowedFunctionNames: [] })), ["required", "abc"])
    assert.deepStrictEqual(shown(asked({ mode: "ANY", allowed_function_names: ["a", "c"] })), ["required", "ac"])
    assert.deepStrictEqual(shown(asked({ mode: "VALIDATED", allowedFunctionNames: ["b"] })), ["auto", "b"])
    assert.deepStrictEqual(shown(asked({ allowedFunctionNames: ["b"] })), [undefined, "b"])
    const refused = (functionCallingConfig: object) =>
      refusedOfGemini({ contents: [text("?")], tools, toolConfig: { functionCallingConfig } })
    assert.deepStrictEqual(refused({ mode: "ANY", allowedFunctionNames: ["a", "d"] }), [
      "toolConfig.functionCallingConfig.allowedFunctionNames.1"
    ])
    assert.deepStrictEqual(refused({ mode: "SOME" }), ["toolConfig.functionCallingConfig.mode"])
  })

  it("the configuration is carried over, and what has no counterpart is refused by its path", () => {
    const schema = {
      type: "object",
      properties: { a: { type: "string" } },
      required: ["a"],
      additionalProperties: false
    }
    const chat = toChat(
      {
        contents: [text("?")],
        safetySettings: [{ category: "x", threshold: "BLOCK_NONE" }],
        labels: { a: "b" },
        generationConfig: {
          temperature: 0,
          topP: 0.5,
          topK: 3,
          maxOutputTokens: 9,
          candidateCount: 2,
          stopSequences: ["x"],
          seed: 4,
          responseMimeType: "application/json",
          responseJsonSchema: schema,
          thinkingConfig: { thinkingLevel: "LOW", includeThoughts: true }
        }
      },
      true
    )
    const { messages: _, ...members } = chat
    assert.deepStrictEqual(members, {
      model: "m",
      temperature: 0,
      top_p: 0.5,
      max_completion_tokens: 9,
      n: 2,
      stop: ["x"],
      seed: 4,
      response_format: { type: "json_schema", json_schema: { name: "answer", schema, strict: true } },
      reasoning_effort: "low",
      reasoning_summary: "auto",
      stream: true,
      stream_options: { include_usage: true }
    })
    assert.deepStrictEqual(
      refusedOfGemini({
        contents: [
          { role: "system", parts: [{ text: "x" }] },
          { parts: [{ fileData: { fileUri: "https://x" } }, { inlineData: { mimeType: "video/mp4", data: "" } }, {}] }
        ],
        cachedContent: "cachedContents/1",
        tools: [
          { googleSearch: {} },
          { codeExecution: {}, functionDeclarations: [{ name: "f" }] },
          { urlContext: null }
        ],
        generationConfig: {
          responseModalities: ["TEXT", "IMAGE"],
          responseMimeType: "text/x.enum",
          responseLogprobs: true
        }
      }),
      [
        "cachedContent",
        "contents.0.role",
        "contents.1.parts.0.fileData",
        "contents.1.parts.1.inlineData",
        "contents.1.parts.2",
        "generationConfig.responseLogprobs",
        "generationConfig.responseModalities",
        "generationConfig.responseMimeType",
        "tools.0.googleSearch",
        "tools.1.codeExecution"
      ]
    )
  })

  it("what Google's own tools did before means nothing to another provider; pictures of a result follow it", () => {
    const { messages } = toChat({
      contents: [
        {
          role: "model",
          parts: [
            { executableCode: { code: "1" } },
            { codeExecutionResult: { output: "1" } },
            { text: "One." },
            { functionCall: { name: "shot" } }
          ]
        },
        {
          parts: [
            {
              functionResponse: {
                name: "shot",
                response: {},
                parts: [{ inlineData: { mimeType: "image/png", data: "-_8" } }]
              }
            },
            { inlineData: { mimeType: "application/pdf", data: "QQ==", displayName: "a.pdf" } },
            { inlineData: { mimeType: "text/plain", data: "SMOpIQ==" } }
          ]
        }
      ]
    })
    assert.deepStrictEqual(messages, [
      {
        role: "assistant",
        content: "One.",
        tool_calls: [{ id: "call_0_3", type: "function", function: { name: "shot", arguments: "{}" } }]
      },
      { role: "tool", tool_call_id: "call_0_3", content: "{}" },
      {
        role: "user",
        content: [
          { type: "image_url", image_url: { url: "data:image/png;base64,+/8" } },
          { type: "file", file: { filename: "a.pdf", file_data: "data:application/pdf;base64,QQ==" } },
          { type: "text", text: "Hé!" }
        ]
      }
    ])
  })
})

const call = (id: string, name: string) => ({ id, type: "function", function: { name, arguments: '{"x":1}' } })

const askedFor = (mode: string, ...names: ReadonlyArray<string>) =>
  toGemini({
    model: "m",
    messages: [{ role: "user", content: "?" }],
    tools: [weather, clock],
    tool_choice: {
      type: "allowed_tools",
      allowed_tools: { mode, tools: names.map((name) => ({ type: "function", function: { name } })) }
    }
  })

const thinking = (model: string, reasoning_effort: string) =>
  toGemini({ model: "m", messages: [{ role: "user", content: "?" }], reasoning_effort }, model).generationConfig
    ?.thinkingConfig

describe("requests to providers", () => {
  it("turns alternate, and the results of parallel calls are in one content, with the names of their calls", () => {
    const request = toGemini({
      model: "m",
      messages: [
        { role: "system", content: "S1" },
        { role: "user", content: "A" },
        { role: "user", content: [{ type: "text", text: "B" }] },
        {
          role: "assistant",
          content: null,
          reasoning_content: "not Gemini's",
          tool_calls: [call("1", "weather"), call("2", "clock")]
        },
        { role: "tool", tool_call_id: "1", content: '{"degrees":7}' },
        { role: "tool", tool_call_id: "2", content: "[12]" },
        { role: "developer", content: "S2" },
        { role: "user", content: "C" }
      ],
      tools: [weather, clock],
      tool_choice: { type: "function", function: { name: "clock" } }
    })
    assert.deepStrictEqual(request, {
      contents: [
        { role: "user", parts: [{ text: "A" }, { text: "B" }] },
        {
          role: "model",
          parts: [
            {
              functionCall: { id: "1", name: "weather", args: { x: 1 } },
              thoughtSignature: "skip_thought_signature_validator"
            },
            { functionCall: { id: "2", name: "clock", args: { x: 1 } } }
          ]
        },
        {
          role: "user",
          parts: [
            { functionResponse: { id: "1", name: "weather", response: { degrees: 7 } } },
            { functionResponse: { id: "2", name: "clock", response: { output: "[12]" } } },
            { text: "C" }
          ]
        }
      ],
      systemInstruction: { parts: [{ text: "S1" }, { text: "S2" }] },
      tools: [
        {
          functionDeclarations: [
            {
              name: "weather",
              description: "Of a place",
              parametersJsonSchema: weather.function.parameters
            },
            { name: "clock", parametersJsonSchema: clock.function.parameters }
          ]
        }
      ],
      toolConfig: { functionCallingConfig: { mode: "ANY", allowedFunctionNames: ["clock"] } }
    })
    const alone = toGemini({ model: "m", messages: [{ role: "system", content: "S" }] })
    assert.deepStrictEqual(alone, { contents: [{ role: "user", parts: [{ text: "S" }] }] })
  })

  it("allowed tools are never read more widely", () => {
    assert.deepStrictEqual(askedFor("required", "clock").toolConfig.functionCallingConfig, {
      mode: "ANY",
      allowedFunctionNames: ["clock"]
    })
    const auto = askedFor("auto", "clock")
    assert.deepStrictEqual(auto.toolConfig.functionCallingConfig, { mode: "AUTO" })
    assert.deepStrictEqual(
      auto.tools[0].functionDeclarations.map(({ name }: Any) => name),
      ["clock"]
    )
    for (const mode of ["auto", "required"]) assert.notProperty(askedFor(mode), "tools")
  })

  it("thinking is asked for as the model takes it", () => {
    assert.deepStrictEqual(thinking("gemini-3-flash-preview", "none"), {
      thinkingLevel: "minimal",
      includeThoughts: false
    })
    assert.deepStrictEqual(thinking("gemini-3.1-pro", "minimal"), { thinkingLevel: "low", includeThoughts: true })
    assert.deepStrictEqual(thinking("models/gemini-flash-latest", "xhigh"), {
      thinkingLevel: "high",
      includeThoughts: true
    })
    assert.deepStrictEqual(thinking("gemini-2.5-flash", "none"), { thinkingBudget: 0, includeThoughts: false })
    assert.deepStrictEqual(thinking("gemini-2.5-pro", "none"), { thinkingBudget: 128, includeThoughts: false })
    assert.deepStrictEqual(thinking("gemini-2.5-pro", "medium"), { thinkingBudget: 8192, includeThoughts: true })
    for (const model of ["gemini-2.0-flash", "gemma-3-27b-it"]) assert.isUndefined(thinking(model, "high"))
    assert.isUndefined(thinking("gemini-3-flash", "constructor"))
  })

  it("what has no counterpart is refused by its path", () => {
    const refused = refusedOfChat({
      model: "m",
      messages: [
        {
          role: "user",
          content: [{ type: "image_url", image_url: { url: "https://x/y.png" } }, { type: "input_audio" }]
        },
        { role: "tool", content: "" },
        { role: "function", content: "" }
      ],
      tools: [{ type: "web_search_20250305", name: "web_search" }, weather],
      tool_choice: { type: "custom" },
      stop: ["1", "2", "3", "4", "5", "6"],
      logprobs: true,
      modalities: ["text", "audio"],
      mcp_servers: [{}],
      web_search_options: {}
    })
    assert.deepStrictEqual(refused, [
      "messages.0.content.0.type",
      "messages.0.content.1.type",
      "messages.1.tool_call_id",
      "messages.2.role",
      "logprobs",
      "modalities",
      "mcp_servers",
      "web_search_options",
      "stop",
      "tools.0.type",
      "tool_choice.type"
    ])
  })
})

const again = (message: object) =>
  toGemini({ model: "m", messages: [{ role: "user", content: "?" }, JSON.parse(JSON.stringify(message))] }).contents[1]
    .parts

describe("signatures", () => {
  const head = { model: "m", id: "chatcmpl_1", createdSeconds: 17 }
  const messageOf = (answer: object): Any =>
    (answerToCompletion(readAnswer(answer) ?? {}, head) as Any).choices[0].message

  it("return in their own parts, through JSON of a chat completion", () => {
    assert.deepStrictEqual(messageOf(calling).turn_state, [
      { thought: "Two places." },
      { text: 7 },
      { call: "a", signature: "SIG-A" }
    ])
    assert.deepStrictEqual(again(messageOf(calling)), [
      { thought: true, text: "Two places." },
      { text: "I look." },
      { functionCall: { id: "a", name: "weather", args: { city: "Köln" } }, thoughtSignature: "SIG-A" },
      { functionCall: { id: "b", name: "weather", args: { city: "Bonn" } } }
    ])
    assert.deepStrictEqual(again(messageOf(signedText)), [
      { thought: true, text: "Hm." },
      { text: "Fine." },
      { text: "", thoughtSignature: "SIG-T" }
    ])
  })

  it("return from callers that send neither thoughts nor the text as it was", () => {
    const { reasoning_content: _, ...unthought } = messageOf(calling)
    assert.deepStrictEqual(again({ ...unthought, content: "I l" }), [
      { thought: true, text: "Two places." },
      { functionCall: { id: "a", name: "weather", args: { city: "Köln" } }, thoughtSignature: "SIG-A" },
      { text: "I l" },
      { functionCall: { id: "b", name: "weather", args: { city: "Bonn" } } }
    ])
    const parts = [{ thought: true, text: "Hm", thoughtSignature: "S" }, { text: "Fine" }]
    const { reasoning_content: __, ...signed } = messageOf({ candidates: [{ content: { parts } }] })
    assert.deepStrictEqual(again(signed), [{ thought: true, text: "Hm", thoughtSignature: "S" }, { text: "Fine" }])
  })

  it("of no other provider are sent, and what is malformed counts as absent", () => {
    const { turn_state: _, ...message } = messageOf(calling)
    for (const turn_state of [
      undefined,
      null,
      [{ type: "thinking", thinking: "a", signature: "X" }],
      [{ call: 7 }, 7, null]
    ]) {
      const parts = again({ ...message, ...(turn_state === undefined ? {} : { turn_state }) })
      assert.strictEqual(parts[1].thoughtSignature, "skip_thought_signature_validator", JSON.stringify(turn_state))
      assert.lengthOf(parts, 3)
      assert.notProperty(parts[2], "thoughtSignature")
    }
  })
})
