import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { EventReader } from "../../../src/gateway/formats/event-reader.ts"

const readAll = (chunks: ReadonlyArray<Uint8Array>) => {
  const reader = new EventReader()
  return [...chunks.flatMap((chunk) => reader.push(chunk)), ...reader.end()]
}

const data = (chunks: ReadonlyArray<Uint8Array>) => readAll(chunks).map((event) => event.data)

const utf8 = (text: string) => new TextEncoder().encode(text)

describe("reading Server-Sent Events", () => {
  const texts = ["Grüße, 世界 🌍", '{"a":"\\u00e9"}', "[DONE]"]

  it.each(["\n", "\r\n", "\r"])("reads every cut of bytes alike, with line ends %j", (lineEnd) => {
    const bytes = utf8(texts.map((text) => `data: ${text}${lineEnd}${lineEnd}`).join(""))
    for (let cut = 0; cut <= bytes.length; cut++) {
      assert.deepStrictEqual(data([bytes.subarray(0, cut), bytes.subarray(cut)]), texts, `cut at ${cut}`)
    }
    assert.deepStrictEqual(data(Array.from(bytes, (byte) => Uint8Array.of(byte))), texts)
  })

  it("reads over comments and pings, and keeps names", () => {
    const stream = ": hello\n\n:\n\nevent: ping\ndata: {}\n\n: still there\ndata: a\n: within\ndata: b\n\n"
    assert.deepStrictEqual(readAll([utf8(stream)]), [
      { event: "ping", data: "{}" },
      { event: "message", data: "a\nb" }
    ])
  })

  it("reads the last event of a stream that ends without an empty line", () => {
    assert.deepStrictEqual(data([utf8("data: a\n\ndata: [DONE]")]), ["a", "[DONE]"])
  })

  it("gives up on an event that does not end", () => {
    const reader = new EventReader()
    const megabyte = utf8("x".repeat(1_048_576))
    for (let sent = 0; sent < 12; sent++) reader.push(megabyte)
    assert.isDefined(reader.failure)
  })

  it.prop("any texts in any cuts", [Schema.Array(Schema.String), Schema.Array(Schema.Int)], ([given, cuts]) => {
    const lines = given
      .map((text) => text.replaceAll(/[\r\n\0]/g, ""))
      .filter((text) => text !== "" && text.isWellFormed())
    const bytes = utf8(lines.map((text) => `data: ${text}\n\n`).join(""))
    const places = cuts.map((cut) => Math.abs(cut) % (bytes.length + 1)).toSorted((a, b) => a - b)
    const chunks = [0, ...places].map((place, index) => bytes.subarray(place, places[index] ?? bytes.length))
    assert.deepStrictEqual(data(chunks), lines)
  })
})
