import { assert, describe, it } from "vitest"
import {
  answerScope,
  diagnosedScope,
  keptIds,
  mayHoldIds,
  renaming,
  responsesScope
} from "../../../src/gateway/json/kept-ids.ts"

const found = (value: unknown, scope = answerScope) =>
  keptIds(value, scope)
    .map(({ id, path }) => `${path.join(".")}=${id}`)
    .toSorted()

describe("ids of what a provider keeps", () => {
  const cases: ReadonlyArray<readonly [what: string, value: object, ids: ReadonlyArray<string>]> = [
    ["a container by its id", { container: "cntr_1" }, ["container=cntr_1"]],
    [
      "a container with skills, of which a vendor's own is none of an account's",
      { container: { id: "c", skills: [{ type: "custom", skill_id: "skill_1" }, { skill_id: "pptx" }] } },
      ["container.id=c", "container.skills.0.skill_id=skill_1"]
    ],
    [
      "files of a container that is made for the call",
      { tools: [{ type: "code_interpreter", container: { type: "auto", file_ids: ["f1", "f2"] } }] },
      ["tools.0.container.file_ids.0=f1", "tools.0.container.file_ids.1=f2"]
    ],
    [
      "the container of a shell, with its skills",
      {
        tools: [
          { type: "shell", environment: { type: "container_reference", container_id: "c" } },
          { type: "shell", environment: { type: "container_auto", skills: [{ skill_id: "skill_1" }] } }
        ]
      },
      ["tools.0.environment.container_id=c", "tools.1.environment.skills.0.skill_id=skill_1"]
    ],
    [
      "files of messages, also within results of tools and documents",
      {
        messages: [
          { role: "user", content: [{ type: "container_upload", file_id: "f1" }] },
          {
            role: "user",
            content: [
              { type: "tool_result", tool_use_id: "toolu_1", content: [{ type: "image", source: { file_id: "f2" } }] },
              { type: "document", source: { type: "content", content: [{ source: { type: "file", file_id: "f3" } }] } }
            ]
          },
          { role: "user", content: [{ type: "file", file: { file_id: "f4" } }] }
        ]
      },
      [
        "messages.0.content.0.file_id=f1",
        "messages.1.content.0.content.0.source.file_id=f2",
        "messages.1.content.1.source.content.0.source.file_id=f3",
        "messages.2.content.0.file.file_id=f4"
      ]
    ],
    [
      "code execution's files, and those of citations",
      {
        content: [
          {
            type: "bash_code_execution_tool_result",
            tool_use_id: "srvtoolu_1",
            content: { type: "bash_code_execution_result", content: [{ file_id: "f1" }] }
          },
          { type: "text", text: "file_id", citations: [{ type: "char_location", file_id: "f2" }] }
        ]
      },
      ["content.0.content.content.0.file_id=f1", "content.1.citations.0.file_id=f2"]
    ],
    ["audio of an earlier answer", { messages: [{ audio: { id: "audio_1" } }] }, ["messages.0.audio.id=audio_1"]],
    ["audio as it is streamed", { choices: [{ delta: { audio: { id: "a" } } }] }, ["choices.0.delta.audio.id=a"]],
    ["a voice of the account's own", { audio: { voice: { id: "voice_1" } } }, ["audio.voice.id=voice_1"]],
    [
      "vector stores, servers and what fills a prompt template, whose own id is none",
      {
        tools: [
          { type: "file_search", vector_store_ids: ["vs_1"] },
          { type: "mcp", connector_id: "connector_gmail" },
          { type: "mcp", connector_id: "connector_1" },
          { type: "mcp", tunnel_id: "tunnel_1" }
        ],
        prompt: { id: "pmpt_1", variables: { file_id: "a text", other: { type: "input_file", file_id: "f" } } }
      },
      [
        "prompt.variables.other.file_id=f",
        "tools.0.vector_store_ids.0=vs_1",
        "tools.2.connector_id=connector_1",
        "tools.3.tunnel_id=tunnel_1"
      ]
    ],
    ["a kind that nobody has named yet", { a: [{ b: { notebook_id: "n" } }] }, ["a.0.b.notebook_id=n"]],
    ["one of another spelling", { File_ID: "f", FILE_IDS: ["g"] }, ["FILE_IDS.0=g", "File_ID=f"]],
    ["the container of a streamed message", { delta: { container: { id: "c" } } }, ["delta.container.id=c"]],
    ["a conversation", { conversation: { id: "conv_1" } }, ["conversation.id=conv_1"]]
  ]
  for (const [what, value, ids] of cases) it(`are ${what}`, () => assert.deepStrictEqual(found(value), ids))

  it("are looked for wherever a name may be one, also an escaped one", () => {
    for (const [, value, ids] of cases) {
      if (ids.length > 0) assert.isTrue(mayHoldIds(Buffer.from(JSON.stringify(value))), JSON.stringify(value))
    }
    assert.isTrue(mayHoldIds(Buffer.from('{"fil\\u0065\\u005fid":"f"}')))
    assert.isFalse(mayHoldIds(Buffer.from('{"model":"m","messages":[{"role":"user","content":"Hi"}]}')))
  })

  const none: ReadonlyArray<readonly [what: string, value: object]> = [
    ["calls of tools", { tool_calls: [{ id: "call_1", function: { name: "f", arguments: '{"file_id":"f"}' } }] }],
    ["blocks that call tools", { content: [{ type: "tool_use", id: "toolu_1", input: { file_id: "f", id: "1" } }] }],
    ["a block as it is streamed", { content_block: { type: "server_tool_use", id: "srvtoolu_1", input: {} } }],
    ["the caller of a tool", { caller: { type: "code_execution_20250825", tool_id: "srvtoolu_1" } }],
    ["answers", { id: "chatcmpl-1", choices: [{ message: { id: "m", content: "container_id" } }] }],
    ["a schema", { tools: [{ input_schema: { properties: { file_id: { type: "string", id: "x" } } } }] }],
    ["examples of arguments", { tools: [{ input_examples: [{ file_id: "f", container: "c" }] }] }],
    ["metadata", { metadata: { file_id: "f", user_id: "u" }, client_metadata: { thread_id: "t", turn_id: "t" } }],
    ["a request, as Groq's answers name it", { x_groq: { id: "req_1" } }],
    ["labels of the caller", { user_id: "u", session_id: "s", trace: { trace_id: "t", generation_id: "g" } }],
    ["attributes of a file", { results: [{ attributes: { file_id: "f" } }] }],
    [
      "what a server says of its tools",
      {
        output: [{ tools: [{ annotations: { file_id: "f", container: { id: "c" } }, inputSchema: { file_id: "f" } }] }]
      }
    ],
    ["environment variables", { action: { env: { CONTAINER_ID: "c" } } }],
    ["texts", { content: '{"container_id":"c"}', text: "file_id" }],
    ["nothing", { container: null, file_id: null, audio: null, container_id: 7 }]
  ]
  for (const [what, value] of none) it(`are none of ${what}`, () => assert.deepStrictEqual(found(value), []))

  it("are those of responses and items, where these are stored", () => {
    const answer = {
      id: "resp_1",
      output: [
        {
          id: "ci_1",
          type: "code_interpreter_call",
          container_id: "cntr_1",
          outputs: [{ type: "image" }],
          pending_safety_checks: [{ id: "cu_1" }]
        },
        {
          id: "msg_1",
          content: [{ annotations: [{ type: "container_file_citation", container_id: "cntr_1", file_id: "cfile_1" }] }]
        }
      ]
    }
    assert.deepStrictEqual(found(answer, responsesScope), [
      "id=resp_1",
      "output.0.container_id=cntr_1",
      "output.0.id=ci_1",
      "output.1.content.0.annotations.0.container_id=cntr_1",
      "output.1.content.0.annotations.0.file_id=cfile_1",
      "output.1.id=msg_1"
    ])
    const event = { type: "response.output_item.done", item: { id: "fc_1", call_id: "call_1" }, item_id: "fc_1" }
    assert.deepStrictEqual(found(event, responsesScope), ["item.id=fc_1", "item_id=fc_1"])
    assert.deepStrictEqual(found({ message: { id: "msg_1", content: [{ id: "toolu_1" }] } }, diagnosedScope), [
      "message.id=msg_1"
    ])
  })

  it("are found however deep they stand", () => {
    let value: object = { file_id: "f" }
    for (let depth = 0; depth < 100_000; depth++) value = [value]
    assert.lengthOf(keptIds(value, answerScope), 1)
  })

  it("are replaced in the text alone, whatever its form", () => {
    const rename = renaming(answerScope, (id) => `${id}!`)
    const text = ' { "text":"\\"file_id\\":\\"f\\" é", "f\\u0069le_id" : "f", "file_ids":[ "g" ,7], "n":1.50 }\n'
    assert.strictEqual(
      rename(text, JSON.parse(text)),
      ' { "text":"\\"file_id\\":\\"f\\" é", "f\\u0069le_id" : "f!", "file_ids":[ "g!" ,7], "n":1.50 }\n'
    )
    const other = '{ "id" : "x", "content":"file_id" }'
    assert.strictEqual(rename(other, JSON.parse(other)), other)
  })
})
