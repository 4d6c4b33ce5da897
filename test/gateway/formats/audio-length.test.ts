import { assert, describe, it } from "@effect/vitest"
import { AudioLength } from "../../../src/gateway/formats/openai-transcriptions/audio-length.ts"
import { wav } from "../../support/media-vendor.ts"

const length = 80_000

/** The most seconds of a file of a length that begins so, and comes in chunks of a size. */
const secondsOf = (head: Uint8Array | string, chunkBytes: number, bytes = length) => {
  const file = Buffer.concat([Buffer.from(head as string, "latin1"), Buffer.alloc(bytes)]).subarray(0, bytes)
  const seen = new AudioLength()
  for (let at = 0; at < bytes; at += chunkBytes) seen.add(file.subarray(at, at + chunkBytes))
  return seen.end().maxSeconds
}

const rateOf = (head: Uint8Array | string, chunkBytes = length) => length / secondsOf(head, chunkBytes)

const mp3 = "\xff\xfb\x90\x00"
const id3 = (size: number) => `ID3\x04\x00\x00\x00\x00\x00${String.fromCharCode(size)}${"\0".repeat(size)}`

describe("the most seconds of an audio file", () => {
  it("goes by the lowest rate of its codec", () => {
    assert.strictEqual(rateOf(mp3), 1000)
    assert.strictEqual(rateOf(id3(20) + mp3), 1000)
    assert.strictEqual(rateOf("\xff\xf1\x50\x80"), 50)
    assert.strictEqual(rateOf(`OggS${"\0".repeat(24)}OpusHead`), 8)
    assert.strictEqual(rateOf("fLaC"), 1)
    assert.strictEqual(rateOf(`\0\0\0\x20ftypM4A ${"\0".repeat(100)}mp4a`), 50)
    assert.strictEqual(rateOf(`\x1a\x45\xdf\xa3${"\0".repeat(100)}A_OPUS`), 8)
    assert.strictEqual(rateOf(wav({ rate: 44_100 })), 8000)
  })

  it("believes no header that makes it shorter", () => {
    assert.strictEqual(rateOf(wav({ rate: 4_000_000_000 })), 8000)
    assert.strictEqual(rateOf(wav({ rate: 4000, channels: 1, bits: 8 })), 4000)
    assert.strictEqual(rateOf(wav({ rate: 0 })), 1)
    // Compressed audio in a WAV, another codec behind the sign of one, and tags before FLAC.
    assert.strictEqual(rateOf(wav({ tag: 0x11 })), 1)
    assert.strictEqual(rateOf(`${id3(20)}fLaC`), 1)
    assert.strictEqual(rateOf(`OggS${"\0".repeat(24)}\x7fFLAC`), 1)
    assert.strictEqual(rateOf(`\0\0\0\x20ftypM4A mp4a${"\0".repeat(100)}alac`), 1)
    // MPEG audio of a bitrate of its own.
    assert.strictEqual(rateOf("\xff\xfb\x00\x00"), 1)
    assert.strictEqual(rateOf("anything"), 1)
  })

  it("does not depend on how the file arrived", () => {
    const head = `\0\0\0\x20ftypM4A ${"\0".repeat(100)}mp4a${"\0".repeat(3000)}alac`
    for (const size of [1, 3, 7, 64, 1000]) {
      assert.strictEqual(rateOf(head, size), 1)
      assert.strictEqual(rateOf(id3(20) + mp3, size), 1000)
    }
  })

  it("looks at the beginning of a longer file, and for other codecs at all of it", () => {
    const bytes = 600_000
    const brand = "\0\0\0\x20ftypM4A "
    for (const size of [1000, 65_536, bytes]) {
      assert.strictEqual(secondsOf(`${brand}${"\0".repeat(500_000)}mp4a`, size, bytes), bytes / 50)
      assert.strictEqual(secondsOf(`${brand}mp4a${"\0".repeat(262_144 - 18)}alac`, size, bytes), bytes)
      assert.strictEqual(secondsOf(`\x1a\x45\xdf\xa3${"\0".repeat(300_000)}A_OPUS`, size, bytes), bytes)
      assert.strictEqual(secondsOf(`\x1a\x45\xdf\xa3A_OPUS${"\0".repeat(500_000)}A_FLAC`, size, bytes), bytes)
    }
  })
})
