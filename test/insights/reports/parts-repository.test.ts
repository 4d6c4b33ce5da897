import { assert, describe, it } from "@effect/vitest"
import { columnsOf, type PartColumns } from "../../../src/insights/reports/cells-domain.ts"
import { KeptParts } from "../../../src/insights/reports/parts-repository.ts"

const dayMillis = 86_400_000
const week = { grain: "d", opens: 10 * dayMillis, closes: 17 * dayMillis } as const

/** An array in PostgreSQL's binary format. */
const arrayOf = (elements: ReadonlyArray<Buffer>): Uint8Array => {
  const header = Buffer.alloc(20)
  header.writeInt32BE(elements.length, 12)
  return Buffer.concat([
    header,
    ...elements.flatMap((element) => {
      const length = Buffer.alloc(4)
      length.writeInt32BE(element.length)
      return [length, element]
    })
  ])
}
const integer = (bytes: number, value: number): Buffer => {
  const element = Buffer.alloc(bytes)
  element.writeIntBE(value, 0, bytes)
  return element
}
const bigint = (value: bigint): Buffer => {
  const element = Buffer.alloc(8)
  element.writeBigInt64BE(value)
  return element
}

const part = (day: number, columns: PartColumns) => ({ tenantId: "acme", dimension: 7, segment: week, day, columns })
const large = (day: number, elements: number) => part(day, { latencyBuckets: new Int16Array(elements) })

describe("the columns of a part", () => {
  it("are read from the arrays that PostgreSQL sends", () => {
    const texts = ["", "\ufeffmarked", "ключ", "ключ"]
    const costs = [0n, -1n, 2n ** 63n - 1n, -(2n ** 63n)]
    const { cost, keys, latencyCalls, latencyEnds, places } = columnsOf(
      ["keys", "places", "cost", "latencyEnds", "latencyCalls"],
      [
        arrayOf(texts.map((text) => Buffer.from(text))),
        arrayOf([0, 1, 2, 23].map((place) => integer(2, place))),
        arrayOf(costs.map(bigint)),
        arrayOf([70_000].map((end) => integer(4, end))),
        null
      ]
    )
    assert.deepStrictEqual(keys, texts)
    assert.deepStrictEqual([...places!], [0, 1, 2, 23])
    assert.deepStrictEqual(
      [...cost!.upper].map((upper, n) => (BigInt(upper) << 32n) + BigInt(cost!.lower[n]!)),
      costs
    )
    assert.deepStrictEqual([...latencyEnds!], [70_000])
    assert.isUndefined(latencyCalls)
  })

  it("are none of an array without elements", () => {
    assert.deepStrictEqual(columnsOf(["keys"], [Buffer.alloc(12)]).keys, [])
  })
})

describe("kept parts", () => {
  it("are those of a dimension and of a day in a segment, with all columns that are asked for", () => {
    const kept = new KeptParts(64 * 2 ** 20)
    for (const day of [9, 10, 16, 17]) kept.keep(`${day}`, part(day, { keys: ["ada"], places: new Int16Array(1) }))
    kept.keep("10", part(10, { latencyEnds: undefined }))
    assert.deepStrictEqual([...kept.among("acme", 7, [week], ["keys", "places"]).keys()].toSorted(), ["10", "16"])
    assert.deepStrictEqual([...kept.among("acme", 7, [week], ["keys", "places", "latencyEnds"]).keys()], ["10"])
    assert.deepStrictEqual([...kept.among("acme", 7, [{ ...week, grain: "w" }], ["keys"])], [])
    assert.deepStrictEqual([...kept.among("acme", 6, [week], ["keys"])], [])
    const rows = { grain: "r", opens: week.opens + 1, closes: week.opens + 2 } as const
    kept.keep("rows", { ...part(10, { keys: ["ada"] }), segment: rows })
    assert.deepStrictEqual([...kept.among("acme", 7, [rows], ["keys"]).keys()], ["rows"])
    assert.deepStrictEqual([...kept.among("acme", 7, [{ ...rows, opens: week.opens }], ["keys"])], [])
  })

  it("are those of a tenant where only these are wanted", () => {
    const kept = new KeptParts(64 * 2 ** 20)
    for (const tenantId of ["acme", "other"]) kept.keep(tenantId, { ...part(10, { keys: ["ada"] }), tenantId })
    assert.deepStrictEqual([...kept.among("acme", 7, [week], ["keys"]).keys()], ["acme"])
    assert.deepStrictEqual([...kept.among(undefined, 7, [week], ["keys"]).keys()], ["acme", "other"])
    assert.deepStrictEqual([...kept.among("third", 7, [week], ["keys"])], [])
  })

  it("have the columns of one read where rows came between two", () => {
    const earlier = { keys: ["gpt-5"], places: new Int16Array(1) }
    const later = { keys: ["claude", "gpt-5"], places: new Int16Array(2), latencyEnds: Int32Array.of(1, 2) }
    for (const reads of [
      [earlier, later],
      [later, earlier]
    ]) {
      const kept = new KeptParts(64 * 2 ** 20)
      for (const columns of reads) kept.keep("rows", part(10, columns))
      assert.deepStrictEqual(kept.among("acme", 7, [week], ["keys"]).get("rows"), later)
    }
  })

  it("take the memory of the characters of their keys", () => {
    const kept = new KeptParts(2 ** 20)
    const keys = Array.from({ length: 600 }, (_, index) => `${index}`.padEnd(1000, "ж"))
    for (const day of [10, 11]) kept.keep(`${day}`, part(day, { keys: keys.slice(0, 300) }))
    assert.deepStrictEqual([...kept.among("acme", 7, [week], ["keys"]).keys()], ["11"])
    kept.keep("12", part(12, { keys }))
    assert.isFalse(kept.among("acme", 7, [week], ["keys"]).has("12"))
  })

  it("go where they take too much memory, first those that were used longest ago", () => {
    const kept = new KeptParts(64 * 2 ** 20)
    for (const [day, version] of ["first", "second", "third"].entries()) kept.keep(version, large(10 + day, 1_200_000))
    kept.among("acme", 7, [{ ...week, closes: 11 * dayMillis }], ["latencyBuckets"])
    kept.keep("fourth", large(13, 2_400_000))
    assert.deepStrictEqual([...kept.among("acme", 7, [week], ["latencyBuckets"]).keys()].toSorted(), [
      "first",
      "fourth"
    ])
  })
})
