import { assert, describe, it } from "@effect/vitest"
import { Schema } from "effect"
import { withLineEndsOf, withLineFeeds } from "../../src/console/web/kit/texts/line-ends.ts"

describe("line ends of an edited file", () => {
  const mixed = "one\r\ntwo\nthree\rfour\r\n\r\nsix\n"

  it.each([
    ["nothing", (text: string) => text, mixed],
    ["a line that changed", (text: string) => text.replace("two", "2"), mixed.replace("two", "2")],
    ["a new line", (text: string) => text.replace("two", "two\nnew"), mixed.replace("two\n", "two\nnew\n")],
    ["a new line after CRLF", (text: string) => text.replace("one", "one\nnew"), mixed.replace("one", "one\r\nnew")],
    ["a line that is gone", (text: string) => text.replace("three\n", ""), mixed.replace("three\r", "")],
    [
      "two places",
      (text: string) => text.replace("one", "1").replace("six", "6"),
      mixed.replace("one", "1").replace("six", "6")
    ],
    ["no last end", (text: string) => text.slice(0, -1), mixed.slice(0, -1)]
  ])("are kept: %s", (_, edit, expected) => {
    assert.strictEqual(withLineEndsOf(mixed, edit(withLineFeeds(mixed))), expected)
  })

  it("are those of the file where it has one kind, also for new lines, and line feeds where it has none", () => {
    assert.strictEqual(withLineEndsOf("a\r\nb", "a\nnew\nb\n"), "a\r\nnew\r\nb\r\n")
    assert.strictEqual(withLineEndsOf("a\nb", "a\nnew\nb\n"), "a\nnew\nb\n")
    assert.strictEqual(withLineEndsOf("", "a\nb\n"), "a\nb\n")
  })

  const text = Schema.Array(Schema.Literals(["a", "b", "", "\n", "\r", "\r\n"]))

  it.prop("come back as they were for every text that was not edited", [text], ([parts]) => {
    const original = parts.join("")
    assert.strictEqual(withLineEndsOf(original, withLineFeeds(original)), original)
  })

  it.prop("never change what an edit wrote", [text, text], ([parts, others]) => {
    const edited = withLineFeeds(others.join(""))
    assert.strictEqual(withLineFeeds(withLineEndsOf(parts.join(""), edited)), edited)
  })

  it("are not joined where a line between them is emptied", () => {
    assert.strictEqual(withLineEndsOf("\ra\r\n\n", "\n\n"), "\r\r")
    assert.strictEqual(withLineEndsOf("one\rtwo\nthree\r\n", "one\n\nthree\n"), "one\r\rthree\r\n")
  })

  it("are found in a large file that changed everywhere", () => {
    const lines = Array.from({ length: 50_000 }, (_, at) => `line ${at}`)
    const original = lines.map((line, at) => line + (at % 2 === 0 ? "\r\n" : "\n")).join("")
    const edited = withLineEndsOf(original, lines.map((line) => `${line} changed\n`).join(""))
    assert.strictEqual(edited, original.replaceAll(/line \d+/g, "$& changed"))
  })
})
