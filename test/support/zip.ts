import * as zlib from "node:zlib"

/** An entry as a hostile writer may make it. */
export interface ZipEntry {
  readonly name: string | Uint8Array
  /** What it unpacks to. */
  readonly content?: string
  /** Deflated bytes in place of those of the content. */
  readonly deflated?: Uint8Array
  readonly mode?: number
  /** Whether its name is marked as UTF-8. */
  readonly isUtf8?: boolean
  /** Whether the directory has its place in 64 bits. */
  readonly isWide?: boolean
  /** What is between its data and the next entry, in place of sizes before the data. */
  readonly descriptor?: Uint8Array
}

/** A zip archive of such entries, made on Unix. */
export const zipOf = (entries: ReadonlyArray<ZipEntry>, comment: Uint8Array = new Uint8Array()): Uint8Array => {
  const bodies: Array<Buffer> = []
  const directory: Array<Buffer> = []
  let offset = 0
  for (const entry of entries) {
    const { content = "", deflated, descriptor, isUtf8 = true, isWide = false, mode = 0o100644, name } = entry
    const nameBytes = Buffer.from(name)
    const plain = Buffer.from(content)
    const data = Buffer.from(deflated ?? plain)
    const header = Buffer.alloc(30)
    header.writeUInt32LE(0x04034b50, 0)
    header.writeUInt16LE(20, 4)
    header.writeUInt16LE(isUtf8 ? 0x800 : 0, 6)
    header.writeUInt16LE(deflated === undefined ? 0 : 8, 8)
    header.writeUInt32LE(zlib.crc32(plain), 14)
    header.writeUInt32LE(data.length, 18)
    header.writeUInt32LE(plain.length, 22)
    header.writeUInt16LE(nameBytes.length, 26)
    const listed = Buffer.alloc(46)
    listed.writeUInt32LE(0x02014b50, 0)
    listed.writeUInt16LE(3 * 256 + 20, 4)
    header.copy(listed, 6, 4, 28)
    listed.writeUInt32LE(mode * 65_536, 38)
    listed.writeUInt32LE(isWide ? 0xffffffff : offset, 42)
    const extra = Buffer.alloc(isWide ? 16 : 0)
    if (isWide) {
      extra.writeUInt32LE(0x99990000, 0)
      extra.writeUInt32LE(0x00080001, 4)
      extra.writeBigUInt64LE(BigInt(offset), 8)
      listed.writeUInt16LE(extra.length, 30)
    }
    if (descriptor !== undefined) {
      header.writeUInt16LE(header.readUInt16LE(6) | 8, 6)
      header.fill(0, 14, 26)
    }
    bodies.push(header, nameBytes, data, Buffer.from(descriptor ?? []))
    directory.push(listed, nameBytes, extra)
    offset += header.length + nameBytes.length + data.length + (descriptor?.length ?? 0)
  }
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50, 0)
  end.writeUInt16LE(entries.length, 8)
  end.writeUInt16LE(entries.length, 10)
  end.writeUInt32LE(Buffer.concat(directory).length, 12)
  end.writeUInt32LE(offset, 16)
  end.writeUInt16LE(comment.length, 20)
  return Buffer.concat([...bodies, ...directory, end, comment])
}

/** A deflated stream of about so many bytes that unpacks to nothing. */
export const emptyBlocks = (bytes: number): Uint8Array =>
  Buffer.concat([
    Buffer.alloc(Math.floor(bytes / 5) * 5, Buffer.from([0, 0, 0, 255, 255])),
    Buffer.from([1, 0, 0, 255, 255])
  ])
