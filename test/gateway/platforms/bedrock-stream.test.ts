import { assert, describe, it } from "@effect/vitest"
import { EventStreamCodec } from "@smithy/eventstream-codec"
import { Cause, Effect, Exit } from "effect"
import { asServerEvents, BedrockStream } from "../../../src/gateway/providers/platforms/bedrock-stream.ts"
import { chunkFrame, exceptionFrame, frame } from "../../support/aws-vendor.ts"

const events = [
  { type: "message_start", message: { id: "msg_1", usage: { input_tokens: 3, output_tokens: 1 } } },
  { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "Mittag in Tromsø \u{1F31E}\n" } },
  { type: "message_delta", delta: { stop_reason: "end_turn" }, usage: { output_tokens: 2 } },
  { type: "message_stop", "amazon-bedrock-invocationMetrics": { inputTokenCount: 9, outputTokenCount: 9 } }
]
const frames = events.map(chunkFrame)
const bytes = Buffer.concat(frames)
const written = events.map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`).join("")

const utf8 = new TextDecoder()
const reader = () => new BedrockStream("request-1")

const answer = (first: Uint8Array) =>
  asServerEvents({
    status: 200,
    headers: { "content-type": "application/vnd.amazon.eventstream" },
    body: { first: [first], rest: Cause.done() }
  }).body

describe("a stream of Bedrock", () => {
  it("has frames as AWS's own codec reads and writes them", () => {
    const codec = new EventStreamCodec(
      (given) => (typeof given === "string" ? given : utf8.decode(given)),
      (text) => new TextEncoder().encode(text)
    )
    const headers = { ":event-type": { type: "string" as const, value: "chunk" } }
    const body = new TextEncoder().encode("{}")
    assert.deepStrictEqual(Buffer.from(codec.encode({ headers, body })), frame({ ":event-type": "chunk" }, "{}"))
  })

  it("is read alike wherever it is cut", () => {
    for (let at = 0; at <= bytes.length; at++) {
      const stream = reader()
      const read = stream.push(bytes.subarray(0, at)) + stream.push(bytes.subarray(at))
      assert.strictEqual(read, written)
      assert.isTrue(stream.isWhole)
    }
    const byByte = reader()
    const read = Array.from(bytes, (byte) => byByte.push(Uint8Array.of(byte))).join("")
    assert.strictEqual(read, written)
  })

  it("is damaged from any byte on that was changed, and nothing after it is read", () => {
    const [before = Buffer.alloc(0), after = Buffer.alloc(0), ...rest] = frames
    for (let at = 0; at < after.length; at++) {
      for (const bit of [1, 0x80]) {
        const changed = Buffer.from(after)
        changed[at] = (changed[at] ?? 0) ^ bit
        const stream = reader()
        const read = [before, changed, ...rest].map((part) => stream.push(part)).join("")
        assert.strictEqual(read, written.slice(0, written.indexOf("event: content_block_delta")), `${at}`)
        assert.isTrue(stream.isDamaged)
      }
    }
  })

  it("has no frame that is larger than any, or smaller than one without content", () => {
    for (const length of [0, 15, 16_777_217, 0xff_ff_ff_ff]) {
      const whole = frame({}, "")
      whole.writeUInt32BE(length, 0)
      const stream = reader()
      stream.push(whole)
      assert.isTrue(stream.isDamaged, `${length}`)
    }
  })

  it("takes Bedrock's own count where the events have none", () => {
    const stream = reader()
    const metrics = {
      inputTokenCount: 9,
      outputTokenCount: 4,
      cacheReadInputTokenCount: 2,
      cacheWriteInputTokenCount: 1
    }
    const [start, stop] = [
      { type: "message_start", message: {} },
      { type: "message_stop", "amazon-bedrock-invocationMetrics": metrics }
    ]
    const read = stream.push(Buffer.concat([start, stop].map(chunkFrame)))
    assert.include(
      read,
      `data: {"type":"message_delta","delta":{},"usage":{"input_tokens":9,"output_tokens":4,"cache_read_input_tokens":2,"cache_creation_input_tokens":1}}`
    )
  })

  it("tells exceptions and errors as Anthropic's errors", () => {
    const cases = [
      [exceptionFrame("throttlingException", "Slow down"), "rate_limit_error", "Slow down"],
      [exceptionFrame("modelTimeoutException", "Too long"), "timeout_error", "Too long"],
      [exceptionFrame("serviceUnavailableException", "Later"), "overloaded_error", "Later"],
      [exceptionFrame("modelStreamErrorException", "It broke"), "api_error", "It broke"],
      [exceptionFrame("validationException", "No"), "invalid_request_error", "No"],
      [exceptionFrame("brandNewException", "New"), "api_error", "New"],
      [
        frame({ ":message-type": "error", ":error-code": "InternalError", ":error-message": "Inside" }, ""),
        "api_error",
        "Inside"
      ]
    ] as const
    for (const [given, type, message] of cases) {
      const error = { type: "error", error: { type, message }, request_id: "request-1" }
      assert.strictEqual(reader().push(given), `event: error\ndata: ${JSON.stringify(error)}\n\n`)
    }
  })

  it("passes over what is no event of a message, and is damaged by an event that is no JSON", () => {
    const stream = reader()
    const others = [
      frame({ ":message-type": "event", ":event-type": "initial-response" }, "{}"),
      frame({}, ""),
      chunkFrame({ ping: true }),
      chunkFrame({ type: "message_stop\ndata: x" })
    ]
    assert.strictEqual(stream.push(Buffer.concat(others)), "")
    assert.isFalse(stream.isDamaged)
    stream.push(frame({ ":message-type": "event", ":event-type": "chunk" }, JSON.stringify({ bytes: "e30=" }).slice(1)))
    assert.isTrue(stream.isDamaged)
  })

  it.effect("fails where it ends within a frame", () =>
    Effect.gen(function* () {
      for (const [given, isWhole] of [
        [bytes, true],
        [bytes.subarray(0, -1), false]
      ] as const) {
        const body = answer(given)
        assert.notInstanceOf(body, Uint8Array)
        if (body instanceof Uint8Array) return
        const exit = yield* Effect.exit(body.rest)
        const error = Exit.isFailure(exit) ? Cause.squash(exit.cause) : undefined
        assert.strictEqual(Cause.isDone(error), isWhole)
      }
    })
  )
})
