import { assert, it } from "@effect/vitest"
import { Effect, Fiber } from "effect"
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
  "400: names that are no UTF-8, symbolic links of any name, a second manifest, and paths that an export refuses",
  () =>
    Effect.gen(function* () {
      const manifest = { name: manifestName, content: '{"schemas":{}}' }
      const unportable = "Expected no backslash, no drive letter and one manifest"
      assert.deepStrictEqual(yield* messagesOf({ name: Buffer.from([0xff, 0xfe]) }), [
        "Expected a name in UTF-8, and the same in the directory of the archive"
      ])
      assert.deepStrictEqual(
        yield* messagesOf({ name: Buffer.from([0x82, 0x61]), isUtf8: false, mode: 0o120777, content: "/etc/passwd" }),
        ["Expected a file or folder, no symbolic link"]
      )
      assert.deepStrictEqual(yield* messagesOf(manifest, manifest), [unportable])
      for (const name of ["..\\x", "C:/x", "a\\b"])
        assert.deepStrictEqual(yield* messagesOf({ name }), [unportable], name)
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
