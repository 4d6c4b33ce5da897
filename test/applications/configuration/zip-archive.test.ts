import { assert, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
import * as zlib from "node:zlib"
import { manifestName, nodesOfZip } from "../../../src/applications/configuration/trees/zip-archive.ts"
import { emptyBlocks, type ZipEntry, zipOf } from "../../support/zip.ts"

const nextTurn = Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))

it.effect("unpacks in slices, between which the service does other work", () =>
  Effect.gen(function* () {
    const archive = zipOf([{ name: "a.txt", deflated: emptyBlocks(1_000_000) }])
    const reading = yield* Effect.forkChild(nodesOfZip(archive), { startImmediately: true })
    let turns = 0
    while (reading.pollUnsafe() === undefined) {
      yield* nextTurn
      turns += 1
    }
    assert.deepStrictEqual(yield* Fiber.join(reading), [{ path: "/a.txt", type: "file", content: "" }])
    assert.isAtLeast(turns, 20)
  })
)

it.effect("refuses an entry that is packed to more than its content could be", () =>
  Effect.gen(function* () {
    const refused = yield* Effect.flip(nodesOfZip(zipOf([{ name: "a.txt", deflated: emptyBlocks(1_200_000) }])))
    assert.deepInclude(refused, { _tag: "PayloadTooLarge", detail: "a.txt unpacks to more than may be stored." })
  })
)

it.effect("reads a file of the largest size, and others after it", () =>
  Effect.gen(function* () {
    const content = "x".repeat(1_048_576)
    const names = ["a", "b", "c"]
    const nodes = yield* nodesOfZip(zipOf(names.map((name) => ({ name, content }))))
    assert.deepStrictEqual(
      nodes,
      names.map((name) => ({ path: `/${name}`, type: "file" as const, content }))
    )
  })
)

const manifestOf = (count: number) => ({
  name: manifestName,
  content: JSON.stringify({
    schemas: Object.fromEntries(
      Array.from({ length: count }, (_, index) => [`/${index}${"/name".repeat(20)}`, "/schema"])
    )
  })
})

it.effect("reads a manifest that is larger than a file may be, of as many schemas as there may be files", () =>
  Effect.gen(function* () {
    const manifest = manifestOf(20_000)
    assert.isAbove(manifest.content.length, 2_000_000)
    const name = `7${"/name".repeat(20)}`
    const nodes = yield* nodesOfZip(zipOf([manifest, { name, content: "{}" }]))
    assert.deepStrictEqual(nodes, [{ path: `/${name}`, type: "file", content: "{}", schema: "/schema" }])
    const refused = yield* Effect.flip(nodesOfZip(zipOf([manifestOf(20_001)])))
    assert.strictEqual(refused._tag, "ConfigurationArchiveUnreadable")
  })
)

const messagesOf = (...entries: ReadonlyArray<ZipEntry>) =>
  Effect.map(Effect.flip(nodesOfZip(zipOf(entries))), (error) =>
    error._tag === "ValidationFailed" ? error.errors.map(({ message }) => message) : [error._tag]
  )

it.effect(
  "400: names that are no UTF-8, symbolic links of any name, a second manifest, and paths that lead elsewhere",
  () =>
    Effect.gen(function* () {
      const manifest = { name: manifestName, content: '{"schemas":{}}' }
      const unportable = "Expected no drive letter and one manifest"
      const noPath = "Expected a path of names that a file or folder may have"
      assert.deepStrictEqual(yield* messagesOf({ name: Buffer.from([0xff, 0xfe]) }), [
        "Expected a name in UTF-8, and the same in the directory of the archive"
      ])
      assert.deepStrictEqual(
        yield* messagesOf({ name: Buffer.from([0x82, 0x61]), isUtf8: false, mode: 0o120777, content: "/etc/passwd" }),
        ["Expected a file or folder, no symbolic link"]
      )
      assert.deepStrictEqual(yield* messagesOf(manifest, manifest), [unportable])
      for (const name of ["C:/x", "c:\\x"]) assert.deepStrictEqual(yield* messagesOf({ name }), [unportable], name)
      for (const name of ["..\\x", "../x", "/../x", "a/./../b", "a\\..\\..\\b"]) {
        assert.deepStrictEqual(yield* messagesOf({ name }), [noPath], name)
      }
      const fine = yield* nodesOfZip(zipOf([{ name: Buffer.from([0x82, 0x61]), isUtf8: false }, { name: "\ufffd" }]))
      assert.deepStrictEqual(
        fine.map(({ path }) => path),
        ["/éa", "/\ufffd"]
      )
    })
)

it.effect("reads an archive whose comment contains the mark of an end", () =>
  Effect.gen(function* () {
    const nodes = yield* nodesOfZip(
      zipOf([{ name: "a" }], Buffer.from("see PK\u0005\u0006, the mark of an end of archives"))
    )
    assert.deepStrictEqual(nodes, [{ path: "/a", type: "file", content: "" }])
  })
)

const pathsOf = (entries: ReadonlyArray<ZipEntry>) =>
  Effect.map(nodesOfZip(zipOf(entries)), (nodes) => nodes.map(({ path }) => path))

const appleDouble = Buffer.from("0005160700020000", "hex").toString("latin1")

for (const [tool, entries, paths] of [
  [
    "Finder",
    [
      { name: "etc/" },
      { name: ".DS_Store", content: "\0\0\0\u0001Bud1" },
      { name: "etc/m.json", content: "{}" },
      { name: "etc/Icon\r" },
      { name: "__MACOSX/" },
      { name: "__MACOSX/._.DS_Store", content: appleDouble },
      { name: "__MACOSX/etc/._m.json", content: appleDouble },
      { name: Buffer.from("etc/größe.json".normalize("NFD")), isUtf8: false }
    ],
    ["/etc", "/etc/m.json", "/etc/größe.json"]
  ],
  [
    "tar and zip on a Mac",
    [{ name: "./._m.json", content: appleDouble }, { name: "./m.json" }, { name: "./etc/.DS_Store", content: "\0" }],
    ["/m.json"]
  ],
  ["zip -r x.zip ./", [{ name: "./" }, { name: "./etc/" }, { name: "./etc/dot.json" }], ["/etc", "/etc/dot.json"]],
  [
    "Explorer",
    [
      { name: "etc/Thumbs.db", content: "\0".repeat(1_100_000) },
      { name: "Desktop.ini", content: "[.ShellClassInfo]" },
      { name: Buffer.from([0x84, 0x2e, 0x79, 0x6d, 0x6c]), isUtf8: false }
    ],
    ["/ä.yml"]
  ],
  [
    "Compress-Archive",
    [{ name: "etc\\" }, { name: "etc\\a\\b.json" }, { name: ".\\c.json" }],
    ["/etc", "/etc/a/b.json", "/c.json"]
  ],
  [
    "a program that writes absolute paths",
    [{ name: "/etc/a.json" }, { name: "etc//b.json" }],
    ["/etc/a.json", "/etc/b.json"]
  ],
  [
    "a program that writes places in 64 bits",
    [
      { name: "a", isWide: true },
      { name: "b", isWide: true }
    ],
    ["/a", "/b"]
  ]
] as const) {
  it.effect(`reads what ${tool} writes, and leaves out what is no part of the tree`, () =>
    Effect.map(pathsOf(entries), (found) => assert.deepStrictEqual(found, paths))
  )
}

// Of `zip -r -fz w.zip ./etc b.yaml` (Info-ZIP 3.0).
const wideArchive =
  "UEsDBC0AAAAAAHJBe10AAAAA//////////8EADAAZXRjL1VUCQADODsJazg7CWt1eAsAAQQAAAAABAAAAAABABAAAAAAAAAAAAAAAAAAAAAAAFBLAwQtAAAAAAByQXtdr6wbVv//////////CgAwAGV0Yy9hLmpzb25VVAkAAzg7CWs4OwlrdXgLAAEEAAAAAAQAAAAAAQAQAAcAAAAAAAAABwAAAAAAAAB7ImEiOjF9UEsDBC0AAAAAAHJBe12a7NOO//////////8GADAAYi55YW1sVVQJAAM4OwlrODsJa3V4CwABBAAAAAAEAAAAAAEAEAAFAAAAAAAAAAUAAAAAAAAAeDogMQpQSwECHgMKAAAAAAByQXtdAAAAAAAAAAD/////BAAkAAAAAAAAABAA7UEAAAAAZXRjL1VUBQADODsJa3V4CwABBAAAAAAEAAAAAAEACAAAAAAAAAAAAFBLAQIeAy0AAAAAAHJBe12vrBtWBwAAAP////8KACQAAAAAAAEAAACkgVIAAABldGMvYS5qc29uVVQFAAM4OwlrdXgLAAEEAAAAAAQAAAAAAQAIAAcAAAAAAAAAUEsBAh4DLQAAAAAAckF7XZrs044FAAAA/////wYAJAAAAAAAAQAAAKSBsQAAAGIueWFtbFVUBQADODsJa3V4CwABBAAAAAAEAAAAAAEACAAFAAAAAAAAAFBLBgYsAAAAAAAAAB4DLQAAAAAAAAAAAAMAAAAAAAAAAwAAAAAAAAAKAQAAAAAAAAoBAAAAAAAAUEsGBwAAAAAUAgAAAAAAAAEAAABQSwUGAAAAAAMAAwAKAQAA/////wAA"

it.effect("reads an archive with an end record of 64 bits", () =>
  Effect.gen(function* () {
    const bytes = Buffer.from(wideArchive, "base64")
    assert.deepStrictEqual(yield* nodesOfZip(bytes), [
      { path: "/etc", type: "folder" },
      { path: "/etc/a.json", type: "file", content: '{"a":1}' },
      { path: "/b.yaml", type: "file", content: "x: 1\n" }
    ])
    // Its end records may lie, which must cost no more than the archive.
    for (let at = bytes.length - 98; at < bytes.length; at++) {
      const torn = Uint8Array.from(bytes)
      torn[at] = 0xff
      const exit = yield* Effect.exit(nodesOfZip(torn))
      if (exit._tag === "Failure") assert.include(JSON.stringify(exit.cause), "configuration-archive-unreadable")
    }
  })
)

/** What follows the data of an entry: its checksum and sizes, with or without a signature, of 32 or 64 bits. */
const descriptorOf = (content: string, { isSigned = true, isWide = false } = {}): Uint8Array => {
  const size = Buffer.alloc(isWide ? 8 : 4)
  size.writeUInt32LE(content.length)
  const crc = Buffer.alloc(4)
  crc.writeUInt32LE(zlib.crc32(content))
  return Buffer.concat([Buffer.from(isSigned ? "PK\u0007\u0008" : "", "latin1"), crc, size, size])
}

for (const [tool, entries] of [
  [
    "zip -r - . does, for empty files",
    [
      { name: "etc/empty", content: "", descriptor: descriptorOf("") },
      { name: "a.json", content: "{}" }
    ]
  ],
  [
    "archive/zip of Go and zipfile of Python do",
    [
      { name: "a.json", content: '{"a":1}', descriptor: descriptorOf('{"a":1}') },
      { name: "b.json", content: "PK\u0003\u0004", descriptor: descriptorOf("PK\u0003\u0004") }
    ]
  ],
  [
    "older tools do, without a signature",
    [
      { name: "a", content: "b", descriptor: descriptorOf("b", { isSigned: false }) },
      { name: "c", content: "d" }
    ]
  ],
  ["tools of large files do", [{ name: "a", content: "b", descriptor: descriptorOf("b", { isWide: true }) }]]
] as const) {
  it.effect(`reads what is stored before its size is known, as ${tool}`, () =>
    Effect.gen(function* () {
      const nodes = yield* nodesOfZip(zipOf(entries))
      assert.deepStrictEqual(
        nodes.map((node) => [node.path, node.content]),
        entries.map(({ content, name }) => [`/${name}`, content])
      )
    })
  )
}

it.effect("400: a directory whose sizes are not those of what is stored", () =>
  Effect.gen(function* () {
    const hidden = Buffer.from(zipOf([{ name: "hidden" }])).subarray(0, 36)
    for (const descriptor of [
      descriptorOf("other"),
      Buffer.alloc(13),
      Buffer.concat([descriptorOf("content"), hidden]),
      new Uint8Array()
    ]) {
      const archive = Buffer.from(zipOf([{ name: "a", content: "content", descriptor }]))
      if (descriptor.length === 16)
        archive.writeUInt32LE(0, archive.lastIndexOf(Buffer.from("PK\u0001\u0002", "latin1")) + 16)
      const refused = yield* Effect.flip(nodesOfZip(archive))
      assert.strictEqual(refused._tag, "ConfigurationArchiveUnreadable")
    }
  })
)
