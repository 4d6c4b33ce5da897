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

  const error = { error: { code: 429, message: 'So "many" {of} [them]\n', status: "RESOURCE_EXHAUSTED" } }
  const read = { ...error, type: "error" }

  it.each([
    ["on one line", JSON.stringify(error)],
    ["on several", JSON.stringify(error, null, 2)],
    ["on several, ended by CRLF", JSON.stringify(error, null, 2).replaceAll("\n", "\r\n")],
    ["in a list", JSON.stringify([error])],
    ["in a list on several lines", `[${JSON.stringify(error, null, 2)}\n]`],
    ["after the elements of a list", `,\n${JSON.stringify(error)}\n]`],
    ["without a member around it", JSON.stringify({ object: "error", message: "Late" })],
    ["as a text alone", JSON.stringify({ error: "Late" })]
  ])("reads an error without a field %s, wherever it is cut and whatever follows", (_, bare) => {
    const [, found] = readAll([utf8(`data: a\n\n${bare}`)])
    assert.deepInclude(found, { event: "error", bare: bare.replace(/^,\n|\n\]$/g, bare.startsWith(",") ? "" : "$&") })
    if (bare.includes("429")) assert.deepStrictEqual(JSON.parse(found?.data ?? ""), read)
    for (const [before, after] of [
      ["", ""],
      ["data: a\n\n", "\n\n"],
      ["data: a\r\n\r\n", "\r\n\r\ndata: b\n\n"],
      ["data: a\n", "\ndata: b\n\n"],
      [":\n\ndata: a\r", "\rdata: b\r\r"]
    ] as const) {
      const bytes = utf8(before + bare + after)
      const expected = [...(before === "" ? [] : ["a"]), found?.data, ...(after.includes("b") ? ["b"] : [])]
      for (let cut = 0; cut <= bytes.length; cut++) {
        const cuts = [bytes.subarray(0, cut), bytes.subarray(cut)]
        assert.deepStrictEqual(data(cuts), expected, `${JSON.stringify(before)} cut at ${cut}`)
      }
      assert.deepStrictEqual(data(Array.from(bytes, (byte) => Uint8Array.of(byte))), expected)
    }
  })

  it("reads an error without a field before its stream ends", () => {
    assert.lengthOf(new EventReader().push(utf8(JSON.stringify(error))), 1)
  })

  it.each([
    ["no error", '{"a":1}\n'],
    ["an answer with an error in it", '{"choices":[{}],"error":{"message":"x"}}\n\n'],
    ["no JSON", "{a\n\n"],
    ["JSON that is cut off by an event", '{"error":{\n'],
    ["a text that is cut off", '{"error":"\n'],
    ["more than an error has", `{"error":{"message":"${"x".repeat(70_000)}"}}\n`],
    ["deeper than any error", `${"[".repeat(60_000)}${"]".repeat(60_000)}\n`],
    ["brackets that do not match", "[}\n"]
  ])("ignores what else has no field, as lines of it are: %s", (_, line) => {
    const bytes = utf8(`data: a\n\n${line}data: {"b":\ndata: 1}\n\n${line}`)
    for (const size of [bytes.length, 7, 1]) {
      const chunks = Array.from({ length: Math.ceil(bytes.length / size) }, (_, index) =>
        bytes.subarray(index * size, (index + 1) * size)
      )
      assert.deepStrictEqual(data(chunks), ["a", '{"b":\n1}'])
    }
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
