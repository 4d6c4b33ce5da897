import { type Json } from "../../../../src/kernel/json/parsed-json.ts"
import { type Examples } from "./domain.ts"

const usage = { prompt_tokens: 10, completion_tokens: 4, total_tokens: 14 }
const messageUsage = { input_tokens: 10, output_tokens: 4 }

const completion = (message: Json, finish_reason: string | null = "stop", members: Json = { usage }): Json => ({
  id: "chatcmpl-1",
  object: "chat.completion",
  created: 5,
  model: "gpt-5-2026-01-01",
  choices: [{ index: 0, message: { role: "assistant", ...message }, logprobs: null, finish_reason }],
  ...members
})

const message = (content: ReadonlyArray<Json>, stop_reason = "end_turn", members: Json = { usage: messageUsage }) => ({
  id: "msg_1",
  type: "message",
  role: "assistant",
  model: "claude-sonnet-4-5-20250929",
  content,
  stop_reason,
  stop_sequence: null,
  ...members
})

const response = (output: ReadonlyArray<Json>, members: Json = { status: "completed" }): Json => ({
  id: "resp_1",
  object: "response",
  created_at: 5,
  model: "gpt-5",
  output,
  usage: { input_tokens: 10, output_tokens: 4, total_tokens: 14 },
  ...members
})

const text = (words: string) => ({ type: "text", text: words })
const call = (id: string, name: string, words: string) => ({
  id,
  type: "function",
  function: { name, arguments: words }
})
const outputText = (words: string) => ({
  id: "msg_1",
  type: "message",
  status: "completed",
  role: "assistant",
  content: [{ type: "output_text", text: words, annotations: [] }]
})

const looking = {
  content: "Looking.",
  tool_calls: [call("a", "now", ""), call("b", "at", '{"x":"\\u00e9"}'), call("c", "bad", "{")]
}

/** Whole answers by what they show. `request` is the one of the Responses API that an answer is for. */
export const answers: Examples<Json> = {
  "gives a text, and counts what was cached and thought once": {
    completion: completion({ content: "It is noon.", refusal: null }, "stop", {
      usage: {
        prompt_tokens: 100,
        completion_tokens: 50,
        total_tokens: 150,
        prompt_tokens_details: { cached_tokens: 60, cache_write_tokens: 10 },
        completion_tokens_details: { reasoning_tokens: 40 }
      },
      system_fingerprint: "fp"
    }),
    message: message([text("It is "), text("noon.")], "end_turn", {
      usage: {
        input_tokens: 30,
        output_tokens: 50,
        cache_read_input_tokens: 60,
        cache_creation_input_tokens: 10,
        cache_creation: { ephemeral_5m_input_tokens: 4, ephemeral_1h_input_tokens: 6 },
        output_tokens_details: { thinking_tokens: 40 },
        service_tier: "standard"
      }
    }),
    response: response([outputText("It is noon.")])
  },

  "calls a tool after thoughts and words": {
    completion: completion(
      { content: "Looking.", reasoning_content: "hm", tool_calls: [call("t", "now", "{}")] },
      "tool_calls"
    ),
    message: message(
      [
        { type: "thinking", thinking: "hm", signature: "sig" },
        text("Looking."),
        { type: "tool_use", id: "t", name: "now", input: {} }
      ],
      "tool_use"
    ),
    response: response([
      { id: "rs_1", type: "reasoning", summary: [{ type: "summary_text", text: "hm" }] },
      outputText("Looking."),
      { id: "fc_1", type: "function_call", status: "completed", call_id: "t", name: "now", arguments: "{}" }
    ])
  },

  "calls tools whose arguments are empty, escaped, and no JSON": {
    completion: completion(looking, "tool_calls"),
    message: message(
      [
        { type: "tool_use", id: "a", name: "now", input: {} },
        { type: "tool_use", id: "b", name: "at", input: { x: "é" } }
      ],
      "tool_use"
    )
  },
  "calls tools, and says that it stopped": { completion: completion(looking) },
  "calls tools, and does not say that it ended": { completion: completion(looking, null) },

  "comes in parts, with a call that has no id": {
    completion: {
      choices: [
        {
          message: {
            content: [{ type: "thinking", thinking: [text("hm")] }, text("It is noon.")],
            tool_calls: [{ function: { name: "now" } }]
          },
          finish_reason: "stop"
        }
      ],
      usage: "none"
    }
  },

  "calls a custom tool, and a function of a namespace": {
    request: {
      model: "asked",
      tools: [
        { type: "custom", name: "patch" },
        { type: "namespace", name: "clock", tools: [{ type: "function", name: "now" }] }
      ]
    },
    completion: completion(
      { content: null, tool_calls: [call("a", "patch", '{"input":"+ a line"}'), call("b", "clock__now", "{}")] },
      "tool_calls"
    ),
    message: message(
      [
        { type: "tool_use", id: "a", name: "patch", input: { input: "+ a line" } },
        { type: "tool_use", id: "b", name: "clock__now", input: {} }
      ],
      "tool_use"
    )
  },

  "tells what a model thought": {
    completion: completion({ content: "Noon.", reasoning: "hm" }),
    message: message([
      { type: "thinking", thinking: "hm", signature: "sig" },
      { type: "redacted_thinking", data: "hidden" },
      text("Noon.")
    ])
  },
  "tells what a model thought, under a second name": {
    completion: completion({ content: "Noon.", reasoning_content: null, reasoning: "hm" })
  },
  "leaves out thoughts that are no text": { completion: completion({ content: "Noon.", reasoning: {} }) },

  refuses: {
    completion: completion({ content: null, refusal: "No." }),
    message: message([text("No.")], "refusal"),
    response: response([{ ...outputText(""), content: [{ type: "refusal", refusal: "No." }] }])
  },
  "is cut by a filter": {
    completion: completion({ content: "It" }, "content_filter"),
    message: message([], "refusal"),
    response: response([outputText("It")], { status: "incomplete", incomplete_details: { reason: "content_filter" } })
  },
  "ends at its limit": {
    completion: completion({ content: "It is" }, "length"),
    message: message([text("It is")], "max_tokens"),
    response: response([outputText("It is")], {
      status: "incomplete",
      incomplete_details: { reason: "max_output_tokens" }
    })
  },
  "ends at a stop sequence": {
    message: message([text("It is")], "stop_sequence", { stop_sequence: "END", usage: messageUsage })
  },

  "tells what Anthropic searched for": {
    request: { model: "asked", tools: [{ type: "web_search" }] },
    message: message([
      text("I will look."),
      { type: "server_tool_use", id: "srvtoolu_1", name: "web_search", input: { query: "time in Oslo" } },
      { type: "web_search_tool_result", tool_use_id: "srvtoolu_1", content: [] },
      text("It is noon.")
    ])
  }
}
