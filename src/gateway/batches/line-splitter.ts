import { Effect, Stream } from "effect"

const lineFeed = 0x0a
const isBlankByte = (byte: number): boolean => byte === 0x20 || byte === 0x0d || byte === 0x09

/** Whether a line has nothing but white space. */
export const isBlankLine = (line: Uint8Array): boolean => line.every(isBlankByte)

/** Cuts bytes into lines. What is left at the end is the last one. */
export class LineSplitter {
  /** The first byte that is not white space. */
  first: number | undefined
  private rest: Array<Uint8Array> = []
  private length = 0
  private readonly longest: number

  constructor(longest: number) {
    this.longest = longest
  }

  /** Whether a line is longer than any may be. */
  get isTooLong(): boolean {
    return this.length > this.longest
  }

  push(bytes: Uint8Array): ReadonlyArray<Uint8Array> {
    this.first ??= bytes.find((byte) => byte !== lineFeed && !isBlankByte(byte))
    const lines: Array<Uint8Array> = []
    let from = 0
    for (let at = bytes.indexOf(lineFeed); at >= 0; at = bytes.indexOf(lineFeed, from)) {
      lines.push(this.end(bytes.subarray(from, at)))
      from = at + 1
    }
    if (from < bytes.length) {
      this.rest.push(bytes.subarray(from))
      this.length += bytes.length - from
    }
    return lines
  }

  end(last: Uint8Array = new Uint8Array()): Uint8Array {
    const line = this.rest.length === 0 ? last : Buffer.concat([...this.rest, last])
    this.rest = []
    this.length = 0
    return line
  }
}

/** The lines of a stream that are not blank, each with its number from 1 on; fails at one with more than `longest` bytes. */
export const linesIn = <E, R, F>(
  bytes: Stream.Stream<Uint8Array, E, R>,
  longest: number,
  tooLong: (line: number) => F
): Stream.Stream<readonly [bytes: Uint8Array, line: number], E | F, R> =>
  Stream.suspend(() => {
    const splitter = new LineSplitter(longest)
    let count = 0
    const numbered = (lines: ReadonlyArray<Uint8Array>) =>
      lines.flatMap((line) => {
        count++
        return isBlankLine(line) ? [] : [[line, count] as const]
      })
    const cut = Stream.mapEffect(bytes, (chunk) => {
      const lines = numbered(splitter.push(chunk))
      return splitter.isTooLong ? Effect.fail(tooLong(count + 1)) : Effect.succeed(lines)
    })
    const last = Stream.suspend(() => Stream.fromIterable(numbered([splitter.end()])))
    return Stream.concat(Stream.flattenIterable(cut), last)
  })
