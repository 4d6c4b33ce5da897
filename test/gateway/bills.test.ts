import { assert, describe, it } from "@effect/vitest"
import { BillSheet, readAmount } from "#src/gateway/bills/domain.ts"
import { readLineItem } from "#src/gateway/bills/openai.ts"
import { parseExact } from "#src/kernel/json/canonical-json.ts"

const day = Date.parse("2026-11-20T00:00:00Z")
const dayMillis = 86_400_000
const place = {
  day: "2026-11-20",
  projectId: "",
  keyId: "",
  model: "gpt-5",
  tier: "",
  meter: "input",
  item: "gpt-5, input"
} as const

/** Nano-dollars of amounts in dollars, or in cents, that are added up. */
const nanoUsd = (amounts: ReadonlyArray<unknown>, power = 0) => {
  const sheet = new BillSheet(day, day + dayMillis)
  for (const amount of amounts) {
    const fine = readAmount(amount, power)
    if (typeof fine === "string") return fine
    sheet.add(place, { fine })
  }
  return sheet.lines.map(({ cost }) => cost)
}

describe("amounts of bills", () => {
  it.each([
    ["0.06", 60_000_000n],
    ["0.8958740000000001", 895_874_000n],
    ["0.89587400050000001", 895_874_001n],
    ["1e-7", 100n],
    ["1.5E2", 150_000_000_000n],
    ["123456.123456789123", 123_456_123_456_789n],
    ["1000000", 1_000_000_000_000_000n]
  ])("a number %s is exact", (text, expected) => {
    assert.deepStrictEqual(nanoUsd([parseExact(text)]), [expected])
  })

  it("parts of a nano-dollar are added before they are rounded", () => {
    const part = parseExact("0.00000000025")
    assert.deepStrictEqual(nanoUsd([part, part, part, part]), [1n])
    assert.deepStrictEqual(nanoUsd([part]), [])
    assert.deepStrictEqual(nanoUsd([part, part]), [1n])
  })

  it("text in cents is exact", () => {
    assert.deepStrictEqual(nanoUsd(["123.45"], -2), [1_234_500_000n])
    assert.deepStrictEqual(nanoUsd(["0.0000001"], -2), [1n])
  })

  it.each([
    ["NaN", "no decimal number"],
    ["Infinity", "no decimal number"],
    ["-0.01", "below zero"],
    ["1e30", "above a million"],
    ["1000000.000000001", "above a million"],
    ["9".repeat(40), "above a million"],
    ["1e999", "above a million"],
    ["1e99999999999", "no decimal number"],
    ["0x10", "no decimal number"],
    ["", "no decimal number"],
    [null, "no decimal number"],
    [{}, "no decimal number"],
    [true, "no decimal number"],
    [Number.NaN, "no decimal number"],
    [-1, "below zero"]
  ])("%s is refused: %s", (given, fault) => {
    const refused = readAmount(given)
    assert.include(String(refused), fault)
    assert.isString(refused)
  })

  it.each(["1e30", "1e999999999", "-5", "1000000000000000000000000000000.5"])("a JSON number %s is refused", (text) => {
    assert.isString(readAmount(parseExact(text)))
  })

  it("zero without a sign that matters, and with any exponent, is zero", () => {
    assert.strictEqual(readAmount("-0"), 0n)
    assert.strictEqual(readAmount("0e99"), 0n)
  })

  it("a bill has a largest sum and a largest count", () => {
    const sheet = new BillSheet(day, day + dayMillis)
    const fine = readAmount("1000000") as bigint
    const faults = Array.from({ length: 1001 }, (_, index) => sheet.add({ ...place, keyId: `${index}` }, { fine }))
    assert.isUndefined(faults[999])
    assert.isString(faults[1000])
    const counts = new BillSheet(day, day + dayMillis)
    assert.isUndefined(counts.add(place, { quantity: Number.MAX_SAFE_INTEGER }))
    assert.isString(counts.add(place, { quantity: 1 }))
  })

  it("only whole days of the range are days of a bill", () => {
    const sheet = new BillSheet(day, day + 2 * dayMillis)
    assert.strictEqual(sheet.dayAt(day + dayMillis), "2026-11-21")
    for (const at of [day - dayMillis, day + 1000, day + 2 * dayMillis, Number.NaN]) assert.isUndefined(sheet.dayAt(at))
  })
})

describe("OpenAI's line items", () => {
  it.each([
    ["gpt-5.5-2026-04-23, input", "gpt-5.5-2026-04-23", "", "input"],
    ["gpt-5.5-2026-04-23, cached input", "gpt-5.5-2026-04-23", "", "cached-input"],
    ["priority | gpt-5.6-sol, output, long context", "gpt-5.6-sol", "priority", "output"],
    ["batch | gpt-5-mini, input", "gpt-5-mini", "batch", "input"],
    ["fast | gpt-5, input", "gpt-5", "priority", "input"],
    ["gpt-audio-mini-2025-12-15 audio, input", "gpt-audio-mini-2025-12-15", "", "audio-input"],
    ["gpt-image-2.5-sunburst text, cached input", "gpt-image-2.5-sunburst", "", "cached-input"],
    ["gpt-image-2.5-flare image, output", "gpt-image-2.5-flare", "", "image-output"],
    ["ft-gpt-4o-2024-08-06, input", "ft-gpt-4o-2024-08-06", "", "input"],
    ["whisper-1, audio", "whisper-1", "", "other"],
    ["web search tool calls", "", "", "other"],
    ["assistants api | file search", "", "", "other"],
    ["Vector storage", "", "", "other"]
  ])("%s", (item, model, tier, meter) => {
    assert.deepStrictEqual(readLineItem(item), { model, tier, meter } as ReturnType<typeof readLineItem>)
  })
})
