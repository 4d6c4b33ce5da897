import { assert, describe, it } from "@effect/vitest"
import { compareDay, type Compared, type DayLine } from "#src/insights/reconciliation/comparison-domain.ts"

const usd = 1_000_000_000n
const million = 1_000_000n

const line = (given: Partial<DayLine>): DayLine => ({
  source: "provider",
  projectId: "",
  keyId: "",
  model: "gpt-5",
  tier: "",
  meter: "input",
  item: "",
  cost: 0n,
  listCost: null,
  quantity: null,
  ...given
})

/** Usage and costs of the provider, in millions of tokens at dollars per million. */
const billed = (tokens: bigint, rate: bigint, given: Partial<DayLine> = {}): ReadonlyArray<DayLine> => [
  line({ quantity: tokens * million, ...given }),
  line({ cost: tokens * rate * usd, item: "an item", ...given })
]
const charged = (tokens: bigint, rate: bigint, given: Partial<DayLine> = {}): DayLine =>
  line({ source: "gateway", quantity: tokens * million, cost: tokens * rate * usd, ...given })
const requests = (source: DayLine["source"], quantity: bigint, given: Partial<DayLine> = {}): DayLine =>
  line({ source, meter: "requests", quantity, ...given })

const settled = { ownKeys: undefined, isSettled: true }

const only = (lines: ReadonlyArray<DayLine>, options = settled as Parameters<typeof compareDay>[1]): Compared => {
  const [one, ...others] = compareDay(lines, options)
  assert.lengthOf(others, 0)
  if (one === undefined) assert.fail("nothing was compared")
  const sum = one.explanations.reduce((total, { amount }) => total + amount, 0n)
  assert.strictEqual(sum, one.billed - one.charged, "the explanations are the difference")
  return one
}

const kinds = ({ explanations }: Compared) => explanations.map(({ amount, kind }) => [kind, amount] as const)

describe("a day of a bill", () => {
  it("that agrees has nothing to explain", () => {
    const one = only([...billed(10n, 2n), charged(10n, 2n), requests("provider", 3n), requests("gateway", 3n)])
    assert.deepStrictEqual(kinds(one), [])
    assert.deepInclude(one, { billed: 20n * usd, charged: 20n * usd, unexplained: 0n, isFinding: false })
  })

  it("with batches that were charged in full says what the discount is", () => {
    const one = only([
      ...billed(6n, 2n),
      ...billed(4n, 1n, { tier: "batch" }),
      charged(10n, 2n),
      requests("provider", 3n),
      requests("gateway", 3n)
    ])
    assert.deepStrictEqual(kinds(one), [["batch", -4n * usd]])
    assert.isFalse(one.isFinding)
  })

  it("whose batches are charged as such agrees", () => {
    const one = only([...billed(4n, 1n, { tier: "batch" }), charged(4n, 1n, { tier: "batch" })])
    assert.deepStrictEqual(kinds(one), [])
  })

  it("with a batch that was charged on another day says so, on both days", () => {
    const options = { ownKeys: undefined, isSettled: true, hasBatches: true }
    const ran = only([...billed(6n, 2n), ...billed(4n, 1n, { tier: "batch" }), charged(6n, 2n)], options)
    assert.deepStrictEqual(kinds(ran), [["batch", 4n * usd]])
    const ended = only([...billed(6n, 2n), charged(6n, 2n), charged(4n, 1n, { tier: "batch" })], options)
    assert.deepStrictEqual(kinds(ended), [["batch", -4n * usd]])
    const counts = [requests("provider", 3n), requests("gateway", 3n)]
    const elsewhere = only([...billed(6n, 2n), ...billed(4n, 1n, { tier: "batch" }), charged(6n, 2n), ...counts])
    assert.isTrue(elsewhere.isFinding)
  })

  it("with a tier whose cost is not reported apart says so within bounds", () => {
    const one = only([
      line({ quantity: 6n * million }),
      line({ quantity: 4n * million, tier: "batch" }),
      line({ cost: 16n * usd, item: "an item" }),
      charged(10n, 2n)
    ])
    assert.deepStrictEqual(kinds(one), [["batch", -4n * usd]])
  })

  it("at a dearer tier than was charged says what it costs", () => {
    const one = only([...billed(6n, 2n), ...billed(4n, 4n, { tier: "priority" }), charged(10n, 2n)])
    assert.deepStrictEqual(kinds(one), [["tier", 8n * usd]])
    assert.match(one.explanations[0]?.detail ?? "", /4000000 more tokens at the tier priority/)
  })

  it("charged at a tier that was not served says what was charged too much", () => {
    const one = only([...billed(10n, 2n), charged(6n, 2n), charged(4n, 4n, { tier: "priority" })])
    assert.deepStrictEqual(kinds(one), [["tier", -8n * usd]])
  })

  it("with more requests than ours has other clients of the keys", () => {
    const one = only([...billed(15n, 2n), charged(10n, 2n), requests("provider", 5n), requests("gateway", 3n)])
    assert.deepStrictEqual(kinds(one), [["other-clients", 10n * usd]])
    assert.isFalse(one.isFinding)
  })

  it("with more tokens in as many requests is a finding", () => {
    const one = only([...billed(15n, 2n), charged(10n, 2n), requests("provider", 3n), requests("gateway", 3n)])
    assert.deepStrictEqual(kinds(one), [["unknown", 10n * usd]])
    assert.isTrue(one.isFinding)
  })

  it("with fewer tokens than were charged is a finding", () => {
    const one = only([...billed(5n, 2n), charged(10n, 2n), requests("provider", 2n), requests("gateway", 3n)])
    assert.deepStrictEqual(kinds(one), [["unknown", -10n * usd]])
    assert.isTrue(one.isFinding)
  })

  it("with keys of others sets them apart, and compares its own", () => {
    const own = { keyId: "key_own" }
    const other = { keyId: "key_other" }
    const one = only(
      [
        ...billed(10n, 2n, own),
        ...billed(30n, 2n, other),
        requests("provider", 3n, own),
        requests("provider", 9n, other),
        charged(10n, 2n),
        requests("gateway", 3n)
      ],
      { ownKeys: new Set(["key_own"]), isSettled: true }
    )
    assert.deepStrictEqual(kinds(one), [["other-keys", 60n * usd]])
    assert.deepStrictEqual(
      one.keys.map(({ billed, isOwn, keyId, requests }) => [keyId, isOwn, billed, requests]),
      [
        ["key_other", false, 60n * usd, 9n],
        ["key_own", true, 20n * usd, 3n]
      ]
    )
  })

  it("whose costs have no key gives others their share of the tokens", () => {
    const one = only(
      [
        line({ quantity: 10n * million, keyId: "key_own" }),
        line({ quantity: 30n * million, keyId: "key_other" }),
        line({ cost: 80n * usd, item: "an item" }),
        charged(10n, 2n)
      ],
      { ownKeys: new Set(["key_own"]), isSettled: true }
    )
    assert.deepStrictEqual(kinds(one), [["other-keys", 60n * usd]])
  })

  it("at another price names both rates, and is a finding", () => {
    const one = only([...billed(10n, 3n), charged(10n, 2n), requests("provider", 3n), requests("gateway", 3n)])
    assert.deepStrictEqual(kinds(one), [["price", 10n * usd]])
    assert.include(one.explanations[0]?.detail, "input is billed at 3 and charged at 2")
    assert.isTrue(one.isFinding)
  })

  it("below list prices has a discount, which is none", () => {
    const one = only([
      line({ quantity: 10n * million }),
      line({ cost: 18n * usd, listCost: 20n * usd, item: "an item" }),
      charged(10n, 2n)
    ])
    assert.deepStrictEqual(kinds(one), [["discount", -2n * usd]])
    assert.isFalse(one.isFinding)
  })

  it("that is not settled is late, whatever differs", () => {
    const one = only([...billed(5n, 3n), charged(10n, 2n)], { ownKeys: undefined, isSettled: false })
    assert.deepStrictEqual([...new Set(one.explanations.map(({ kind }) => kind))], ["late"])
    assert.deepInclude(one, { unexplained: 0n, isFinding: false })
  })

  it("with calls that ended without a count explains what was estimated", () => {
    const one = only([
      ...billed(11n, 2n),
      charged(10n, 2n),
      line({ source: "gateway", meter: "other", item: "estimated", cost: 5n * usd }),
      requests("provider", 4n),
      requests("gateway", 4n)
    ])
    assert.deepStrictEqual(kinds(one), [["estimated", -3n * usd]])
    assert.isFalse(one.isFinding)
  })

  it("differs by less than a dollar, or one per cent, without a finding", () => {
    const little = only([...billed(1n, 2n), charged(1n, 3n)])
    assert.deepInclude(little, { unexplained: -usd, isFinding: false })
    const much = only([...billed(100n, 3n), line({ source: "gateway", quantity: 100n * million, cost: 298n * usd })])
    assert.deepInclude(much, { unexplained: 2n * usd, isFinding: false })
    const more = only([...billed(100n, 3n), line({ source: "gateway", quantity: 100n * million, cost: 296n * usd })])
    assert.deepInclude(more, { unexplained: 4n * usd, isFinding: true })
  })

  it("without usage that is reported has an unknown difference", () => {
    const one = only([line({ model: "whisper-1", meter: "other", cost: 3n * usd, item: "whisper-1, audio" })])
    assert.deepStrictEqual(kinds(one), [["unknown", 3n * usd]])
    assert.isTrue(one.isFinding)
  })
})

describe("models of bills", () => {
  it("are those of charges whose names differ by a date", () => {
    const one = only([...billed(10n, 2n, { model: "gpt-5-2025-08-07" }), charged(10n, 2n)])
    assert.deepInclude(one, { model: "gpt-5", billedModels: ["gpt-5-2025-08-07"] })
  })

  it("stay apart where two versions were charged", () => {
    const all = compareDay(
      [
        ...billed(10n, 5n, { model: "gpt-4o-2024-05-13" }),
        ...billed(10n, 2n, { model: "gpt-4o-2024-08-06" }),
        charged(10n, 5n, { model: "gpt-4o-2024-05-13" }),
        charged(10n, 2n, { model: "gpt-4o-2024-08-06" })
      ],
      settled
    )
    assert.deepStrictEqual(
      all.map(({ billed, charged, model }) => [model, billed, charged]),
      [
        ["gpt-4o-2024-05-13", 50n * usd, 50n * usd],
        ["gpt-4o-2024-08-06", 20n * usd, 20n * usd]
      ]
    )
  })

  it("have the fees of tools apart where the provider bills them apart", () => {
    const all = compareDay(
      [
        ...billed(10n, 2n),
        line({ model: "", meter: "other", cost: 5n * usd, item: "web search tool calls" }),
        charged(10n, 2n),
        line({ source: "gateway", meter: "other", item: "fees", cost: 5n * usd })
      ],
      settled
    )
    assert.deepStrictEqual(
      all.map(({ billed, charged, model }) => [model, billed, charged]),
      [
        ["", 5n * usd, 5n * usd],
        ["gpt-5", 20n * usd, 20n * usd]
      ]
    )
  })
})
