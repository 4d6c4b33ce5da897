import { type Json } from "../../../../src/kernel/json/parsed-json.ts"
import { readableSeal } from "../../../support/turn-seals.ts"
import { type Examples } from "./domain.ts"

const hello = { role: "user", content: "Hello" }
const image = "data:image/png;base64,iVBORw=="
const pdf = "data:application/pdf;base64,JVBERg=="
const address = "https://example.com/a.png"
const zone = { type: "object", properties: { zone: { type: "string" } }, required: ["zone"] }
const city = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false
}
const opus = "claude-opus-4-8"

const chatTool = (name: string, members: Json = {}) => ({ type: "function", function: { name, ...members } })
const call = (id: string, name: string, input: string) => ({ id, ...chatTool(name, { arguments: input }) })
const item = (call_id: string, name: string, input: string) => ({
  type: "function_call",
  call_id,
  name,
  arguments: input
})
const use = (id: string, name: string, input: object) => ({ type: "tool_use", id, name, input })
const output = (call_id: string, output: unknown) => ({ type: "function_call_output", call_id, output })
const asChat = { tools: [chatTool("now", { description: "The time", parameters: zone })] }
const asMessages = { tools: [{ name: "now", description: "The time", input_schema: zone }] }
const asResponses = { tools: [{ type: "function", name: "now", description: "The time", parameters: zone }] }

/** Requests by what they show; members that they leave out, such as the model, are given by the test. */
export const requests: Examples<Json> = {
  "gathers system and developer prompts at the top": {
    chat: {
      messages: [
        { role: "system", content: "Be brief." },
        { role: "user", content: "Hi" },
        { role: "developer", content: [{ type: "text", text: "Be kind." }] }
      ]
    },
    messages: {
      system: [
        { type: "text", text: "Be brief." },
        { type: "text", text: "Be kind." }
      ]
    },
    responses: { instructions: "Be brief.", input: [hello, { role: "developer", content: "Be kind." }] }
  },

  "puts the results of parallel tools and what the user says next into one turn": {
    chat: {
      messages: [
        hello,
        {
          role: "assistant",
          content: null,
          tool_calls: [call("a", "weather", '{"city":"Oslo"}'), call("b", "weather", '{"city":"Rome"}')]
        },
        { role: "tool", tool_call_id: "a", content: "cold" },
        { role: "tool", tool_call_id: "b", content: [{ type: "text", text: "warm" }] },
        { role: "user", content: "Thanks" }
      ],
      tools: [chatTool("weather", { strict: true, parameters: city })]
    },
    messages: {
      messages: [
        hello,
        {
          role: "assistant",
          content: [use("a", "weather", { city: "Oslo" }), use("b", "weather", { city: "Rome" })]
        },
        {
          role: "user",
          content: [
            { type: "tool_result", tool_use_id: "a", content: "cold" },
            { type: "tool_result", tool_use_id: "b", content: [{ type: "text", text: "warm" }] },
            { type: "text", text: "Thanks" }
          ]
        }
      ],
      tools: [{ name: "weather", strict: true, input_schema: city }]
    },
    responses: {
      input: [
        hello,
        item("a", "weather", '{"city":"Oslo"}'),
        item("b", "weather", '{"city":"Rome"}'),
        output("a", "cold"),
        output("b", [{ type: "input_text", text: "warm" }]),
        { role: "user", content: "Thanks" }
      ],
      tools: [{ type: "function", name: "weather", strict: true, parameters: city }]
    },
    native: {
      messages: [
        hello,
        {
          role: "assistant",
          toolCalls: [
            { id: "a", name: "weather", arguments: { city: "Oslo" } },
            { id: "b", name: "weather", arguments: '{"city":"Rome"}' }
          ]
        },
        { role: "tool", toolCallId: "a", content: "cold" },
        { role: "tool", toolCallId: "b", content: [{ type: "text", text: "warm" }] },
        { role: "user", content: "Thanks" }
      ],
      tools: [{ name: "weather", strict: true, parameters: city }]
    }
  },

  "puts the results of tools before what the user says, and their images after": {
    messages: {
      messages: [
        hello,
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "hm", signature: "s" },
            { type: "text", text: "Looking." },
            use("a", "look", { at: 1 })
          ]
        },
        {
          role: "user",
          content: [
            { type: "text", text: "Well?" },
            {
              type: "tool_result",
              tool_use_id: "a",
              is_error: true,
              content: [
                { type: "text", text: "dark" },
                { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw==" } }
              ]
            }
          ]
        }
      ]
    },
    responses: {
      input: [
        hello,
        { role: "assistant", content: [{ type: "output_text", text: "Looking." }] },
        item("a", "look", '{"at":1}'),
        output("a", [
          { type: "input_text", text: "dark" },
          { type: "input_image", image_url: image }
        ])
      ]
    },
    native: {
      messages: [
        hello,
        { role: "assistant", content: "Looking.", toolCalls: [{ id: "a", name: "look", arguments: { at: 1 } }] },
        {
          role: "tool",
          toolCallId: "a",
          content: [
            { type: "text", text: "dark" },
            { type: "image", url: image }
          ]
        }
      ]
    }
  },

  "takes empty arguments for none": {
    chat: {
      messages: [
        hello,
        { role: "assistant", tool_calls: [call("a", "now", "")] },
        { role: "tool", tool_call_id: "a", content: "noon" }
      ]
    },
    messages: {
      messages: [
        hello,
        { role: "assistant", content: [use("a", "now", {})] },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "a" }] }
      ]
    },
    responses: { input: [hello, item("a", "now", ""), output("a", "noon")] }
  },

  "gives calls ids that Anthropic takes": {
    chat: {
      messages: [
        hello,
        { role: "assistant", tool_calls: [call("functions.now:0", "now", "{}")] },
        { role: "tool", tool_call_id: "functions.now:0", content: "noon" }
      ]
    }
  },

  "carries images by data and by address, and documents": {
    chat: {
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "Compare." },
            { type: "image_url", image_url: { url: image, detail: "high" } },
            { type: "image_url", image_url: { url: address } },
            { type: "file", file: { filename: "a.pdf", file_data: pdf } }
          ]
        }
      ]
    },
    messages: {
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "Compare." },
            { type: "image", source: { type: "base64", media_type: "image/png", data: "iVBORw==" } },
            { type: "image", source: { type: "url", url: address } },
            {
              type: "document",
              title: "a.pdf",
              source: { type: "base64", media_type: "application/pdf", data: "JVBERg==" }
            },
            { type: "document", source: { type: "text", media_type: "text/plain", data: "plain" } }
          ]
        }
      ]
    },
    responses: {
      input: [
        {
          role: "user",
          content: [
            { type: "input_text", text: "Compare." },
            { type: "input_image", image_url: image, detail: "high" },
            { type: "input_image", image_url: address },
            { type: "input_file", filename: "a.pdf", file_data: pdf }
          ]
        }
      ]
    },
    native: {
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "Compare." },
            { type: "image", url: image },
            { type: "image", url: address },
            { type: "document", name: "a.pdf", data: "JVBERg==" }
          ]
        }
      ]
    }
  },

  "keeps the limit that was asked for": {
    chat: { max_completion_tokens: 8, max_tokens: 7 },
    messages: { max_tokens: 8 },
    responses: { max_output_tokens: 8 }
  },

  "keeps the limit that was asked for by its older name": { chat: { max_tokens: 7 } },

  "tells Anthropic that a tool's parameters are an object, also where nothing is said of them": {
    chat: {
      tools: [
        chatTool("bare", { description: "Without any" }),
        chatTool("empty", { parameters: {} }),
        chatTool("loose", { parameters: { properties: { zone: { type: "string" } } } }),
        chatTool("whole", { parameters: { type: "object", required: ["zone"] } })
      ]
    },
    messages: {
      tools: [
        { name: "bare", description: "Without any" },
        { name: "whole", input_schema: zone }
      ]
    },
    responses: { tools: [{ type: "function", name: "bare" }] }
  },

  "lets the model choose a tool": {
    chat: { ...asChat, tool_choice: "auto" },
    messages: { ...asMessages, tool_choice: { type: "auto" } },
    responses: { ...asResponses, tool_choice: "auto" }
  },

  "lets no tool be called": {
    chat: { ...asChat, tool_choice: "none" },
    messages: { ...asMessages, tool_choice: { type: "none" } },
    responses: { ...asResponses, tool_choice: "none" }
  },

  "has any tool be called": {
    chat: { ...asChat, tool_choice: "required" },
    messages: { ...asMessages, tool_choice: { type: "any" } },
    responses: { ...asResponses, tool_choice: "required" }
  },

  "has one tool be called": {
    chat: { ...asChat, tool_choice: chatTool("now") },
    messages: { ...asMessages, tool_choice: { type: "tool", name: "now" } },
    responses: { ...asResponses, tool_choice: { type: "function", name: "now" } },
    native: { tools: [{ name: "now", description: "The time", parameters: zone }], toolChoice: { name: "now" } }
  },

  "has one call at a time": {
    chat: { ...asChat, parallel_tool_calls: false },
    messages: { ...asMessages, tool_choice: { type: "auto", disable_parallel_tool_use: true } },
    responses: { ...asResponses, parallel_tool_calls: false }
  },

  "stops at sequences, and leaves out what Anthropic refuses and nobody misses": {
    chat: { stop: [" ", "END", "\n"], top_p: 1, temperature: 1.7 },
    messages: { stop_sequences: ["END"], top_p: 0.9, top_k: 40, temperature: 0.5 },
    responses: { top_p: 1, temperature: 0.5 },
    native: { stop: [" ", "END"], topP: 1, temperature: 1.7, maxTokens: 8 }
  },

  "ends the beginning of an answer without space": {
    chat: { messages: [hello, { role: "assistant", content: "It is \n" }] },
    messages: { messages: [hello, { role: "assistant", content: "It is" }] },
    responses: { input: [hello, { role: "assistant", content: "It is \n" }] }
  },

  "leaves out a beginning that is nothing but space": {
    chat: { messages: [hello, { role: "assistant", content: " " }] }
  },

  "repeats what the model refused": {
    chat: {
      messages: [
        hello,
        { role: "assistant", content: [{ type: "refusal", refusal: "No." }] },
        { role: "user", content: "Why?" }
      ]
    },
    responses: {
      input: [
        hello,
        { type: "message", role: "assistant", content: [{ type: "refusal", refusal: "No." }] },
        { role: "user", content: "Why?" }
      ]
    }
  },

  "asks for output of a schema": {
    chat: {
      response_format: { type: "json_schema", json_schema: { name: "place", schema: city, strict: true } }
    },
    messages: { output_config: { format: { type: "json_schema", schema: city } } },
    responses: { text: { format: { type: "json_schema", name: "place", schema: city, strict: true } } },
    native: { responseFormat: { type: "json-schema", schema: city } }
  },

  "asks for output of a schema with an optional member": {
    messages: { output_config: { format: { type: "json_schema", schema: { ...city, required: [] } } } },
    native: { responseFormat: { type: "json-schema", schema: { ...city, required: [] } } }
  },

  "asks for output of an object of any shape, or null": {
    messages: { output_config: { format: { type: "json_schema", schema: { type: ["object", "null"] } } } },
    native: { responseFormat: { type: "json-schema", schema: { type: ["object", "null"] } } }
  },

  "asks for JSON of any shape": {
    chat: { response_format: { type: "json_object" } },
    responses: { text: { format: { type: "json_object" } } }
  },

  "asks a stream for its usage": {
    chat: { stream: true },
    messages: { stream: true },
    responses: { stream: true },
    native: { stream: true }
  },

  "thinks within a budget": {
    chat: { reasoning_effort: "medium", max_completion_tokens: 8000, temperature: 0 },
    messages: { thinking: { type: "enabled", budget_tokens: 5000 }, max_tokens: 8000 },
    responses: { reasoning: { effort: "medium", summary: "auto" }, max_output_tokens: 8000 },
    native: { reasoning: { effort: "medium" }, maxTokens: 8000 }
  },

  "thinks as much as the model finds right": {
    chat: { model: opus, reasoning_effort: "xhigh", temperature: 0 },
    messages: { model: opus, thinking: { type: "adaptive" }, output_config: { effort: "xhigh" } },
    responses: { model: opus, reasoning: { effort: "xhigh", summary: "auto" } }
  },

  "gives the model its signed thoughts back": {
    messages: {
      thinking: { type: "enabled", budget_tokens: 2000 },
      messages: [
        hello,
        {
          role: "assistant",
          content: [
            { type: "thinking", thinking: "hm", signature: "sig" },
            { type: "redacted_thinking", data: "hidden" },
            use("a", "now", { zone: "UTC" })
          ]
        },
        { role: "user", content: [{ type: "tool_result", tool_use_id: "a", content: "noon" }] }
      ],
      ...asMessages
    },
    responses: {
      reasoning: { effort: "low" },
      input: [
        hello,
        {
          type: "reasoning",
          summary: [{ type: "summary_text", text: "hm" }],
          encrypted_content: readableSeal([{ type: "thinking", thinking: "hm", signature: "sig" }])
        },
        item("a", "now", '{"zone":"UTC"}'),
        output("a", "noon")
      ],
      ...asResponses
    }
  },

  "names a user": {
    chat: { user: "ada" },
    messages: { metadata: { user_id: "ada" } },
    responses: { safety_identifier: "ada" }
  },

  "names a user as OpenAI takes it, a long name by its digest": {
    messages: { metadata: { user_id: "a".repeat(65) } }
  },

  "carries marks of what is to be cached to Anthropic alone": {
    chat: {
      prompt_cache_key: "k",
      messages: [{ role: "user", content: [{ type: "text", text: "Hi", cache_control: { type: "ephemeral" } }] }]
    },
    messages: {
      system: [{ type: "text", text: "Be brief.", cache_control: { type: "ephemeral", ttl: "1h" } }],
      messages: [{ role: "user", content: [{ type: "text", text: "Hi", cache_control: { type: "ephemeral" } }] }],
      tools: [{ name: "now", input_schema: zone, cache_control: { type: "ephemeral" } }]
    },
    responses: { prompt_cache_key: "k" }
  },

  "makes functions of custom tools and of those in a namespace": {
    responses: {
      input: [
        hello,
        { type: "custom_tool_call", call_id: "a", name: "patch", input: "+ a line" },
        { type: "custom_tool_call_output", call_id: "a", output: "done" },
        { ...item("b", "now", "{}"), namespace: "clock" },
        output("b", "noon")
      ],
      tools: [
        {
          type: "custom",
          name: "patch",
          description: "Applies a patch",
          format: { type: "grammar", syntax: "lark", definition: 'start: "+" /.+/' }
        },
        { type: "namespace", name: "clock", tools: [{ type: "function", name: "now", parameters: zone }] }
      ],
      tool_choice: { type: "custom", name: "patch" }
    }
  },

  "has Anthropic run its own search, and leaves the search out for others": {
    responses: {
      max_tool_calls: 3,
      tools: [
        {
          type: "web_search",
          filters: { allowed_domains: ["example.com"] },
          user_location: { type: "approximate", country: "NO", city: null }
        },
        ...asResponses.tools
      ]
    }
  }
}
