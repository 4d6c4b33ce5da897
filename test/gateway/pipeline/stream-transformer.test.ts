import { assert, describe, it } from "vitest"
import { noUsage } from "../../../src/gateway/formats/domain.ts"
import { openAiChat } from "../../../src/gateway/formats/openai-chat/format.ts"
import { StreamTransformer } from "../../../src/gateway/pipeline/stream-transformer.ts"
import { readableSeal } from "../../support/turn-seals.ts"

const chunk = (content: string, finish_reason: string | null = null) =>
  `data: ${JSON.stringify({ id: "c", choices: [{ index: 0, delta: { content }, finish_reason }] })}`
const usage = { prompt_tokens: 3, completion_tokens: 2, total_tokens: 5 }
const used = `data: ${JSON.stringify({ id: "c", choices: [], usage })}`

/** What a caller who asked for the usage gets of a stream that arrives in these parts. */
const relayed = (...parts: ReadonlyArray<string>): string => {
  const transformer = new StreamTransformer({
    from: openAiChat,
    to: openAiChat,
    head: { id: "c", model: "m", createdSeconds: 17 },
    seal: readableSeal,
    includeUsage: true,
    keepsWords: false,
    writeError: ({ message }) => `data: ${message}\n\n`
  })
  const passed = parts.map((part) => transformer.push(Buffer.from(part)))
  const charged = { ...noUsage, inputTokens: 3, outputTokens: 2 }
  return Buffer.concat([...passed, transformer.end(charged, undefined)]).toString("utf8")
}

describe("a stream of chunks is the same for its caller, wherever the network cuts it", () => {
  const streams = {
    "with its usage": [chunk("data"), chunk("", "stop"), used, "data: [DONE]"],
    "that tells no usage": [chunk("data"), chunk("", "stop"), "data: [DONE]"],
    "that tells no finish reason": [chunk("data"), used, "data: [DONE]"],
    "that tells its end twice": [chunk("data"), chunk("", "stop"), used, "data: [DONE]", "data: [DONE]", chunk("more")],
    "that has no terminator": [chunk("data"), chunk("", "stop"), used]
  }
  for (const [what, events] of Object.entries(streams)) {
    for (const [name, lineEnd] of Object.entries({ "line feeds": "\n", "carriage returns too": "\r\n" })) {
      it(`${what}, ${name}`, () => {
        const stream = events.map((event) => event + lineEnd + lineEnd).join("")
        const whole = relayed(stream)
        if (what === "that tells no usage") assert.match(whole, /"usage":\{[^\n]*\n\ndata: \[DONE\]\n\n$/)
        else if (what === "that tells no finish reason")
          assert.match(whole, /"finish_reason":"stop"\}\]\}\n\ndata: \[DONE\]\n\n$/)
        else if (what === "that tells its end twice") assert.match(whole, /^[^]*?\[DONE\]\s*$/)
        else assert.strictEqual(whole, stream)
        for (let at = 1; at < stream.length; at++) {
          assert.strictEqual(relayed(stream.slice(0, at), stream.slice(at)), whole, `cut at ${at}`)
        }
        assert.strictEqual(relayed(...stream), whole, "byte by byte")
      })
    }
  }
})

describe("an error that its provider sends as JSON without an event", () => {
  const error = { error: { code: 429, message: "So many {[\u00e9\n]}" } }
  const bare = { "on one line": JSON.stringify(error), "in a list": JSON.stringify([error], null, 2) }
  for (const [what, json] of Object.entries(bare)) {
    it(`follows the events as one of the caller's, wherever the network cuts it: ${what}`, () => {
      const told = `${chunk("data")}\n\n`
      const stream = `${told}${json}\n\n${used}\n\n`
      for (let at = 1; at < stream.length; at++) {
        const found = relayed(stream.slice(0, at), stream.slice(at))
        assert.strictEqual(found, `${told}data: ${error.error.message}\n\n`, `cut at ${at}`)
      }
      assert.strictEqual(relayed(...stream), `${told}data: ${error.error.message}\n\n`, "byte by byte")
    })
  }
})

it("a chunk may call very many tools", () => {
  const calls = Array.from({ length: 200_000 }, (_, index) => ({ index, function: { name: "f", arguments: "{}" } }))
  const choices = [{ index: 0, delta: { tool_calls: calls }, finish_reason: "tool_calls" }]
  const stream = [`data: ${JSON.stringify({ id: "c", choices })}`, used, "data: [DONE]", ""].join("\n\n")
  assert.strictEqual(relayed(stream), stream)
})
