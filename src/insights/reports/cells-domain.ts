import { dayMillis } from "../usage/domain.ts"
import { hourMillis, quarterMillis, type Segment } from "./domain.ts"

/** A part of roll-ups as PostgreSQL sends it: its day, counted from 1970 on, and arrays in its binary format. */
interface Part {
  /** The place of the segment that it was read for. */
  readonly segment: number
  readonly tenantId: string
  readonly day: number
  readonly keys: Uint8Array
  readonly places: Uint8Array
  /** Those that were asked for; none where the part has none of them. */
  readonly arrays: ReadonlyArray<Uint8Array>
}

const encoder = new TextEncoder()
// A key may begin with a byte order mark.
const decoder = new TextDecoder("utf-8", { ignoreBOM: true })

const viewOf = (bytes: Uint8Array) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)

// An array has a header, in it its count, and before each element the bytes of the element; all are big-endian.
const headerBytes = 20
const countAt = 12
const lengthBytes = 4

const bigintOffset = (n: number): number => headerBytes + n * 12 + lengthBytes
/** A `bigint` as a double, which is exact up to 2^53. */
const numberAt = (array: DataView, n: number): number =>
  array.getInt32(bigintOffset(n)) * 2 ** 32 + array.getUint32(bigintOffset(n) + 4)
const integerAt = (array: DataView, n: number): number => array.getInt32(headerBytes + n * 8 + lengthBytes)
const smallintAt = (array: DataView, n: number): number => array.getInt16(headerBytes + n * 6 + lengthBytes)

const hashOf = (bytes: Uint8Array, start: number, end: number): number => {
  let hash = 0
  for (let at = start; at < end; at++) hash = Math.imul(hash ^ bytes[at]!, 0x01000193)
  return hash
}

/** Whether so many bytes from one place on are those from another. */
const isSame = (one: Uint8Array, oneAt: number, other: Uint8Array, otherAt: number, length: number): boolean => {
  for (let at = 0; at < length; at++) if (one[oneAt + at] !== other[otherAt + at]) return false
  return true
}

/** The places of keys, found by their bytes: most cells are of a key that is known or not wanted, of which no text is made. */
export class Keys {
  readonly texts: Array<string> = []
  readonly #known = new Map<number, Array<{ readonly bytes: Uint8Array; readonly place: number }>>()

  constructor(keys: Iterable<string>) {
    for (const key of keys) {
      const bytes = encoder.encode(key)
      this.#add(hashOf(bytes, 0, bytes.length), bytes, key)
    }
  }

  #add(hash: number, bytes: Uint8Array, text: string): number {
    const place = this.texts.length
    const alike = this.#known.get(hash)
    if (alike === undefined) this.#known.set(hash, [{ bytes, place }])
    else alike.push({ bytes, place })
    this.texts.push(text)
    return place
  }

  /** The place of a key; below zero where there is none. */
  find(bytes: Uint8Array, start: number, length: number): number {
    for (const known of this.#known.get(hashOf(bytes, start, start + length)) ?? []) {
      if (known.bytes.length === length && isSame(known.bytes, 0, bytes, start, length)) return known.place
    }
    return -1
  }

  /** The place of a key, which is a new one where there was none. */
  findOrAdd(bytes: Uint8Array, start: number, length: number): number {
    const found = this.find(bytes, start, length)
    if (found >= 0) return found
    const key = bytes.slice(start, start + length)
    return this.#add(hashOf(key, 0, length), key, decoder.decode(key))
  }

  /** The same for a text. */
  placeOf(key: string): number {
    const bytes = encoder.encode(key)
    return this.findOrAdd(bytes, 0, bytes.length)
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
  readonly keyOf: (part: Part, bytes: Uint8Array, start: number, length: number) => number
}

/** Visits the wanted cells of a part, each with the place of its key, that between cuts, and its own in the arrays. */
export const eachCell = (
  { cuts, keyOf, segments }: Wanted,
  part: Part,
  visit: (key: number, place: number, n: number) => void
): void => {
  const { closes, grain, opens } = segments[part.segment]!
  const start = part.day * dayMillis
  const width = widths[grain]
  const low = Math.max(0, (opens - start) / width)
  const high = (closes - start) / width
  const { keys } = part
  const view = viewOf(keys)
  const count = keys.length > headerBytes ? view.getInt32(countAt) : 0
  const places = viewOf(part.places)
  // Cells with one place of a week or a day are in one range between cuts; an hour's is looked up once in a part.
  const between: Array<number> = []
  const last = cuts.length === 2 ? 0 : -1
  let at = headerBytes
  let keyAt = -1
  let keyLength = -1
  let key = -1
  for (let n = 0; n < count; n++) {
    const length = view.getInt32(at)
    const begins = at + lengthBytes
    at = begins + length
    const place = smallintAt(places, n)
    if (place < low || place >= high) continue
    // The cells of a key follow each other.
    if (keyLength !== length || !isSame(keys, keyAt, keys, begins, length)) {
      key = keyOf(part, keys, begins, length)
      keyAt = begins
      keyLength = length
    }
    if (key < 0) continue
    visit(key, last === 0 ? 0 : (between[place] ??= placeOf(cuts, start + place * width)), n)
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
  readonly #columns: number
  #upper = new Float64Array(0)
  #lower = new Float64Array(0)
  #hasCells = new Uint8Array(0)

  constructor(places: number, columns: number) {
    this.#places = places
    this.#columns = columns
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

  /** Adds the cells of a part, whose arrays are those of the columns. */
  addPart(wanted: Wanted, part: Part): void {
    const columns = part.arrays.map(viewOf)
    eachCell(wanted, part, (key, place, n) => {
      const at = this.#at(key, place)
      const offset = bigintOffset(n)
      for (let column = 0; column < columns.length; column++) {
        const array = columns[column]!
        this.#add(at + column, array.getInt32(offset), array.getUint32(offset + 4))
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

  /** Adds the histograms of a part: its arrays are their ends, their buckets, and the calls in these. */
  addPart(wanted: Wanted, part: Part): void {
    const [ends, inBuckets, calls] = part.arrays.map(viewOf)
    if (ends === undefined || inBuckets === undefined || calls === undefined) return
    // The histograms of a part follow each other in the order of its cells.
    eachCell(wanted, part, (key, place, n) => {
      const end = integerAt(ends, n)
      const sums = this.#of(key, place)
      for (let at = n === 0 ? 0 : integerAt(ends, n - 1); at < end; at++) {
        sums[smallintAt(inBuckets, at) - firstBucket]! += numberAt(calls, at)
      }
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
