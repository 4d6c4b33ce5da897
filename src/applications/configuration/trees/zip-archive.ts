import { Effect, Result, Schema, Stream } from "effect"
import { Zip } from "effect/encoding"
import { JsonScanner, tokens } from "../../../kernel/json/json-scanner.ts"
import { type Fault } from "../../../kernel/problems/problem.ts"
import { PayloadTooLarge, ValidationFailed } from "../../../kernel/problems/problems.ts"
import { ConfigurationArchiveUnreadable, Content, maximumContentBytes } from "../model/domain.ts"
import { NodePath } from "../model/path-domain.ts"
import { type ArchiveNode, maximumArchiveNodes, tooManyNodes } from "./domain.ts"

/** The entry that says which file is checked against which schema; it is no file of the tree. */
export const manifestName = ".application-manager.json"

const maxBytes = 67_108_864

const Manifest = Schema.fromJsonString(
  Schema.Struct({ schemas: Schema.Record(Schema.String, Schema.NullOr(NodePath)) })
)
const isPath = Schema.is(NodePath)

/** What Finder and Explorer add to an archive of their own accord: nothing that a tree is to have. */
const isOfTool = (path: string): boolean =>
  /^\/__MACOSX(?:\/|$)|\/(?:\._[^/]*|\.DS_Store|Icon\r|Thumbs\.db|desktop\.ini)$/i.test(path)

/** Whether every zip reader takes a path as it is: no backslash, no drive letter, and a place that is kept for no other use. */
export const isPortable = (path: string): boolean =>
  !/^\/[A-Za-z]:|\\/.test(path) && path !== `/${manifestName}` && !isOfTool(path)

/**
 * The path of an entry as tools write it: with the backslashes of Windows, a slash or `./` before it, or letters in parts as
 * macOS has them. `/` is the root.
 */
const pathOf = (name: string): string => {
  const names = name.normalize("NFC").split(/[\\/]/)
  return `/${names.filter((one) => one !== "" && one !== ".").join("/")}`
}
const isContent = Schema.is(Content)

interface RawEntry {
  readonly name: string
  readonly path: string
  readonly isFolder: boolean
  readonly bytes: Uint8Array
  readonly listed: ListedEntry
}

/** The files and folders of a zip archive, without what tools add: 20,000 at most, 1 MiB each (but for the manifest) and 64 MiB together when unpacked. */
export const nodesOfZip = Effect.fnUntraced(function* (bytes: Uint8Array) {
  const entries = yield* entriesOf(bytes)
  const manifest = entries.find(({ path }) => path === `/${manifestName}`)
  const schemas = manifest === undefined ? {} : yield* schemasOf(manifest)
  const errors: Array<Fault> = []
  const nodes = entries.flatMap((entry): ReadonlyArray<ArchiveNode> => {
    const { path } = entry
    if (entry === manifest || path === "/" || isOfTool(path)) return []
    if (!isPath(path)) {
      errors.push({ path: ["payload", entry.name], message: "Expected a path of names that a file or folder may have" })
      return []
    }
    if (!isPortable(path)) {
      errors.push({ path: ["payload", path], message: "Expected no drive letter and one manifest" })
      return []
    }
    if (entry.listed.name !== undefined && entry.listed.name !== entry.name) {
      errors.push({
        path: ["payload", path],
        message: "Expected a name in UTF-8, and the same in the directory of the archive"
      })
      return []
    }
    if (entry.listed.isLink) {
      errors.push({ path: ["payload", path], message: "Expected a file or folder, no symbolic link" })
      return []
    }
    if (entry.isFolder) return [{ path, type: "folder" }]
    const content = utf8Of(entry.bytes)
    if (content === undefined || !isContent(content)) {
      errors.push({ path: ["payload", path], message: "Expected text in UTF-8 without NUL" })
      return []
    }
    return [{ path, type: "file", content, ...(Object.hasOwn(schemas, path) ? { schema: schemas[path] ?? null } : {}) }]
  })
  if (errors.length === 0) return nodes
  return yield* new ValidationFailed({
    errors: errors.slice(0, 100),
    detail: "The archive contains entries that a tree cannot have; `errors` lists them."
  })
})

const unreadable = (detail: string) => new ConfigurationArchiveUnreadable({ detail })

const schemasOf = ({ bytes }: RawEntry) => {
  const unlike = unreadable(`${manifestName} is not what an export writes there.`)
  return hasManyValues(bytes)
    ? Effect.fail(unlike)
    : Schema.decodeUnknownEffect(Manifest)(new TextDecoder().decode(bytes)).pipe(
        Effect.map(({ schemas }) => schemas),
        Effect.mapError(() => unlike)
      )
}

const separators: ReadonlySet<number> = new Set([tokens.comma, tokens.openBrace, tokens.openBracket])

/** Whether JSON has more values than the manifest of any archive: to parse so many would hold up the service. */
const hasManyValues = (json: Uint8Array): boolean => {
  const scanner = new JsonScanner(json)
  let count = 0
  for (let token = scanner.next(); token !== undefined; token = scanner.next()) {
    if (separators.has(token) && ++count > maximumArchiveNodes + 1) return true
  }
  return false
}

/** So much of an archive is unpacked at once: some milliseconds of work, even of blocks that unpack to nothing. */
const sliceBytes = 32_768

const slicesOf = function* (parts: Iterable<Uint8Array>) {
  for (const part of parts) {
    for (let at = 0; at < part.length; at += sliceBytes) yield part.subarray(at, at + sliceBytes)
  }
}

const tooLarge = (name: string) => new PayloadTooLarge({ detail: `${name} unpacks to more than may be stored.` })

/** Deflate adds 5 bytes to 64 KiB at most, so a longer body is made to cost time. */
const maxPacked = (unpacked: number) => unpacked + unpacked / 1000 + 1024

const entriesOf = (archive: Uint8Array) => {
  let left = maxBytes
  let count = 0
  let unpacking: { readonly name: string; readonly most: number; packed: number } | undefined
  const bytes = Buffer.from(archive.buffer, archive.byteOffset, archive.byteLength)
  const directory = directoryOf(bytes)
  const parts = directory === undefined ? [bytes] : sizedParts(bytes, directory)
  const slices = Stream.fromIterable(slicesOf(parts), { chunkSize: 1 }).pipe(
    Stream.tap(({ length }) => {
      if (unpacking === undefined) return Effect.yieldNow
      if (unpacking.packed > maxPacked(unpacking.most)) return Effect.fail(tooLarge(unpacking.name))
      unpacking.packed += length
      return Effect.yieldNow
    })
  )
  return slices.pipe(
    Stream.pipeThroughChannel(Zip.decode()),
    Stream.mapEffect(
      Effect.fnUntraced(function* (entry) {
        count += 1
        if (count > maximumArchiveNodes) return yield* tooManyNodes()
        const name = entry.header.path
        const path = pathOf(name)
        const isStored = path !== `/${manifestName}` && !isOfTool(path)
        const most = isStored ? Math.min(left, maximumContentBytes) : left
        unpacking = { name, most, packed: 0 }
        const bytes = yield* bodyOf(entry, most)
        unpacking = undefined
        left -= bytes.length
        return { name, path, isFolder: /[\\/]$/.test(name), bytes }
      })
    ),
    Stream.runCollect,
    Effect.catchTag("ZipError", ({ message }) => unreadable(message)),
    Effect.flatMap((entries) => {
      const known = entries.flatMap((entry, index): ReadonlyArray<RawEntry> => {
        const listed = directory?.entries[index]
        return listed === undefined ? [] : [{ ...entry, listed }]
      })
      return directory?.entries.length === entries.length
        ? Effect.succeed(known)
        : Effect.fail(unreadable("The body is no zip archive, or one that is cut off or damaged."))
    })
  )
}

const bodyOf = <E>({ body, header }: Zip.Entry<E>, most: number) => {
  let size = 0
  return body.pipe(
    Stream.tap((chunk) => {
      size += chunk.length
      return size > most ? Effect.fail(tooLarge(header.path)) : Effect.void
    }),
    Stream.runCollect,
    Effect.map((chunks) => new Uint8Array(Buffer.concat(chunks)))
  )
}

const endRecord = "PK\u0005\u0006"
const endRecordBytes = 22
/** In an archive that has sizes of 64 bits, the place of another end record is right before the end record. */
const wideLocator = 0x07064b50
const wideLocatorBytes = 20
const wideEnd = 0x06064b50
const wideEndBytes = 56
const wideExtra = 0x0001
/** A number that is elsewhere, in 64 bits. */
const isElsewhere = 0xffffffff
const maxCommentBytes = 65_535
const entrySignature = 0x02014b50
const entryHeaderBytes = 46
const madeOnUnix = 3
const typeBits = 0o170000
const linkType = 0o120000
const utf8Flag = 0x800
const localSignature = 0x04034b50
const localHeaderBytes = 30
const sizesFollowFlag = 0x8
const storedMethod = 0

/** What the directory at the end of a zip archive says of an entry. */
interface ListedEntry {
  /** Its name where that is marked as UTF-8; empty where it is not UTF-8 then. */
  readonly name: string | undefined
  /** Whether it is a symbolic link, which only the directory distinguishes from a file. */
  readonly isLink: boolean
  readonly offset: number
  /** Its checksum and both sizes, as a local header has them. */
  readonly sizes: Uint8Array
}

interface Directory {
  /** In the order in which they are in the archive. */
  readonly entries: ReadonlyArray<ListedEntry>
  readonly start: number
}

/** Where the record begins that ends an archive: a comment may follow it, which may contain anything. */
const endOf = (bytes: Buffer): number | undefined => {
  const first = Math.max(0, bytes.length - endRecordBytes - maxCommentBytes)
  for (let end = bytes.length - endRecordBytes; end >= first; end--) {
    end = bytes.lastIndexOf(endRecord, end, "latin1")
    if (end >= first && end + endRecordBytes + bytes.readUInt16LE(end + 20) === bytes.length) return end
  }
  return undefined
}

const wideNumber = (bytes: Buffer, at: number): number =>
  at + 8 <= bytes.length ? Number(bytes.readBigUInt64LE(at)) : bytes.length

/** Where the directory begins; behind the archive where that cannot be read. */
const directoryStart = (bytes: Buffer, end: number): number => {
  const locator = end - wideLocatorBytes
  if (locator < 0 || bytes.readUInt32LE(locator) !== wideLocator) return bytes.readUInt32LE(end + 16)
  const at = wideNumber(bytes, locator + 8)
  return at + wideEndBytes <= locator && bytes.readUInt32LE(at) === wideEnd ? wideNumber(bytes, at + 48) : bytes.length
}

/** Where an entry begins, by its place in the directory. */
const entryOffset = (bytes: Buffer, at: number, nameEnd: number): number => {
  const offset = bytes.readUInt32LE(at + 42)
  if (offset !== isElsewhere) return offset
  // The numbers that are elsewhere follow each other in this order: the size, the packed size, the offset.
  const before = [24, 20].filter((field) => bytes.readUInt32LE(at + field) === isElsewhere).length
  const extraEnd = Math.min(bytes.length, nameEnd + bytes.readUInt16LE(at + 30))
  for (let extra = nameEnd; extra + 4 <= extraEnd; extra += 4 + bytes.readUInt16LE(extra + 2)) {
    if (bytes.readUInt16LE(extra) === wideExtra) return wideNumber(bytes, extra + 4 + 8 * before)
  }
  return offset
}

/** The directory of a zip archive; undefined where it is not there, or has more entries than an archive may have. */
const directoryOf = (bytes: Buffer): Directory | undefined => {
  const end = endOf(bytes)
  if (end === undefined) return undefined
  const entries: Array<ListedEntry> = []
  const start = directoryStart(bytes, end)
  let at = start
  while (at + entryHeaderBytes <= end && bytes.readUInt32LE(at) === entrySignature) {
    if (entries.length > maximumArchiveNodes) return undefined
    const nameAt = at + entryHeaderBytes
    const nameEnd = nameAt + bytes.readUInt16LE(at + 28)
    const mode = bytes.readUInt32LE(at + 38) >>> 16
    entries.push({
      name: (bytes.readUInt16LE(at + 8) & utf8Flag) === 0 ? undefined : (utf8Of(bytes.subarray(nameAt, nameEnd)) ?? ""),
      isLink: bytes.readUInt8(at + 5) === madeOnUnix && (mode & typeBits) === linkType,
      offset: entryOffset(bytes, at, nameEnd),
      sizes: bytes.subarray(at + 16, at + 28)
    })
    at = nameEnd + bytes.readUInt16LE(at + 30) + bytes.readUInt16LE(at + 32)
  }
  return { entries: entries.toSorted((a, b) => a.offset - b.offset), start }
}

/** The checksum and two sizes after the data of an entry, with or without a signature, of 32 or 64 bits. */
const descriptorBytes: ReadonlySet<number> = new Set([12, 16, 20, 24])

/**
 * An archive with sizes before all stored data, whose end a reader of entries in their order could not find otherwise. What writes to a
 * pipe without packing (Go, Python, `zip -r - .` for empty files) has the sizes behind the data and in the directory alone.
 */
const sizedParts = function* (bytes: Buffer, { entries, start }: Directory) {
  let at = 0
  for (const [index, { offset, sizes }] of entries.entries()) {
    if (offset < at || offset + localHeaderBytes > start || bytes.readUInt32LE(offset) !== localSignature) continue
    const flags = bytes.readUInt16LE(offset + 6)
    if ((flags & sizesFollowFlag) === 0 || bytes.readUInt16LE(offset + 8) !== storedMethod) continue
    const headerEnd = offset + localHeaderBytes
    const dataStart = headerEnd + bytes.readUInt16LE(offset + 26) + bytes.readUInt16LE(offset + 28)
    const dataEnd = dataStart + Buffer.from(sizes).readUInt32LE(4)
    const next = entries[index + 1]?.offset ?? start
    if (!descriptorBytes.has(next - dataEnd)) continue
    const header = Buffer.from(bytes.subarray(offset, headerEnd))
    header.writeUInt16LE(flags & ~sizesFollowFlag, 6)
    header.set(sizes, 14)
    yield bytes.subarray(at, offset)
    yield header
    yield bytes.subarray(headerEnd, dataEnd)
    at = next
  }
  yield bytes.subarray(at)
}

/** The text of these bytes; undefined where they are not UTF-8. */
const utf8Of = (bytes: Uint8Array): string | undefined =>
  Result.getOrUndefined(Result.try(() => new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)))
