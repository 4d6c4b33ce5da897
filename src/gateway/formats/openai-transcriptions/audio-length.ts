import { type FileInspection } from "../forms/form.ts"

/**
 * The fewest bytes that a second of audio takes, by what its data is and not by what its name, its media type or its headers say:
 * the lowest rates of each codec, and one byte of what may be packed to any length.
 */
const bytesPerSecond = { anything: 1, opus: 8, aac: 50, mp3: 1000, pcm: 8000 } as const

const latin1 = (bytes: Uint8Array, from: number, to: number): string =>
  Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("latin1", from, to)

/** How much of a file is looked at to see what it is. */
const headBytes = 262_144

/** Whether words are anywhere in bytes that come in chunks, split between these as well. */
class WordSearch {
  found = false
  private before = Buffer.alloc(0)
  private readonly words: ReadonlyArray<string>
  private readonly longest: number

  constructor(words: ReadonlyArray<string>) {
    this.words = words
    this.longest = Math.max(...words.map(({ length }) => length))
  }

  add(chunk: Uint8Array): void {
    if (this.found) return
    const text = Buffer.concat([this.before, chunk])
    this.found = this.words.some((word) => text.includes(word, 0, "latin1"))
    this.before = Buffer.from(text.subarray(Math.max(0, text.length - this.longest + 1)))
  }
}

const pcmTags: ReadonlySet<number> = new Set([1, 3])

/** Of uncompressed audio the rate that its header says, unless that is above the lowest: a lower one is believed. */
const wavRate = (head: Buffer): number => {
  if (head.length < 44 || latin1(head, 12, 16) !== "fmt ") return bytesPerSecond.anything
  const tag = head.readUInt16LE(20)
  const end = 20 + head.readUInt32LE(16)
  if (!pcmTags.has(tag) || end > 64 || latin1(head, end, end + 4) === "fmt ") return bytesPerSecond.anything
  const rate = head.readUInt32LE(24) * head.readUInt16LE(22) * Math.ceil(head.readUInt16LE(34) / 8)
  return Math.max(bytesPerSecond.anything, Math.min(rate, bytesPerSecond.pcm))
}

/** Where audio begins after tags of ID3 (version 2), of which a file may have several. */
const afterTags = (head: Uint8Array): number => {
  let at = 0
  while (latin1(head, at, at + 3) === "ID3" && at + 10 <= head.length) {
    const [a = 0, b = 0, c = 0, d = 0] = head.subarray(at + 6, at + 10)
    at += 10 + ((a & 0x7f) << 21) + ((b & 0x7f) << 14) + ((c & 0x7f) << 7) + (d & 0x7f)
  }
  return at
}

/** Of a stream of frames: MPEG audio whose first frame has a bitrate, or AAC in ADTS. */
const frameRate = (first: number, second: number, third: number): number => {
  if (first !== 0xff || (second & 0xe0) !== 0xe0) return bytesPerSecond.anything
  const layer = (second >> 1) & 3
  if (layer === 0) return (second & 0xf0) === 0xf0 ? bytesPerSecond.aac : bytesPerSecond.anything
  const bitrate = third >> 4
  return bitrate === 0 || bitrate === 15 ? bytesPerSecond.anything : bytesPerSecond.mp3
}

/** What a file is by its beginning, and what is to be in the whole of it for that, or not to be. */
interface Codec {
  readonly bytesPerSecond: number
  readonly has?: WordSearch
  readonly lacks?: WordSearch
}

const anything: Codec = { bytesPerSecond: bytesPerSecond.anything }

const codecOf = (head: Buffer): Codec => {
  if (latin1(head, 0, 4) === "RIFF" && latin1(head, 8, 12) === "WAVE") return { bytesPerSecond: wavRate(head) }
  if (latin1(head, 0, 4) === "OggS") {
    return latin1(head, 28, 36) === "OpusHead" ? { bytesPerSecond: bytesPerSecond.opus } : anything
  }
  if (latin1(head, 4, 8) === "ftyp") {
    const lacks = new WordSearch(["Opus", "alac", "fLaC", "raw "])
    return { bytesPerSecond: bytesPerSecond.aac, has: new WordSearch(["mp4a"]), lacks }
  }
  if (head.length > 4 && head.readUInt32BE(0) === 0x1a45dfa3) {
    if (!head.includes("A_OPUS", 0, "latin1")) return anything
    const lacks = new WordSearch(["A_FLAC", "A_VORBIS", "A_PCM", "A_TTA", "A_WAVPACK"])
    return { bytesPerSecond: bytesPerSecond.opus, lacks }
  }
  const at = afterTags(head)
  return { bytesPerSecond: frameRate(head[at] ?? 0, head[at + 1] ?? 0, head[at + 2] ?? 0) }
}

/** Finds the most seconds of audio that a file may have, while it arrives. */
export class AudioLength implements FileInspection {
  private length = 0
  private head: Buffer | undefined = Buffer.allocUnsafeSlow(headBytes)
  private codec = anything

  add(chunk: Uint8Array): void {
    const { head } = this
    const before = this.length
    this.length += chunk.length
    if (head === undefined) return this.search(chunk)
    head.set(chunk.subarray(0, headBytes - before), before)
    if (this.length < headBytes) return
    this.begin(head)
    this.search(chunk.subarray(headBytes - before))
  }

  end(): { readonly maxSeconds: number } {
    if (this.head !== undefined) this.begin(this.head.subarray(0, this.length))
    const { bytesPerSecond: most, has, lacks } = this.codec
    const isAsItSeems = has?.found !== false && lacks?.found !== true
    return { maxSeconds: Math.ceil(this.length / (isAsItSeems ? most : bytesPerSecond.anything)) }
  }

  private begin(head: Buffer): void {
    this.head = undefined
    this.codec = codecOf(head)
    this.search(head)
  }

  private search(bytes: Uint8Array): void {
    this.codec.has?.add(bytes)
    this.codec.lacks?.add(bytes)
  }
}
