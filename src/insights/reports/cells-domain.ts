import { dayMillis } from "../usage/domain.ts"
import { hourMillis, quarterMillis, type Segment } from "./domain.ts"

/** Values of `bigint` in two halves of 32 bits, since each as a whole would be an object. */
interface Bigints {
  readonly upper: Int32Array
  readonly lower: Uint32Array
}

/** The columns of roll-ups that have sums of a cell. */
export const sumColumns = [
  "cost",
  "requests",
  "errors",
  "inputTokens",
  "outputTokens",
  "cachedInputTokens",
  "saved"
] as const
type SumColumn = (typeof sumColumns)[number]

/** The columns of roll-ups that are arrays: those of latencies have elements for each bucket, the others one for each cell. */
export interface Columns extends Readonly<Record<SumColumn, Bigints>> {
  readonly keys: ReadonlyArray<string>
  /** Which hour or quarter of the day. */
  readonly places: Int16Array
  /** Where the buckets of a cell end. */
  readonly latencyEnds: Int32Array
  readonly latencyBuckets: Int16Array
  readonly latencyCalls: Float64Array
}

/** Some columns of a part; `undefined` where it has no values of one. */
export type PartColumns = { readonly [Name in keyof Columns]?: Columns[Name] | undefined }

/** A part of roll-ups. */
export interface Part {
  /** The place of the segment that it was read for. */
  readonly segment: number
  readonly tenantId: string
  /** Counted from 1970 on. */
  readonly day: number
  readonly columns: PartColumns
}

// An array in PostgreSQL's binary format has a header, in it its count, and before each element the bytes of the element; all
// are big-endian.
const headerBytes = 20
const countAt = 12
const lengthBytes = 4

/** Reads an array whose elements have so many bytes each. */
const elements =
  <Elements>(
    bytes: number,
    make: (count: number) => Elements,
    read: (to: Elements, n: number, view: DataView, at: number) => void
  ) =>
  (array: Buffer): Elements => {
    const view = new DataView(array.buffer, array.byteOffset, array.byteLength)
    const count = array.length > headerBytes ? view.getInt32(countAt) : 0
    const found = make(count)
    for (let n = 0, at = headerBytes + lengthBytes; n < count; n++, at += lengthBytes + bytes) read(found, n, view, at)
    return found
  }

const smallints = elements(
  2,
  (count) => new Int16Array(count),
  (to, n, view, at) => (to[n] = view.getInt16(at))
)
const integers = elements(
  4,
  (count) => new Int32Array(count),
  (to, n, view, at) => (to[n] = view.getInt32(at))
)
/** As doubles, which are exact up to 2^53. */
const doubles = elements(
  8,
  (count) => new Float64Array(count),
  (to, n, view, at) => (to[n] = view.getInt32(at) * 2 ** 32 + view.getUint32(at + 4))
)
const bigints = elements(
  8,
  (count): Bigints => ({ upper: new Int32Array(count), lower: new Uint32Array(count) }),
  ({ lower, upper }, n, view, at) => {
    upper[n] = view.getInt32(at)
    lower[n] = view.getUint32(at + 4)
  }
)

const texts = (array: Buffer): ReadonlyArray<string> => {
  const count = array.length > headerBytes ? array.readInt32BE(countAt) : 0
  const found: Array<string> = []
  let at = headerBytes
  let before = array.subarray(0, 0)
  for (let n = 0; n < count; n++) {
    const begins = at + lengthBytes
    at = begins + array.readInt32BE(at)
    const bytes = array.subarray(begins, at)
    // The cells of a key follow each other.
    found.push(n > 0 && bytes.equals(before) ? found[n - 1]! : bytes.toString())
    before = bytes
  }
  return found
}

const readers: { readonly [Column in keyof Columns]: (array: Buffer) => Columns[Column] } = {
  keys: texts,
  places: smallints,
  cost: bigints,
  requests: bigints,
  errors: bigints,
  inputTokens: bigints,
  outputTokens: bigints,
  cachedInputTokens: bigints,
  saved: bigints,
  latencyEnds: integers,
  latencyBuckets: smallints,
  latencyCalls: doubles
}

/** Reads columns of a part from PostgreSQL's binary format. */
export const columnsOf = (
  names: ReadonlyArray<keyof Columns>,
  arrays: ReadonlyArray<Uint8Array | null>
): PartColumns => {
  const found: Record<string, Columns[keyof Columns] | undefined> = {}
  for (const [place, name] of names.entries()) {
    const array = arrays[place]
    found[name] = array ? readers[name](Buffer.from(array.buffer, array.byteOffset, array.byteLength)) : undefined
  }
  return found
}

/** The places of keys. */
export class Keys {
  readonly texts: Array<string> = []
  readonly #places = new Map<string, number>()

  constructor(keys: Iterable<string>) {
    for (const key of keys) this.placeOf(key)
  }

  /** The place of a key; below zero where there is none. */
  find(key: string): number {
    return this.#places.get(key) ?? -1
  }

  /** The place of a key, which is a new one where there was none. */
  placeOf(key: string): number {
    let place = this.#places.get(key)
    if (place === undefined) {
      place = this.texts.push(key) - 1
      this.#places.set(key, place)
    }
    return place
  }
}

const widths: Readonly<Record<Segment["grain"], number>> = {
  w: dayMillis,
  d: dayMillis,
  h: hourMillis,
  q: quarterMillis,
  r: dayMillis,
  s: dayMillis
}

/** The place of the last of `cuts` that a moment is not before. */
export const placeOf = (cuts: ReadonlyArray<number>, at: number): number => {
  let low = 0
  let high = cuts.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (cuts[middle]! <= at) low = middle + 1
    else high = middle
  }
  return low - 1
}

/** What a reader wants of parts. */
export interface Wanted {
  readonly segments: ReadonlyArray<Segment>
  readonly cuts: ReadonlyArray<number>
  /** The place of the key that a part and a cell of it are of; below zero for one that is not wanted. */
  readonly keyOf: (part: Part, key: string) => number
}

/** Visits the wanted cells of a part, each with the place of its key, that between cuts, and its own in the columns. */
export const eachCell = (
  { cuts, keyOf, segments }: Wanted,
  part: Part,
  visit: (key: number, place: number, n: number) => void
): void => {
  const { keys, places } = part.columns
  if (keys === undefined || places === undefined) return
  const { closes, grain, opens } = segments[part.segment]!
  const start = part.day * dayMillis
  const width = widths[grain]
  // What was read from rows is of its segment alone.
  const low = grain === "r" ? 0 : Math.max(0, (opens - start) / width)
  const high = grain === "r" ? 1 : (closes - start) / width
  // Cells with one place of a week or a day are in one range between cuts; an hour's is looked up once in a part.
  const between: Array<number> = []
  const last = cuts.length === 2 ? 0 : -1
  let before: string | undefined
  let key = -1
  for (let n = 0; n < keys.length; n++) {
    const place = places[n]!
    if (place < low || place >= high) continue
    const text = keys[n]!
    // The cells of a key follow each other.
    if (text !== before) {
      key = keyOf(part, text)
      before = text
    }
    if (key < 0) continue
    visit(key, last === 0 ? 0 : (between[place] ??= placeOf(cuts, grain === "r" ? opens : start + place * width)), n)
  }
}

/** Where the lower half of a sum gives what is above 32 bits to the upper one: far below what a double holds exactly. */
const carryFrom = 2 ** 52

/**
 * Sums of some columns of each key and each place between cuts. A sum is in two halves of 32 bits and more, since it may be
 * larger than its columns' type allows, and since each `bigint` would be an object.
 */
export class CellSums {
  readonly #places: number
  readonly #names: ReadonlyArray<SumColumn>
  readonly #columns: number
  #upper = new Float64Array(0)
  #lower = new Float64Array(0)
  #hasCells = new Uint8Array(0)

  constructor(places: number, columns: ReadonlyArray<SumColumn>) {
    this.#places = places
    this.#names = columns
    this.#columns = columns.length
  }

  #at(key: number, place: number): number {
    const cell = key * this.#places + place
    if (cell >= this.#hasCells.length) {
      const cells = Math.max(64, cell + this.#places, this.#hasCells.length * 2)
      this.#hasCells = grown(this.#hasCells, new Uint8Array(cells))
      this.#upper = grown(this.#upper, new Float64Array(cells * this.#columns))
      this.#lower = grown(this.#lower, new Float64Array(cells * this.#columns))
    }
    this.#hasCells[cell] = 1
    return cell * this.#columns
  }

  #add(at: number, upper: number, lower: number): void {
    this.#upper[at]! += upper
    const sum = this.#lower[at]! + lower
    if (sum < carryFrom) {
      this.#lower[at] = sum
    } else {
      this.#upper[at]! += Math.floor(sum / 2 ** 32)
      this.#lower[at] = sum % 2 ** 32
    }
  }

  add(key: number, place: number, values: ReadonlyArray<bigint>): void {
    const at = this.#at(key, place)
    for (const [column, value] of values.entries()) {
      this.#add(at + column, Number(value >> 32n), Number(value & 0xffff_ffffn))
    }
  }

  addPart(wanted: Wanted, part: Part): void {
    const columns = this.#names.map((name) => part.columns[name])
    eachCell(wanted, part, (key, place, n) => {
      const at = this.#at(key, place)
      for (let column = 0; column < columns.length; column++) {
        const values = columns[column]!
        this.#add(at + column, values.upper[n]!, values.lower[n]!)
      }
    })
  }

  /** Reads the sums of a key and a place; false where there are no cells of them. */
  read(key: number, place: number, use: (column: number, sum: bigint) => void): boolean {
    const cell = key * this.#places + place
    if (this.#hasCells[cell] !== 1) return false
    for (let column = 0; column < this.#columns; column++) {
      const at = cell * this.#columns + column
      use(column, (BigInt(this.#upper[at]!) << 32n) + BigInt(this.#lower[at]!))
    }
    return true
  }
}

const grown = <Values extends Uint8Array | Float64Array>(had: Values, room: Values): Values => {
  room.set(had)
  return room
}

// The buckets of all latencies that `bigint` has in milliseconds are from -1 to 458.
const firstBucket = -1
const buckets = 460

/** Histograms of latencies, each of a key and a place between cuts. */
export class Histograms {
  static readonly columns = ["latencyEnds", "latencyBuckets", "latencyCalls"] as const

  readonly #places: number
  readonly #calls = new Map<number, Float64Array>()

  constructor(places: number) {
    this.#places = places
  }

  #of(key: number, place: number): Float64Array {
    const name = key * this.#places + place
    let calls = this.#calls.get(name)
    if (calls === undefined) this.#calls.set(name, (calls = new Float64Array(buckets)))
    return calls
  }

  add(key: number, place: number, bucket: number, calls: number): void {
    this.#of(key, place)[bucket - firstBucket]! += calls
  }

  addPart(wanted: Wanted, part: Part): void {
    const { latencyBuckets: inBuckets, latencyCalls: calls, latencyEnds: ends } = part.columns
    if (ends === undefined || inBuckets === undefined || calls === undefined) return
    // The histograms of a part follow each other in the order of its cells.
    eachCell(wanted, part, (key, place, n) => {
      const end = ends[n]!
      const sums = this.#of(key, place)
      for (let at = n === 0 ? 0 : ends[n - 1]!; at < end; at++) sums[inBuckets[at]! - firstBucket]! += calls[at]!
    })
  }

  /** The buckets of the median and of the 95th percentile of each histogram that has calls. */
  percentiles(): ReadonlyArray<{
    readonly key: number
    readonly place: number
    readonly p50: number
    readonly p95: number
  }> {
    return [...this.#calls].flatMap(([name, calls]) => {
      const all = calls.reduce((sum, some) => sum + some, 0)
      const key = Math.floor(name / this.#places)
      return all === 0
        ? []
        : [{ key, place: name % this.#places, p50: bucketOf(calls, all * 0.5), p95: bucketOf(calls, all * 0.95) }]
    })
  }
}

const bucketOf = (calls: Float64Array, share: number): number => {
  let upTo = 0
  return calls.findIndex((some) => (upTo += some) >= share) + firstBucket
}
