import { type Json } from "../../../../src/kernel/json/parsed-json.ts"
import { type Examples } from "./domain.ts"

const chunk = (delta: Json, finish_reason: string | null = null): Json => ({
  id: "chatcmpl-1",
  object: "chat.completion.chunk",
  created: 5,
  model: "gpt-5-2026-01-01",
  choices: [{ index: 0, delta, logprobs: null, finish_reason }]
})
const finished = (reason: string) => chunk({}, reason)
const usageOf = (completion_tokens: number, members: Json = {}): Json => ({
  id: "chatcmpl-1",
  choices: [],
  usage: { prompt_tokens: 10, completion_tokens, ...members }
})
const call = (index: number | undefined, words: string, named: { id?: string; name?: string } = {}) =>
  chunk({
    tool_calls: [
      {
        ...(index === undefined ? {} : { index }),
        ...(named.id === undefined ? {} : { id: named.id, type: "function" }),
        function: { ...(named.name === undefined ? {} : { name: named.name }), arguments: words }
      }
    ]
  })

const start = { type: "message_start", message: { id: "msg_1", usage: { input_tokens: 10, output_tokens: 1 } } }
const block = (index: number, content_block: Json) => ({ type: "content_block_start", index, content_block })
const delta = (index: number, delta: Json) => ({ type: "content_block_delta", index, delta })
const stop = (index: number) => ({ type: "content_block_stop", index })
const tool = (name: string, input: Json = {}) => ({ type: "tool_use", id: `id_${name}`, name, input })
const text = (words: string) => ({ type: "text_delta", text: words })
const json = (words: string) => ({ type: "input_json_delta", partial_json: words })
const textBlock = (index: number, ...pieces: ReadonlyArray<string>) => [
  block(index, { type: "text", text: "" }),
  ...pieces.map((words) => delta(index, text(words))),
  stop(index)
]
const report = (output_tokens: number, members: Json = {}) => ({
  type: "message_delta",
  delta: {},
  usage: { output_tokens, ...members }
})
const ending = (stop_reason: string, usage: Json = { output_tokens: 12 }) => [
  { type: "message_delta", delta: { stop_reason, stop_sequence: null }, usage },
  { type: "message_stop" }
]

/** Streams by what they show, as their providers send them. `request` is the one of the Responses API that one is for. */
export const streams: Examples<ReadonlyArray<Json>> = {
  "gives text, then tools, then why it stopped and what it used": {
    chunks: [
      chunk({ role: "assistant", content: "", refusal: null }),
      chunk({ content: "It is " }),
      chunk({ content: "noon." }),
      call(0, "", { id: "a", name: "now" }),
      call(0, '{"zone":'),
      call(0, '"UTC"}'),
      finished("tool_calls"),
      usageOf(4, { total_tokens: 14, prompt_tokens_details: { cached_tokens: 6 } })
    ],
    events: [
      {
        type: "message_start",
        message: {
          id: "msg_1",
          type: "message",
          role: "assistant",
          model: "claude-sonnet-4-5-20250929",
          content: [],
          stop_reason: null,
          stop_sequence: null,
          usage: { input_tokens: 4, cache_read_input_tokens: 5, cache_creation_input_tokens: 1, output_tokens: 1 }
        }
      },
      block(0, { type: "text", text: "" }),
      { type: "ping" },
      delta(0, text("It is ")),
      delta(0, text("noon.")),
      stop(0),
      block(1, tool("now")),
      delta(1, json("")),
      delta(1, json('{"zone":')),
      delta(1, json('"UTC"}')),
      stop(1),
      ...ending("tool_use")
    ]
  },

  "begins with words": { chunks: [chunk({ content: "Hi" }), finished("stop")] },
  "has nothing but an end": {
    chunks: [finished("stop")],
    events: [start, ...ending("end_turn", { output_tokens: 1 })]
  },

  "repeats a tool's name in every chunk": {
    chunks: [call(0, "{", { id: "a", name: "now" }), call(0, "}", { id: "a", name: "now" }), finished("tool_calls")]
  },
  "has gaps between indices": {
    chunks: [
      call(2, '{"n":1}', { id: "a", name: "f" }),
      call(7, '{"n":2}', { id: "b", name: "f" }),
      finished("tool_calls")
    ],
    events: [start, block(1, tool("a")), stop(1), block(4, tool("b")), stop(4), ...ending("tool_use")]
  },
  "has no indices": {
    chunks: [
      call(undefined, '{"n":', { id: "a", name: "f" }),
      call(undefined, "1}"),
      call(undefined, '{"n":2}', { id: "b", name: "f" }),
      finished("tool_calls")
    ]
  },
  "has one index for two calls": {
    chunks: [
      call(0, '{"n":1}', { id: "a", name: "f" }),
      call(0, '{"n":2}', { id: "b", name: "f" }),
      finished("tool_calls")
    ]
  },
  "gives the arguments of parallel calls in turns": {
    chunks: [
      call(0, "", { id: "a", name: "f" }),
      call(1, "", { id: "b", name: "g" }),
      call(0, '{"n":'),
      call(1, '{"n":'),
      call(0, "1}"),
      call(1, "2}"),
      finished("tool_calls")
    ]
  },
  "splits arguments inside an escape": {
    chunks: [
      call(0, "", { id: "a", name: "f" }),
      call(0, '{"text":"a\\'),
      call(0, '"b\\u00'),
      call(0, 'e9\\\\"}'),
      finished("tool_calls")
    ],
    events: [
      start,
      block(0, tool("a")),
      delta(0, json('{"text":"a\\')),
      delta(0, json('"b\\u00')),
      delta(0, json('e9\\\\"}')),
      stop(0),
      ...ending("tool_use")
    ]
  },
  "makes an empty object of empty arguments, and keeps input that came with its block": {
    chunks: [call(0, "", { id: "a", name: "now" }), finished("tool_calls")],
    events: [start, block(0, tool("a")), stop(0), block(1, tool("whole", { n: 1 })), stop(1), ...ending("tool_use")]
  },
  "names a call after its first arguments": {
    chunks: [call(0, '{"n"'), call(0, ":1}", { id: "a", name: "f" }), finished("tool_calls")]
  },
  "calls a tool without an id": { chunks: [call(0, "{}", { name: "now" }), finished("tool_calls")] },
  "calls a custom tool, and a function of a namespace": {
    request: [
      {
        model: "asked",
        tools: [
          { type: "custom", name: "patch" },
          { type: "namespace", name: "clock", tools: [{ type: "function", name: "now" }] }
        ]
      }
    ],
    chunks: [
      call(0, "", { id: "a", name: "patch" }),
      call(0, '{"input":"+ a'),
      call(0, ' line"}'),
      call(1, "{}", { id: "b", name: "clock__now" }),
      finished("tool_calls")
    ]
  },

  "reports its usage again and again": {
    chunks: [usageOf(1), chunk({ content: "Hi" }), usageOf(2), finished("stop"), usageOf(3)],
    events: [
      start,
      ...textBlock(0, "Hi"),
      report(5),
      report(9),
      ...ending("end_turn", { output_tokens: 12, input_tokens: null })
    ]
  },
  "starts twice": {
    events: [
      start,
      { type: "message_start", message: { id: "msg_2", usage: { input_tokens: 11, output_tokens: 1 } } },
      block(0, { type: "text", text: "Hi" }),
      stop(0),
      ...ending("end_turn")
    ]
  },

  "thinks before it speaks": {
    chunks: [
      chunk({ role: "assistant", reasoning_content: "h" }),
      chunk({ reasoning_content: "m" }),
      chunk({ content: "Yes." }),
      finished("stop"),
      usageOf(9, { completion_tokens_details: { reasoning_tokens: 7 } })
    ],
    events: [
      start,
      block(0, { type: "thinking", thinking: "", signature: "" }),
      delta(0, { type: "thinking_delta", thinking: "h" }),
      delta(0, { type: "thinking_delta", thinking: "m" }),
      delta(0, { type: "signature_delta", signature: "sig" }),
      stop(0),
      block(1, { type: "redacted_thinking", data: "hidden" }),
      stop(1),
      ...textBlock(2, "Yes."),
      ...ending("end_turn", { output_tokens: 9, output_tokens_details: { thinking_tokens: 7 } })
    ]
  },
  "thinks under a second name": {
    chunks: [chunk({ reasoning: "hm" }), chunk({ content: "Yes." }), finished("stop")]
  },
  "searches before it speaks": {
    events: [
      start,
      block(0, { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: {} }),
      delta(0, json('{"query":"time')),
      delta(0, json(' in Oslo"}')),
      stop(0),
      block(1, { type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [] }),
      stop(1),
      ...textBlock(2, "It is noon."),
      ...ending("end_turn")
    ]
  },

  refuses: {
    chunks: [chunk({ role: "assistant", refusal: "N" }), chunk({ refusal: "o." }), finished("stop")],
    events: [start, ...textBlock(0, "No."), ...ending("refusal")]
  },
  "ends at its limit": {
    chunks: [chunk({ content: "It is" }), finished("length")],
    events: [start, ...textBlock(0, "It is"), ...ending("max_tokens")]
  },
  "is cut by a filter": {
    chunks: [chunk({ content: "It" }), finished("content_filter")]
  },
  "ends with an error": {
    chunks: [
      chunk({ content: "It" }),
      { error: { message: "Overloaded.", type: "server_error", param: null, code: "overloaded" } }
    ],
    events: [
      start,
      block(0, { type: "text", text: "" }),
      delta(0, text("It")),
      { type: "error", error: { type: "overloaded_error", message: "Overloaded." } }
    ]
  },
  "breaks off": {
    chunks: [chunk({ content: "It" })],
    events: [start, block(0, { type: "text", text: "" }), delta(0, text("It"))]
  }
}
