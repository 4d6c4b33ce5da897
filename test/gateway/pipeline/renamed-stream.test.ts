import { assert, describe, it } from "vitest"
import { anthropicMessages } from "../../../src/gateway/formats/anthropic-messages/format.ts"
import { noUsage } from "../../../src/gateway/formats/domain.ts"
import { openAiChat } from "../../../src/gateway/formats/openai-chat/format.ts"
import { answerScope, renaming } from "../../../src/gateway/json/kept-ids.ts"
import { StreamTransformer, type StreamOptions } from "../../../src/gateway/pipeline/stream-transformer.ts"
import { readableSeal } from "../../support/turn-seals.ts"

const relayed = (options: Partial<StreamOptions>, ...parts: ReadonlyArray<Uint8Array>): string => {
  const transformer = new StreamTransformer({
    from: openAiChat,
    to: openAiChat,
    head: { id: "c", model: "m", createdSeconds: 17 },
    seal: readableSeal,
    includeUsage: true,
    keepsWords: false,
    rename: renaming(answerScope, (id) => `ours-${id}`),
    writeError: ({ message }) => `event: error\ndata: ${message}\n\n`,
    ...options
  })
  const passed: Array<Uint8Array> = []
  for (const part of parts) {
    passed.push(transformer.push(part))
    if (transformer.done || transformer.failure !== undefined) break
  }
  passed.push(transformer.end({ ...noUsage, inputTokens: 3, outputTokens: 2 }, undefined))
  // Nothing is read after the last event, of which a line feed may be left.
  return Buffer.concat(passed).toString("utf8").trimEnd()
}

const messages = { from: anthropicMessages, to: anthropicMessages } as const
const event = (data: { readonly type: string; readonly [member: string]: unknown }) =>
  `event: ${data.type}\ndata: ${JSON.stringify(data)}`
const container = { id: "cntr_secret", expires_at: "2026-11-26T00:00:00Z" }
const usage = { input_tokens: 3, output_tokens: 2 }
const message = [
  event({ type: "message_start", message: { id: "msg_1", content: [], container, usage } }),
  event({ type: "content_block_start", index: 0, content_block: { type: "text", text: "" } }),
  event({ type: "ping" }),
  event({ type: "content_block_delta", index: 0, delta: { type: "text_delta", text: 'Zoë "file_id":"file_said" 😀' } }),
  event({
    type: "content_block_start",
    index: 1,
    content_block: {
      type: "bash_code_execution_tool_result",
      tool_use_id: "srvtoolu_1",
      content: { type: "bash_code_execution_result", content: [{ type: "x", file_id: "file_secret" }] }
    }
  }),
  event({ type: "message_delta", delta: { stop_reason: "end_turn", container }, usage }),
  event({ type: "message_stop" })
]
const chunk = (delta: object, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ id: "chatcmpl-1", choices: [{ index: 0, delta, finish_reason }] })}`
const chunks = [
  chunk({ role: "assistant", audio: { id: "audio_secret", data: "" } }),
  chunk({ content: 'é "container_id":"said"', tool_calls: [{ index: 0, id: "call_1" }] }),
  chunk({}, "stop"),
  `data: ${JSON.stringify({ id: "chatcmpl-1", choices: [], usage: { prompt_tokens: 3, completion_tokens: 2 } })}`,
  "data: [DONE]"
]

const secrets = /(?<!ours-)(?:cntr|file|audio)_secret/
const streams = { messages: [messages, message], chunks: [{}, chunks] } as const

describe("the ids in a stream that passes as bytes", () => {
  for (const [what, [options, events]] of Object.entries(streams)) {
    for (const [name, end] of Object.entries({
      "line feeds": "\n",
      "both ends of lines": "\r\n",
      "carriage returns": "\r"
    })) {
      const stream = Buffer.from(events.map((one) => one.replaceAll("\n", end) + end + end).join(""))
      it(`become the gateway's wherever the network cuts ${what} with ${name}; the rest stays byte for byte`, () => {
        const whole = relayed(options, stream)
        assert.notMatch(whole, secrets)
        const back = whole.replaceAll("ours-", "")
        const kept = events.filter((one) => !one.includes("_secret"))
        for (const one of kept) assert.include(whole, one.replaceAll("\n", end))
        assert.strictEqual(back, stream.toString().trimEnd())
        for (let at = 1; at < stream.length; at++) {
          assert.strictEqual(relayed(options, stream.subarray(0, at), stream.subarray(at)), whole, `cut at ${at}`)
        }
        assert.strictEqual(
          relayed(options, ...Array.from(stream, (byte) => Uint8Array.of(byte))),
          whole,
          "byte by byte"
        )
      })

      it(`do not pass where ${what} with ${name} break off at any byte`, () => {
        for (let at = 0; at < stream.length; at++) {
          const cut = relayed(options, stream.subarray(0, at))
          assert.notMatch(cut, secrets, `broken off at ${at}`)
          // What the gateway adds is an event of its own.
          for (const line of cut.split(/\r\n|\r|\n/)) assert.notMatch(line, /^data: .*event: error/)
        }
      })
    }
  }

  it("become the gateway's in an event of several lines, and after a byte order mark", () => {
    const stream = `\uFEFFdata: {"choices":[{"delta":\r\ndata: {"audio":{"id":"audio_secret"}}}]}\nid: 7\n\n${chunk({}, "stop")}\n\ndata: [DONE]\n\n`
    const out = relayed({ includeUsage: false, to: openAiChat }, Buffer.from(stream))
    assert.notMatch(out, secrets)
    assert.include(out, "ours-audio_secret")
    const passed = relayed({}, Buffer.from(stream))
    assert.notMatch(passed, secrets)
    assert.include(passed, "id: 7")
  })

  it("become the gateway's in a last event without the empty line after it", () => {
    const stream = [...message.slice(0, -1), message.at(-1)].join("\n\n")
    const out = relayed(messages, Buffer.from(stream))
    assert.notMatch(out, secrets)
    const last = [message[0], message[5]].join("\n\n")
    assert.notMatch(relayed(messages, Buffer.from(last)), secrets)
    assert.include(relayed(messages, Buffer.from(last)), '"stop_reason":"end_turn"')
  })
})
