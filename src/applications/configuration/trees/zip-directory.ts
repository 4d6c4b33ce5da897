const endRecord = "PK\u0005\u0006"
const endRecordBytes = 22
const entrySignature = 0x02014b50
const entryHeaderBytes = 46
const madeOnUnix = 3
const typeBits = 0o170000
const linkType = 0o120000

/** What the directory at the end of a zip archive lists. */
export interface ZipDirectory {
  readonly count: number
  /** The names of symbolic links, which only the directory distinguishes from files. */
  readonly links: ReadonlyArray<string>
}

/** The directory of a zip archive; undefined where it is not there, or not whole. */
export const directoryOf = (archive: Uint8Array): ZipDirectory | undefined => {
  const bytes = Buffer.from(archive.buffer, archive.byteOffset, archive.byteLength)
  const end = bytes.lastIndexOf(endRecord, bytes.length, "latin1")
  if (end === -1 || end + endRecordBytes > bytes.length) return undefined
  const links: Array<string> = []
  let count = 0
  let at = bytes.readUInt32LE(end + 16)
  while (at + entryHeaderBytes <= end && bytes.readUInt32LE(at) === entrySignature) {
    const nameAt = at + entryHeaderBytes
    const nameEnd = nameAt + bytes.readUInt16LE(at + 28)
    const mode = bytes.readUInt32LE(at + 38) >>> 16
    if (bytes.readUInt8(at + 5) === madeOnUnix && (mode & typeBits) === linkType) {
      links.push(bytes.toString("utf8", nameAt, nameEnd))
    }
    count += 1
    at = nameEnd + bytes.readUInt16LE(at + 30) + bytes.readUInt16LE(at + 32)
  }
  return { count, links }
}
