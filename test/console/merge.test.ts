import { assert, describe, it } from "@effect/vitest"
import { mergeOf } from "../../src/console/web/kit/texts/merge.ts"

const block = (name: string, timeout: number) =>
  `${name}:\n  host: a\n  port: 1\n  tls: true\n  timeout: ${timeout}\n  retries: 3\n  pool: 4\n`
const blocks = (alpha: number, beta: number) => block("alpha", alpha) + block("beta", beta)

describe("two changes of one text", () => {
  it.each([
    ["of lines apart", blocks(30, 30), blocks(60, 30), blocks(30, 90), blocks(60, 90)],
    ["the first line, and behind the last one", "a\nb\nc\n", "A\nb\nc\n", "a\nb\nc\nd\n", "A\nb\nc\nd\n"],
    ["of which one removes lines", "a\nb\nc\nd\n", "d\n", "a\nb\nc\nd\ne\n", "d\ne\n"],
    ["of which one is none", "a\nb", "a\nb", "a\nc", "a\nc"],
    ["of an empty text", "", "a\n", "", "a\n"],
    ["of one line", blocks(30, 30), blocks(60, 30), blocks(90, 30), undefined],
    ["of lines side by side", "a\nb\n", "A\nb\n", "a\nB\n", undefined],
    ["at one place", "a\nb\n", "a\nx\nb\n", "a\ny\nb\n", undefined],
    ["of a last line without an end", "a\nb\nc", "a\nb\nc\nd", "A\nb\nc", "A\nb\nc\nd"]
  ])("%s", async (_, base, theirs, mine, expected) => {
    assert.strictEqual(await mergeOf(base, theirs, mine), expected)
    assert.strictEqual(await mergeOf(base, mine, theirs), expected)
  })
})
